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

_Kept = LineClass | Literal["note"]


class LogBuffer:
    """The last `limit` rows. A row's position counts from 0 and stays when older rows are dropped.

    Rows are kept as columns of strings and numbers, which the garbage collector passes over: as 200,000
    tuples in four logs they cost it a tenth of a second each time, and once a second while a log is flooded.
    """

    def __init__(self, limit: int = ROW_LIMIT) -> None:
        self._numbers: deque[int] = deque(maxlen=limit)
        self._texts: deque[str] = deque(maxlen=limit)
        self._classes: deque[_Kept] = deque(maxlen=limit)
        self._alarms: dict[Alarm, deque[int]] = {"error": deque(), "warning": deque()}
        self.counts: dict[Alarm, int] = {"error": 0, "warning": 0}
        """How many there were, those dropped by now included."""
        self.end = 0
        """The position after the newest row."""

    @property
    def first(self) -> int:
        """The position of the oldest row that is still here."""
        return self.end - len(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, position: int) -> Row:
        index = position - self.first
        kept = self._classes[index]
        text = self._texts[index]
        return Note(text) if kept == "note" else LogLine(self._numbers[index], text, kept)

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Adds lines at the end, and drops as many at the start as are too many."""
        if not lines:
            return
        numbers, texts, classes, _ = zip(*lines, strict=True)
        for position, line_class in enumerate(classes, self.end):
            if line_class in _ALARMS:
                self._alarms[_ALARMS[line_class]].append(position)
                self.counts[_ALARMS[line_class]] += 1
        self._add(numbers, texts, classes)

    def note(self, text: str) -> None:
        """Adds a remark at the end."""
        self._add((0,), (text,), ("note",))

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
        frozen = copy(self)
        frozen._numbers = copy(self._numbers)
        frozen._texts = copy(self._texts)
        frozen._classes = copy(self._classes)
        frozen._alarms = {alarm: copy(positions) for alarm, positions in self._alarms.items()}
        frozen.counts = dict(self.counts)
        return frozen

    def _add(self, numbers: Sequence[int], texts: Sequence[str], classes: Sequence[_Kept]) -> None:
        self._numbers.extend(numbers)
        self._texts.extend(texts)
        self._classes.extend(classes)
        self.end += len(texts)
        first = self.first
        for alarms in self._alarms.values():
            while alarms and alarms[0] < first:
                alarms.popleft()
