"""Marks on a chart: moments worth seeing, each a tick at its time and a word where there is room for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len

from console.domain.series import Columns

from .lines import Line, Span
from .meter import Glyphs

CAPACITY = 64
TONE = "notice"
EMPTY = " \u2800"
"""A cell without a curve: a space, or a braille pattern without dots."""


class Mark(NamedTuple):
    """`time` is on the clock of the chart's readings."""

    time: float
    text: str


class Marks:
    """The newest marks, in order of time."""

    def __init__(self) -> None:
        self._marks: deque[Mark] = deque(maxlen=CAPACITY)

    def add(self, time: float, text: str) -> None:
        """Add one; the same again changes nothing."""
        mark = Mark(time, text)
        if mark not in self._marks:
            self._marks = deque(sorted([*self._marks, mark]), maxlen=CAPACITY)

    def within(self, columns: Columns) -> dict[int, str]:
        """The columns that have a mark, ascending; of several in one column the newest text."""
        return {columns.at(mark.time): mark.text for mark in self._marks if mark.time >= columns.start}


def tick(glyphs: Glyphs) -> str:
    """The character that stands for a moment."""
    return ":" if glyphs.ascii_only else "┊"


def ticked(text: str, columns: Iterable[int], tone: str, glyphs: Glyphs) -> Line:
    """A sparkline in which a tick takes the place of the value in each of the columns."""
    marked = set(columns)
    return _spans([(tick(glyphs), TONE) if x in marked else (char, tone) for x, char in enumerate(text)])


def over_curve(rows: Sequence[Line], marks: Mapping[int, str], glyphs: Glyphs) -> list[Line]:
    """Curve rows with a vertical line at each mark, behind the curve, and its text beside the line.

    A row is the span of the axis and the span of the curve. A text stands in the highest row in which it
    covers no curve, no other line and no other text; where there is none, the line stands alone.
    """
    grids = [[(char, row[-1].tone) for char in row[-1].text] for row in rows]
    for grid in grids:
        for column in marks:
            if column < len(grid) and grid[column][0] in EMPTY:
                grid[column] = (tick(glyphs), TONE)
    # The newest first: it is the one that is looked for.
    for column, text in sorted(marks.items(), reverse=True):
        _write(grids, column, glyphs.safe(text))
    return [(*row[:-1], *_spans(grid)) for row, grid in zip(rows, grids, strict=True)]


def _write(grids: Sequence[list[tuple[str, str]]], column: int, text: str) -> None:
    width = len(grids[0]) if grids else 0
    for start in (column + 1, column - len(text)):
        if cell_len(text) != len(text) or start < 0 or start + len(text) > width:
            continue
        for grid in grids:
            # One free cell on each side, but for the side of its own tick.
            around = range(max(start - 1, 0), min(start + len(text) + 1, width))
            if all(grid[x][0] in EMPTY for x in around if x != column):
                grid[start : start + len(text)] = [(char, TONE) for char in text]
                return


def _spans(cells: Sequence[tuple[str, str]]) -> Line:
    runs = groupby(cells, key=lambda cell: cell[1])
    return tuple(Span("".join(char for char, _ in run), tone) for tone, run in runs)
