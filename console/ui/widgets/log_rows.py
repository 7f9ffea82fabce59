"""The rows of a log in memory, bounded, with an index of those that matter.

A row's *position* is a number that grows from row to row and stays with the row for as long as it is kept.
Its *index* counts from 0 at the oldest row kept, and so changes as old rows are dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol, TypeVar

from console.domain.logline import LineClass, LogLine
from console.domain.printable import Colour
from console.domain.server import Role

from .log_positions import Positions

ROW_LIMIT = 50_000
"""Rows kept of one log, unless they are long ones."""
TEXT_LIMIT = 17_000_000
"""Bytes that the text of these rows may take, so that a log takes 20 MB with its columns and indexes."""

_SPARE = 64
"""This part of what may be kept is made room for at a time."""

Alarm = Literal["error", "warning"]
ALARMS: dict[str, Alarm] = {"error": "error", "fatal": "error", "warning": "warning"}

Kind = LineClass | Literal["note", "mark"]
"""What a row is."""


class Note(NamedTuple):
    """A remark of the console's own between the lines."""

    text: str


class Mark(NamedTuple):
    """A moment at which the console did something, as a rule across the log."""

    text: str


Row = LogLine | Note | Mark


class Source(NamedTuple):
    """Whose line it is, where several logs are shown in one."""

    word: str
    role: Role | None


class Rows(Protocol):
    """Rows in the order of the screen."""

    def __len__(self) -> int: ...

    def row(self, index: int) -> Row:
        """The row at this index."""
        ...

    def source(self, index: int) -> Source | None:
        """Whose it is; None where all are of one log."""
        ...

    def position(self, index: int) -> int:
        """The position of the row at this index."""
        ...

    def index(self, position: int) -> int:
        """The index of the row at this position, or of the first one after it; `len` when there is none."""
        ...

    def columns(self, start: int, stop: int) -> Iterable[tuple[str, Kind]]:
        """Text and kind of the rows from index `start` up to `stop`."""
        ...


def text_size(texts: Iterable[str]) -> int:
    """Bytes that strings take."""
    return sum(map(str.__sizeof__, texts))


Kept = TypeVar("Kept", bound="KeptRows")


class KeptRows(ABC):
    """The rows of a log, `limit` at most.

    They are kept as columns of strings and numbers, which the garbage collector passes over: as 200,000
    tuples in four logs they cost it a tenth of a second each time, and once a second while a log is flooded.
    """

    def __init__(self, limit: int = ROW_LIMIT) -> None:
        self._limit = limit
        self._numbers = array("q")
        self._texts: list[str] = []
        self._kinds: list[Kind] = []
        self._size = 0
        self.alarms: dict[Alarm, Positions] = {"error": Positions(), "warning": Positions()}
        """Where errors and warnings begin; their continuation lines are not in it."""
        self.counts: dict[Alarm, int] = {"error": 0, "warning": 0}
        """How many there were, those dropped by now included."""
        self.added = 0
        """How many rows there were, likewise."""

    @abstractmethod
    def position(self, index: int) -> int:
        """See Rows."""

    @abstractmethod
    def index(self, position: int) -> int:
        """See Rows."""

    @abstractmethod
    def mark(self, text: str, second: int) -> None:
        """Adds a mark, made at this second of the host's wall clock."""

    def __len__(self) -> int:
        return len(self._texts)

    def row(self, index: int) -> Row:
        """See Rows."""
        kind, text = self._kinds[index], self._texts[index]
        if kind == "note":
            return Note(text)
        return Mark(text) if kind == "mark" else LogLine(self._numbers[index], text, kind)

    def source(self, index: int) -> Source | None:
        """See Rows."""
        return None

    def colours(self, index: int) -> tuple[Colour, ...]:
        """Those that its writer gave the line at this index."""
        return ()

    def columns(self, start: int, stop: int) -> Iterable[tuple[str, Kind]]:
        """See Rows."""
        return zip(self._texts[start:stop], self._kinds[start:stop], strict=True)

    @abstractmethod
    def excess(self, lines: Sequence[LogLine] = ()) -> int:
        """How many of the oldest rows go when these lines come, and what is new elsewhere."""

    @property
    def behind(self) -> bool:
        """There is more to `catch_up` with."""
        return False

    def catch_up(self, until: float) -> int | None:
        """Takes in what is new elsewhere until this moment (monotonic seconds); returns the lowest position
        that changed."""
        return None

    def frozen(self: Kept) -> Kept:
        """A copy that stays as it is while this one goes on."""
        frozen = copy(self)
        frozen._numbers, frozen._texts, frozen._kinds = self._numbers[:], self._texts[:], self._kinds[:]
        frozen.alarms = {alarm: copy(positions) for alarm, positions in self.alarms.items()}
        frozen.counts = dict(self.counts)
        return frozen

    def _surplus(self, rows: int, size: int) -> int:
        """How many of the oldest rows go, were there so many rows, of so many bytes.

        A few more than would have to go, and so not at each addition, for the rest must be moved.
        """
        spare_rows, spare_size = self._limit // _SPARE, TEXT_LIMIT // _SPARE
        too_many = rows - self._limit + spare_rows if rows > self._limit else 0
        too_large = self._oldest(size - TEXT_LIMIT + spare_size) if size > TEXT_LIMIT else 0
        return max(too_many, too_large)

    def _trim(self) -> None:
        count = self._surplus(len(self._texts), self._size)
        if count > 0:
            self._size -= text_size(self._texts[:count])
            self._drop(count)
            first = self.position(0) if self._texts else 0
            for positions in self.alarms.values():
                positions.drop_before(first)

    def _drop(self, count: int) -> None:
        for column in (self._numbers, self._texts, self._kinds):
            del column[:count]

    def _oldest(self, size: int) -> int:
        """How many of the oldest rows have texts of so many bytes."""
        sums = accumulate(map(str.__sizeof__, self._texts))
        return next((count for count, total in enumerate(sums, 1) if total >= size), len(self._texts))

    def _alarmed(self, position: int, kind: Kind) -> None:
        """Counts a row that is no continuation."""
        if kind in ALARMS:
            self.alarms[ALARMS[kind]].insert(position)
            self.counts[ALARMS[kind]] += 1

    def _change(self, index: int, line: LogLine) -> int:
        """Gives the row at this index another class; returns its position."""
        position, before = self.position(index), self._kinds[index]
        if before in ALARMS and self.alarms[ALARMS[before]].discard(position):
            self.counts[ALARMS[before]] -= 1
        if line.head is None:
            self._alarmed(position, line.line_class)
        self._kinds[index] = line.line_class
        return position
