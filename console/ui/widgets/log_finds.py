"""Looking through the rows of a log for those that satisfy a test, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from .log_positions import Positions
from .log_rows import Kind, Rows

_STEP = 64
"""Rows between two looks at the clock."""


class Finds:
    """The positions of rows that satisfy a test, as far as they were looked at, the oldest first."""

    def __init__(self, rows: Rows, test: Callable[[str, Kind], bool]) -> None:
        self.rows = rows
        self.positions = Positions()
        self._test = test
        self._next = 0

    @property
    def done(self) -> bool:
        """All rows were looked at."""
        return self.rows.index(self._next) >= len(self.rows)

    @property
    def seen_to(self) -> int:
        """Rows from this position on were not looked at."""
        return self._next

    def look(self, until: float) -> bool:
        """Looks at further rows until this moment (monotonic seconds); returns whether all are done."""
        if len(self.rows):
            self.positions.drop_before(self.rows.position(0))
        index = self.rows.index(self._next)
        while index < len(self.rows):
            index = self._look_at(index, min(index + _STEP, len(self.rows)))
            if monotonic() >= until:
                break
        return self.done

    def forget_from(self, position: int) -> None:
        """The rows from here on changed: they must be looked at again."""
        if position < self._next:
            self._next = position
            self.positions.drop_from(position)

    def _look_at(self, start: int, stop: int) -> int:
        found = [
            index
            for index, (text, kind) in enumerate(self.rows.columns(start, stop), start)
            if self._test(text, kind)
        ]
        for index in found:
            self.positions.add(self.rows.position(index))
        self._next = self.rows.position(stop - 1) + 1
        return stop
