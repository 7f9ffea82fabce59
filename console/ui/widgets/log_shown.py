"""What is seen of a log: the log as it grows or as it was when it was frozen, what of it passes the
filter, and what the search found in that."""

from __future__ import annotations

import sys
from time import monotonic
from typing import NamedTuple

from .log_filter import FilteredRows, LogFilter
from .log_finds import Finds
from .log_pattern import Pattern, TooSlow, time_limit
from .log_positions import Positions
from .log_rows import Alarm, KeptRows, Rows
from .log_search import Search

SLICE_S = 0.008
"""Time for looking through rows before keys get their turn again."""
FIRST_SLICE_S = 0.025
"""The same right after a filter or a pattern was set: often enough for all rows."""
MATCH_LIMIT_S = 0.04
"""Time after which a pattern is given up, in the midst of a line."""


class Hit(NamedTuple):
    """A row that was looked for, and whether the way to it led around an end of the log."""

    position: int
    wrapped: bool = False


class ShownLog:
    """A log through a filter and a search, both of which lag behind until `look` has caught up."""

    def __init__(self, buffer: KeptRows) -> None:
        self.live = buffer
        self.buffer = buffer
        """The live one, or a frozen copy of it."""
        self.filter = LogFilter()
        self.search: Search | None = None
        self._filtered: FilteredRows | None = None

    @property
    def rows(self) -> Rows:
        """The rows that pass the filter."""
        return self.buffer if self._filtered is None else self._filtered

    @property
    def hidden(self) -> int:
        """How many rows do not pass the filter."""
        return 0 if self._filtered is None else len(self.buffer) - len(self._filtered)

    @property
    def unseen(self) -> int:
        """How many rows came since the log was frozen."""
        return self.live.added - self.buffer.added

    @property
    def done(self) -> bool:
        """Filter and search know of every row."""
        return not self.live.behind and all(finds.done for finds in self._finds)

    def freeze(self, frozen: bool) -> None:
        """Show the log as it is now, or as it grows."""
        self.buffer = self.live.frozen() if frozen else self.live
        self._start_anew()

    def begin_anew(self) -> None:
        """Filter and search again: there are rows before the first one known."""
        self._start_anew()

    def set_filter(self, log_filter: LogFilter) -> None:
        """Show other rows; a search goes on in them."""
        self.filter = log_filter
        self._start_anew()

    def set_search(self, pattern: Pattern | None) -> None:
        """Look for something else, or for nothing."""
        self.search = None if pattern is None else Search(self.rows, pattern)

    def forget_from(self, position: int) -> None:
        """Rows of the live log changed from this position on."""
        if self.buffer is self.live:
            for finds in self._finds:
                finds.forget_from(position)

    def look(self, slice_s: float = SLICE_S) -> bool:
        """Look through rows for so long; returns whether all are done.

        Raises TooSlow: then the pattern that took so long is given up.
        """
        until = monotonic() + slice_s
        if (changed := self.live.catch_up(until)) is not None:
            self.forget_from(changed)
        if all(finds.done for finds in self._finds):
            return self.done
        try:
            with time_limit(slice_s + MATCH_LIMIT_S):
                return all(finds.look(until) for finds in self._finds) and self.done
        except TooSlow:
            if self._filtered is not None and not self._filtered.done:
                self.set_filter(LogFilter(self.filter.level))
            else:
                self.search = None
            raise

    def hit(self, position: int, *, forward: bool) -> Hit | None:
        """The nearest match below or above a position, and around at the ends; None when there is none, or
        none is known yet."""
        if self.search is None:
            return None
        if forward or self.done or all(finds.seen_to >= position for finds in self._finds):
            return _nearest(self.search.positions, position, forward=forward, around=self.done)
        return None

    def alarm(self, alarm: Alarm, position: int, *, forward: bool) -> Hit | None:
        """The nearest error or warning among the rows shown, likewise."""
        alarms = self.buffer.alarms[alarm]
        if self._filtered is None:
            return _nearest(alarms, position, forward=forward)
        shown = Positions()
        for at in alarms:
            if at in self._filtered.positions:
                shown.add(at)
        return _nearest(shown, position, forward=forward)

    @property
    def _finds(self) -> list[Finds]:
        return [finds for finds in (self._filtered, self.search) if finds is not None]

    def _start_anew(self) -> None:
        self._filtered = None if self.filter.is_open else FilteredRows(self.buffer, self.filter)
        self.set_search(None if self.search is None else self.search.pattern)


def _nearest(positions: Positions, position: int, *, forward: bool, around: bool = True) -> Hit | None:
    step = positions.after if forward else positions.before
    if (found := step(position)) is not None:
        return Hit(found)
    found = step(-1 if forward else sys.maxsize) if around else None
    return None if found is None else Hit(found, wrapped=True)
