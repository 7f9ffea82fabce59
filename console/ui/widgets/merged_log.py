"""The logs of all servers as one, by time.

A line's time is the one it begins with, in whole seconds. Lines without one stay behind the line before them
of the same log; what has the same second stands in the order in which it came. A row's position is made of
its second and of numbers that keep together what belongs together:

    second (32 bits) | group (20 bits) | row of the group (11 bits)
"""

from __future__ import annotations

import calendar
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from time import monotonic
from typing import NamedTuple, TypeVar

from console.domain.logline import LogLine
from console.domain.observation import ServerKey

from .log_buffer import LogBuffer
from .log_rows import ALARMS, ROW_LIMIT, KeptRows, Kind, Mark, Note, Row, Source, text_size

_STAMP = re.compile(r"\[?(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_ROW_BITS = 11
_GROUP_BITS = 20
_STEP = 256
"""Rows taken from one log before another has its turn."""

NOBODY: ServerKey = (0, 0)
"""Whose the console's own marks are."""

Cell = TypeVar("Cell")


class Tributary(NamedTuple):
    """A log that flows into the merged one."""

    log: LogBuffer
    source: Source


class _Line(NamedTuple):
    position: int
    number: int
    text: str
    kind: Kind
    begins: bool
    """It is no continuation of another."""


class _Clock:
    """The time of each line of one log."""

    def __init__(self) -> None:
        self._stamp = ""
        self.second: int | None = None
        """Of the line before; None before the first one with a time."""

    def read(self, text: str, utc_offset_s: float) -> bool:
        """Takes the time of a line; returns whether it has one.

        SGLang writes the host's local time in brackets, the router UTC without (its logging.rs: ChronoUtc).
        """
        stamp = text[:20]
        if stamp == self._stamp:
            return True
        found = _STAMP.match(stamp)
        if found is None:
            return False
        self._stamp = stamp
        wall = calendar.timegm(tuple(map(int, found.groups())))
        self.second = max(0, wall if stamp[0] == "[" else wall + round(utc_offset_s))
        return True


class _Progress:
    """How far one log was taken, and the group to which a line without a time belongs."""

    def __init__(self, taken: int) -> None:
        self.taken = taken
        self.clock = _Clock()
        self.group: int | None = None
        self.row = 0


class MergedLog(KeptRows):
    """The newest rows of several logs by time, taken from their buffers when somebody looks."""

    def __init__(self, limit: int = ROW_LIMIT) -> None:
        super().__init__(limit)
        self.utc_offset_s = 0.0
        """Of the host's wall clock."""
        self._positions = array("q")
        self._servers: list[ServerKey] = []
        self._sources: dict[ServerKey, Source] = {}
        self._logs: dict[ServerKey, LogBuffer] = {}
        self._progress: dict[ServerKey, _Progress] = {}
        self._groups = 0

    def join(self, tributaries: Mapping[ServerKey, Tributary]) -> None:
        """Take from these logs from now on; lines of others stay."""
        self._logs = {server: tributary.log for server, tributary in tributaries.items()}
        self._sources |= {server: tributary.source for server, tributary in tributaries.items()}
        self._progress = {
            server: self._progress.get(server) or _Progress(log.first) for server, log in self._logs.items()
        }

    def source(self, index: int) -> Source | None:
        """See Rows."""
        return self._sources.get(self._servers[index])

    def position(self, index: int) -> int:
        """See Rows."""
        return self._positions[index]

    def index(self, position: int) -> int:
        """See Rows."""
        return bisect_left(self._positions, position)

    def excess(self, lines: Sequence[LogLine] = ()) -> int:
        """See KeptRows."""
        coming = sum(log.added - self._progress[server].taken for server, log in self._logs.items())
        return min(len(self), self._surplus(len(self) + coming, self._size))

    @property
    def behind(self) -> bool:
        """There is more to `catch_up` with."""
        return any(self._progress[server].taken < log.added for server, log in self._logs.items())

    def catch_up(self, until: float) -> int | None:
        """Takes in what is new in the logs, each in its turn; see KeptRows."""
        lowest: int | None = None
        while self.behind:
            for server in self._logs:
                lines = self._take(server)
                if lines:
                    self._merge(server, lines)
                    lowest = min(lines[0].position, lines[0].position if lowest is None else lowest)
            if monotonic() >= until:
                break
        return lowest

    def mark(self, text: str, second: int) -> None:
        """Adds a mark behind all lines of its second."""
        line = _Line(_position(second, self._next_group(), 0), 0, text, "mark", begins=True)
        self._merge(NOBODY, [line])

    def revise(self, server: ServerKey, lines: Iterable[LogLine]) -> int | None:
        """Gives lines of one log another class; returns the lowest position that changed."""
        wanted = {line.number: line for line in lines}
        changed = [
            self._change(index, wanted[number])
            for index, (number, kind, owner) in enumerate(
                zip(self._numbers, self._kinds, self._servers, strict=True)
            )
            if number in wanted and owner == server and kind not in ("note", "mark")
        ]
        return min(changed, default=None)

    def frozen(self) -> MergedLog:
        """See KeptRows."""
        frozen = super().frozen()
        frozen._positions, frozen._servers = self._positions[:], self._servers[:]
        return frozen

    def _take(self, server: ServerKey) -> list[_Line]:
        """The next rows of one log, by position."""
        log, progress = self._logs[server], self._progress[server]
        start = log.index(progress.taken)
        indexes = range(start, min(start + _STEP, len(log)))
        rows = [log.row(index) for index in indexes]
        progress.taken = log.position(indexes.stop)
        if rows and progress.clock.second is None:
            self._set(progress.clock, rows)
        return sorted(
            self._placed(progress, row, begins=_begins(log, index, row))
            for index, row in zip(indexes, rows, strict=True)
            if not isinstance(row, Mark)
        )

    def _set(self, clock: _Clock, rows: Sequence[Row]) -> None:
        """A log that begins with lines without a time has that of its first one with, or else is new."""
        dated = (row for row in rows if isinstance(row, LogLine) and clock.read(row.text, self.utc_offset_s))
        if next(dated, None) is None and self._positions:
            clock.second = self._positions[-1] >> (_GROUP_BITS + _ROW_BITS)

    def _placed(self, progress: _Progress, row: LogLine | Note, *, begins: bool) -> _Line:
        dated = isinstance(row, LogLine) and progress.clock.read(row.text, self.utc_offset_s)
        progress.row += 1
        if dated or progress.group is None or progress.row >> _ROW_BITS:
            progress.group, progress.row = self._next_group(), 0
        position = _position(progress.clock.second or 0, progress.group, progress.row)
        if isinstance(row, Note):
            return _Line(position, 0, row.text, "note", begins)
        return _Line(position, row.number, row.text, row.line_class, begins)

    def _next_group(self) -> int:
        self._groups = (self._groups + 1) % (1 << _GROUP_BITS)
        return self._groups

    def _merge(self, server: ServerKey, lines: Sequence[_Line]) -> None:
        """Puts lines, which are in ascending order, where they belong."""
        positions = [line.position for line in lines]
        stretches = list(_stretches(self._positions, positions))
        _weave(self._positions, positions, stretches)
        _weave(self._numbers, [line.number for line in lines], stretches)
        _weave(self._texts, [line.text for line in lines], stretches)
        _weave(self._kinds, [line.kind for line in lines], stretches)
        _weave(self._servers, [server] * len(lines), stretches)
        for line in lines:
            if line.begins:
                self._alarmed(line.position, line.kind)
        self._size += text_size(line.text for line in lines)
        self.added += len(lines)
        self._trim()

    def _drop(self, count: int) -> None:
        super()._drop(count)
        del self._positions[:count]
        del self._servers[:count]


class _Stretch(NamedTuple):
    """New rows from `start` up to `stop`, that go together in front of the old row at index `before`."""

    before: int
    start: int
    stop: int


def _stretches(old: Sequence[int], new: Sequence[int]) -> Iterator[_Stretch]:
    start = 0
    while start < len(new):
        before = bisect_left(old, new[start])
        stop = len(new) if before == len(old) else bisect_left(new, old[before], start)
        yield _Stretch(before, start, stop)
        start = stop


def _weave(column: MutableSequence[Cell], new: Sequence[Cell], stretches: Sequence[_Stretch]) -> None:
    """Puts new cells between the old ones; whole stretches, because the rows behind must move."""
    first = stretches[0].before
    old = column[first:]
    del column[first:]
    done = 0
    for before, start, stop in stretches:
        column.extend(old[done : before - first])
        column.extend(new[start:stop])
        done = before - first
    column.extend(old[done:])


def _position(second: int, group: int, row: int) -> int:
    return (second << _GROUP_BITS | group) << _ROW_BITS | row


def _begins(log: LogBuffer, index: int, row: Row) -> bool:
    """Whether a row is an error or a warning, and not a frame of a traceback or an advice."""
    alarm = ALARMS.get(row.line_class) if isinstance(row, LogLine) else None
    return alarm is not None and log.position(index) in log.alarms[alarm]
