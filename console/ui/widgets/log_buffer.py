"""The rows of one log in memory, bounded, with an index of those that matter."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import Literal, NamedTuple

from console.domain.logline import LineClass, LogLine

ROW_LIMIT = 50_000
"""Rows kept of one log: 10 to 20 MB."""

Alarm = Literal["error", "warning"]

_ALARMS: dict[LineClass, Alarm] = {"error": "error", "fatal": "error", "warning": "warning"}


class Note(NamedTuple):
    """A remark of the console's own between the lines."""

    text: str


Row = LogLine | Note


class LogBuffer:
    """The last `limit` rows. A row's position counts from 0 and stays when older rows are dropped."""

    def __init__(self, limit: int = ROW_LIMIT) -> None:
        self._rows: deque[Row] = deque(maxlen=limit)
        self._alarms: dict[Alarm, deque[int]] = {"error": deque(), "warning": deque()}
        self.counts: dict[Alarm, int] = {"error": 0, "warning": 0}
        """How many there were, those dropped by now included."""
        self.end = 0
        """The position after the newest row."""

    @property
    def first(self) -> int:
        """The position of the oldest row that is still here."""
        return self.end - len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, position: int) -> Row:
        return self._rows[position - self.first]

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Adds lines at the end, and drops as many at the start as are too many."""
        for position, line in enumerate(lines, self.end):
            if line.line_class in _ALARMS:
                alarm = _ALARMS[line.line_class]
                self._alarms[alarm].append(position)
                self.counts[alarm] += 1
        self._add(lines)

    def note(self, text: str) -> None:
        """Adds a remark at the end."""
        self._add((Note(text),))

    def after(self, alarm: Alarm, position: int) -> int | None:
        """Where the next one stands, and after the last the first; None when none is in memory."""
        alarms = self._alarms[alarm]
        return next((at for at in alarms if at > position), alarms[0] if alarms else None)

    def before(self, alarm: Alarm, position: int) -> int | None:
        """Where the previous one stands, and before the first the last; None when none is in memory."""
        alarms = self._alarms[alarm]
        return next((at for at in reversed(alarms) if at < position), alarms[-1] if alarms else None)

    def frozen(self) -> LogBuffer:
        """A copy that stays as it is while this one goes on."""
        frozen = LogBuffer()
        frozen._rows = copy(self._rows)
        frozen._alarms = {alarm: copy(positions) for alarm, positions in self._alarms.items()}
        frozen.counts = dict(self.counts)
        frozen.end = self.end
        return frozen

    def _add(self, rows: Sequence[Row]) -> None:
        self._rows.extend(rows)
        self.end += len(rows)
        first = self.first
        for alarms in self._alarms.values():
            while alarms and alarms[0] < first:
                alarms.popleft()
