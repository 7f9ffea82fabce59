"""A text chart of a sweep: throughput against latency, one point for each concurrency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.domain.bench.result import BenchResult

WIDTH, HEIGHT = 60, 14
LABEL = 9
"""Columns for the numbers on the left."""

Point = tuple[float, float, int]
"""Milliseconds for a token, tokens per second, concurrency."""


def chart_lines(results: Sequence[BenchResult], width: int = WIDTH, height: int = HEIGHT) -> Iterator[str]:
    """From the origin, so that a distance is what it looks like; fewer than two points make no chart."""
    points = [point for result in results if (point := _point(result)) is not None]
    if len(points) < 2:
        return
    most_ms, most_rate = max(point[0] for point in points), max(point[1] for point in points)
    yield "output tok/s against median TPOT in ms; the numbers are concurrencies"
    for number, row in enumerate(_grid(points, most_ms, most_rate, width, height)):
        value = most_rate * (height - 1 - number) / (height - 1)
        named = number % 4 == 0 or number == height - 1
        yield f"{f'{value:,.0f}' if named else '':>{LABEL}} {'┤' if named else '│'}{row}".rstrip()
    yield f"{'':>{LABEL}} └{'─' * width}"
    middle, end = f"{most_ms / 2:,.1f}", f"{most_ms:,.1f} ms"
    yield f"{'':>{LABEL}}  0{middle.rjust(width // 2 - 1)}{end.rjust(width - width // 2)}"


def _point(result: BenchResult) -> Point | None:
    latency = result.figures.tpot_ms.median
    if latency is None or not result.figures.completed:
        return None
    return latency, result.figures.output_throughput, result.context.max_concurrency


def _grid(
    points: Sequence[Point], most_ms: float, most_rate: float, width: int, height: int
) -> Sequence[str]:
    """Rows from the top; a label that would cover another goes to the nearest row that has room."""
    grid = [[" "] * width for _ in range(height)]
    for ms, rate, concurrency in sorted(points, key=lambda point: point[2]):
        label = f"●{concurrency}"
        left = min(round(ms / most_ms * (width - 1)), width - len(label)) if most_ms else 0
        wanted = height - 1 - (round(rate / most_rate * (height - 1)) if most_rate else 0)
        for row in sorted(range(height), key=lambda row: abs(row - wanted)):
            place = slice(left, left + len(label))
            if not "".join(grid[row][place]).strip():
                grid[row][place] = list(label)
                break
    return ["".join(row) for row in grid]
