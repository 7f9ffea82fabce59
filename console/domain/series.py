"""Values over time: bounded, with gaps, and thinned for drawing so that no peak is lost.

A gap is a `None`: it was asked for and could not be read. A line must never be drawn across one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple


class Point(NamedTuple):
    """`time` in seconds on whatever clock the caller keeps to; `value` None is a gap."""

    time: float
    value: float | None


class Series:
    """The newest `capacity` points, in order of time."""

    def __init__(self, capacity: int) -> None:
        self._points: deque[Point] = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self._points)

    @property
    def latest(self) -> Point | None:
        """The newest point, gap or not."""
        return self._points[-1] if self._points else None

    def append(self, time: float, value: float | None) -> None:
        """Add a point; NaN and infinity are gaps.

        A clock that was set back forgets what it would now say lies in the future.
        """
        while self._points and self._points[-1].time > time:
            self._points.pop()
        self._points.append(Point(time, finite(value)))

    def since(self, start: float) -> list[Point]:
        """The points at `start` and later, oldest first."""
        return [point for point in self._points if point.time >= start]


def finite(value: float | None) -> float | None:
    """The value, or None where there is no number to show (None, NaN, infinity)."""
    return value if value is not None and math.isfinite(value) else None


class Columns(NamedTuple):
    """A stretch of time cut into `width` equal columns of a picture."""

    start: float
    end: float
    width: int

    def at(self, time: float) -> int:
        """The column in which a time falls, from 0."""
        share = (time - self.start) / (self.end - self.start)
        return min(max(int(share * self.width), 0), self.width - 1)


Reading = tuple[float, float]
"""(time, value): a point that could be read."""


def decimate(points: Iterable[Point], columns: Columns, max_step: float = math.inf) -> list[list[Reading]]:
    """Unbroken lines of readings: the lowest and the highest of each column, in order of time.

    At most two readings a column in all. A line breaks at a gap, and where points lie more than `max_step`
    seconds apart (nothing was recorded in between); gaps inside one column are below what can be drawn.
    """
    return [_thin(run, columns) for run in _runs(points, columns, max_step)]


def maxima(points: Iterable[Point], columns: Columns) -> list[float | None]:
    """The highest value of each column; None where a column holds nothing that could be read."""
    highest: list[float | None] = [None] * columns.width
    for time, value in points:
        if value is not None:
            column = columns.at(time)
            before = highest[column]
            highest[column] = value if before is None else max(before, value)
    return highest


def _runs(points: Iterable[Point], columns: Columns, max_step: float) -> list[list[Reading]]:
    runs: list[list[Reading]] = []
    last, gap = -math.inf, True
    for time, value in points:
        if value is None:
            gap = True
            continue
        apart = gap or time - last > max_step
        if not runs or (apart and columns.at(time) != columns.at(last)):
            runs.append([])
        runs[-1].append((time, value))
        last, gap = time, False
    return runs


def _thin(run: Sequence[Reading], columns: Columns) -> list[Reading]:
    thinned: list[Reading] = []
    for _, group in groupby(run, key=lambda reading: columns.at(reading[0])):
        by_value = sorted(group, key=lambda reading: reading[1])
        thinned += sorted({by_value[0], by_value[-1]})
    return thinned
