"""The log of one server, followed: bytes in, numbered lines out, and where to go on after a reconnect."""

from __future__ import annotations

import time
from collections.abc import Sequence

from console.domain.logclass import LinePattern
from console.domain.observation import LogUpdate, ServerKey
from console.domain.server import LogPlace
from console.remote.frames import LogBytes, TailEvent
from console.services.history import LogHistory
from console.services.loglines import Cut, LogReader, Read

FIRST_LINES = 2000
LAST_WORDS_S = 1.0
"""So long after its last bytes, nothing of a process that is gone is still on its way here."""


class LogFollower:
    """Follows the log of one server over rotations and reconnects. A line keeps its number for ever."""

    def __init__(
        self,
        server: ServerKey,
        place: LogPlace,
        lines: int = FIRST_LINES,
        patterns: Sequence[LinePattern] = (),
    ) -> None:
        self.server = server
        self.place = place
        self._first_lines = lines
        self._reader = LogReader(patterns)
        self._at: tuple[int, int, int] | None = None
        self._unfinished_at: float | None = None
        self.history = LogHistory(place.path or "")
        """What stands in the file besides the lines that were followed."""
        self.note = place.detail
        """Why there is nothing to follow, or what is odd about it."""
        self.opened = False
        self.from_start = False
        """The file was read from its first byte."""

    @property
    def tail(self) -> str:
        """The name of the tail in orders and frames."""
        return f"{self.server[0]}.{self.server[1]}"

    @property
    def cuts(self) -> dict[int, Cut]:
        """Where the lines that are shown in part stand in their file, whole, by number."""
        return self._reader.cuts

    def order(self) -> dict[str, object] | None:
        """The fields of the order that starts or resumes the tail; None when there is no file."""
        if self.place.path is None:
            return None
        order: dict[str, object] = {"tail": self.tail, "path": self.place.path, "lines": self._first_lines}
        if self._at is not None:
            order |= dict(zip(("dev", "inode", "offset"), self._at, strict=True))
            order |= self.history.fingerprint
        return order

    def take(self, chunk: LogBytes) -> LogUpdate:
        """The lines that a chunk completes, and the unfinished one."""
        self._at = (chunk.dev, chunk.inode, chunk.offset + len(chunk.data))
        update = self._update(self._reader.feed(chunk.data, chunk.offset))
        self._unfinished_at = None if update.live is None else time.monotonic()
        self.history.took(chunk, update)
        return update

    def end(self) -> LogUpdate | None:
        """The process is gone: what it left unfinished is a line, once nothing more can be on its way."""
        if self._unfinished_at is None or time.monotonic() - self._unfinished_at < LAST_WORDS_S:
            return None
        self._unfinished_at = None
        return self._update(self._reader.end())

    def told(self, event: TailEvent) -> LogUpdate:
        """What an event means for the reader: a note, and the end of an unfinished line."""
        opened_before, self.opened = self.opened, True
        note = _note(event)
        self.note = None if event.event in ("opened", "rotated", "truncated", "space") else note
        if event.event in ("full", "space"):
            return LogUpdate(server=self.server, notes=(note,))
        if event.event == "opened" and opened_before and event.offset == (self._at or (0, 0, 0))[2]:
            return LogUpdate(server=self.server)
        if event.event in ("rotated", "truncated", "opened"):
            self._at = None if event.inode is None else (event.dev or 0, event.inode, event.offset or 0)
            self.from_start = event.offset == 0
        if event.event == "truncated":
            self._reader.cuts.clear()
        finished = self._reader.end()
        is_first = event.event == "opened" and not opened_before
        self._unfinished_at = None
        update = self._update(finished, () if is_first else (note,))
        self.history.told(event, update)
        return update

    def _update(self, read: Read, notes: tuple[str, ...] = ()) -> LogUpdate:
        return LogUpdate(
            server=self.server,
            lines=tuple(read.lines),
            live=read.live,
            notes=notes,
            revised=tuple(read.revised),
            colours=read.colours,
        )


def _note(event: TailEvent) -> str:
    said = {
        "opened": "log opened",
        "rotated": "log rotated: going on in the new file",
        "truncated": "log truncated: going on from its start",
        "missing": "log file is not there",
        "denied": "log file may not be read",
        "gone": "log file is gone",
        "full": "the disk that holds the log is full: lines may be lost",
        "space": "the disk that holds the log has room again",
    }[event.event]
    return f"{said} ({event.detail})" if event.detail else said
