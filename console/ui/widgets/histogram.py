"""How values are spread, as rows of text: one bar a bin, its range before it and its count behind."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import count
from math import floor, log10
from typing import NamedTuple

from .lines import Line, Span, fit_line
from .meter import Glyphs, bar

SKEWED = 8.0
"""The highest value over the lowest, from which bins grow by a factor: of equal ones most would be empty."""
LEAST_BAR = 4
NO_SAMPLE = "no sample yet"
FINEST = 1e-6
"""Milliseconds that no clock tells apart."""
LEAST_POWER = -2
"""Of the width of the one bin of equal values."""
ROUND = (1.0, 2.0, 5.0)
"""Widths of bins, and these times a power of ten."""
FACTORS = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Edges of bins that grow, in each power of ten; where that makes too many, the next."""
LOWEST, HIGHEST = 0.1, 0.02
"""Of many values, the shares that are told in one bin without an end: chunks that came at once make many very
small gaps, and the few large ones would leave no room for the rest."""
MANY = 200
OUTER_BINS = 2


class Bin(NamedTuple):
    """`held` values from `low` up to `high`; None: whatever is lower, or higher."""

    low: float | None
    high: float | None
    held: int


def bins(values: Sequence[float], most: int) -> list[Bin]:
    """At most so many with round edges, of equal width, or growing where the values are far apart."""
    if not values or most < 1:
        return []
    ordered = sorted(values)
    if len(ordered) >= MANY and most > OUTER_BINS:
        inner = ordered[int(LOWEST * len(ordered)) : -int(HIGHEST * len(ordered))]
        edges = _edges(inner[0], inner[-1], most - OUTER_BINS)
    else:
        edges = _edges(ordered[0], ordered[-1], most)
    places = [0, *(bisect_left(ordered, edge) for edge in edges), len(ordered)]
    ends = [None, *edges, None]
    found = [
        Bin(low, high, above - below)
        for low, high, below, above in zip(ends, ends[1:], places, places[1:], strict=False)
    ]
    return found[0 if found[0].held else 1 : len(found) if found[-1].held else -1]


def _edges(low: float, high: float, most: int) -> list[float]:
    """Round numbers around all from `low` to `high`, with at most so many bins between them."""
    if low >= FINEST and high / low >= SKEWED:
        return _growing(low, high, most)
    least = floor(log10(max((high - low) / most, FINEST))) if high > low else LEAST_POWER
    width = next(
        width
        for width in (step * 10.0**power for power in count(least) for step in ROUND)
        if floor(high / width) + 1 - floor(low / width) <= most
    )
    return [round(number * width, 9) for number in range(floor(low / width), floor(high / width) + 2)]


def _growing(low: float, high: float, most: int) -> list[float]:
    powers = range(floor(log10(low)), floor(log10(high)) + 2)
    for steps in FACTORS:
        every = [step * 10.0**power for power in powers for step in steps]
        first = max(number for number, edge in enumerate(every) if edge <= low)
        last = min(number for number, edge in enumerate(every) if edge > high)
        if last - first <= most:
            return [round(edge, 9) for edge in every[first : last + 1]]
    return [round(10.0 ** powers[0], 9), round(10.0 ** powers[-1], 9)]


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
    held = [f"{each.held:,}" for each in found]
    labels, figures = max(map(len, ranges)), max(map(len, held))
    room = max(LEAST_BAR, width - labels - figures - 6)
    highest = max(each.held for each in found)
    return [
        (
            Span(f"{words:>{labels}} ms ", "muted"),
            Span(drawn := bar(100.0 * each.held / highest, room, glyphs)[0], tone),
            Span(" " * (room - len(drawn) + 1)),
            Span(f"{number:>{figures}}"),
        )
        for each, words, number in zip(found, ranges, held, strict=True)
    ]


def _range(each: Bin) -> str:
    if each.low is None or each.high is None:
        return f"< {_edge(each.high)}" if each.low is None else f"> {_edge(each.low)}"
    return f"{_edge(each.low)}-{_edge(each.high)}"


def _edge(value: float | None) -> str:
    """`180`, `22.5`, `0.01`: round as it is."""
    return "" if value is None else f"{value:,.10g}"


def ms(value: float) -> str:
    """Milliseconds in about three figures: `8.42`, `38.1`, `412`, `1,840`."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
