"""Throughput against latency: one point for each concurrency, named by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from console.domain.bench.result import BenchResult

from .lines import Line, Span, fit_line, spread
from .meter import Glyphs, count
from .throughput_chart import LABEL_WIDTH, value_ticks

AXIS_ROWS = 2
LEAST_ROWS = 3
FREE = " "


class Point(NamedTuple):
    """A result's place."""

    latency_ms: float
    throughput: float
    name: str


def scatter(results: Sequence[BenchResult], width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """At most `height` rows: output tokens a second upwards, median end-to-end latency to the right."""
    points = [point for result in results if (point := _point(result)) is not None]
    rows = height - AXIS_ROWS - 1
    if not points or rows < LEAST_ROWS:
        said = "too little room for a chart" if points else "no request succeeded: nothing to draw"
        return [fit_line((Span(said, "muted"),), width, glyphs)]
    title = (Span("output tok/s", "strong"), Span(" against median E2E latency", "muted"))
    return [fit_line(title, width, glyphs), *_drawn(points, width, rows, glyphs)]


def _point(result: BenchResult) -> Point | None:
    median = result.figures.e2e_latency_ms.median
    if median is None:
        return None
    return Point(median, result.figures.output_throughput, f"C={result.context.max_concurrency}")


def _drawn(points: Sequence[Point], width: int, rows: int, glyphs: Glyphs) -> list[Line]:
    room = width - LABEL_WIDTH - 1
    top = value_ticks(max(point.throughput for point in points), rows)
    right = value_ticks(max(point.latency_ms for point in points), rows)[-1]
    grid = [[FREE] * room for _ in range(rows)]
    places = [
        (_cell(point.latency_ms / right, room), rows - 1 - _cell(point.throughput / top[-1], rows))
        for point in points
    ]
    for x, y in places:
        grid[y][x] = glyphs.ready
    for point, (x, y) in zip(points, places, strict=True):
        _name(grid[y], x, point.name)
    labels = {rows - 1 - _cell(tick / top[-1], rows): f"{tick:,.0f}" for tick in top}
    upright, corner, flat = ("|", "+", "-") if glyphs.ascii_only else ("│", "└", "─")
    drawn: list[Line] = [
        (Span(f"{labels.get(y, ''):>{LABEL_WIDTH}}{upright}", "muted"), Span("".join(row), "role-decode"))
        for y, row in enumerate(grid)
    ]
    axis = (Span(f"{' ' * LABEL_WIDTH}{corner}{flat * room}", "muted"),)
    below = (Span(" " * LABEL_WIDTH), Span("0 ms", "muted"))
    return [*drawn, axis, spread(below, (Span(f"{count(right)} ms", "muted"),), width, glyphs)]


def _cell(share: float, cells: int) -> int:
    return min(cells - 1, max(0, round(share * (cells - 1))))


def _name(row: list[str], x: int, name: str) -> None:
    """Right of its point, or left of it, where nothing stands yet."""
    for start in (x + 2, x - len(name) - 1):
        if start >= 0 and start + len(name) <= len(row) and set(row[start : start + len(name)]) == {FREE}:
            row[start : start + len(name)] = name
            return
