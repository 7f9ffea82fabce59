"""How values are spread, as rows of text: one bar a bin, its range before it and its count behind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from console.domain.bench.spreads import histogram

from .lines import Line, Span, fit_line
from .meter import Glyphs, bar

SKEWED = 8.0
"""The highest value over the lowest, from which bins grow by a factor: of equal ones most would be empty."""
LEAST_BAR = 4
NO_SAMPLE = "no sample yet"


class Bin(NamedTuple):
    """`held` values from `low` up to `high`."""

    low: float
    high: float
    held: int


def bins(values: Sequence[float], most: int) -> list[Bin]:
    """At most so many, of equal width, or of equal ratio where the values are far apart."""
    if not values or most < 1:
        return []
    # Of one that is 0 there is no ratio.
    by_ratio = min(values) > 0 and max(values) / min(values) >= SKEWED
    found = histogram([math.log(value) for value in values] if by_ratio else values, most)
    if found is None:
        return []
    count = len(found.counts)
    edges = [found.low + (found.high - found.low) * index / count for index in range(count + 1)]
    if by_ratio:
        edges = [math.exp(edge) for edge in edges]
    return [Bin(*each) for each in zip(edges, edges[1:], found.counts, strict=False)]


def histogram_lines(
    title: str, values: Sequence[float], tone: str, width: int, height: int, glyphs: Glyphs
) -> list[Line]:
    """Exactly `height` rows: the title with n, then the bins. Values are milliseconds."""
    head = (Span(title, "strong"), Span(f"  n={len(values):,}" if values else f"  {NO_SAMPLE}", "muted"))
    rows = [head, *_bars(bins(values, height - 1), tone, width, glyphs)][:height]
    return [fit_line(row, width, glyphs) for row in [*rows, *([()] * (height - len(rows)))]]


def _bars(found: Sequence[Bin], tone: str, width: int, glyphs: Glyphs) -> list[Line]:
    if not found:
        return []
    ranges = [_range(each) for each in found]
    counts = [f"{each.held:,}" for each in found]
    labels, figures = max(map(len, ranges)), max(map(len, counts))
    room = max(LEAST_BAR, width - labels - figures - 6)
    highest = max(each.held for each in found)
    return [
        (
            Span(f"{words:>{labels}} ms ", "muted"),
            Span(drawn := bar(100.0 * each.held / highest, room, glyphs)[0], tone),
            Span(" " * (room - len(drawn) + 1)),
            Span(f"{count:>{figures}}"),
        )
        for each, words, count in zip(found, ranges, counts, strict=True)
    ]


def _range(each: Bin) -> str:
    return ms(each.low) if each.low == each.high else f"{ms(each.low)}-{ms(each.high)}"


def ms(value: float) -> str:
    """Milliseconds in about three figures: `8.42`, `38.1`, `412`, `1,840`."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
