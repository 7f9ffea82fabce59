"""The log of one server, followed: bytes in, numbered lines out, and where to go on after a reconnect."""

from __future__ import annotations

from console.domain.logline import LogLine
from console.domain.observation import LogUpdate, ServerKey
from console.domain.server import LogPlace
from console.remote.frames import LogBytes, TailEvent
from console.services.loglines import LineSplitter, classify

FIRST_LINES = 2000


class LogFollower:
    """Follows the log of one server over rotations and reconnects. A line keeps its number for ever."""

    def __init__(self, server: ServerKey, place: LogPlace, lines: int = FIRST_LINES) -> None:
        self.server = server
        self.place = place
        self._first_lines = lines
        self._splitter = LineSplitter()
        self._number = 0
        self._at: tuple[int, int, int] | None = None
        self.note = place.detail
        """Why there is nothing to follow, or what is odd about it."""
        self.opened = False
        self.from_start = False
        """The file was read from its first byte."""

    @property
    def tail(self) -> str:
        """The name of the tail in orders and frames."""
        return f"{self.server[0]}.{self.server[1]}"

    def order(self) -> dict[str, object] | None:
        """The fields of the order that starts or resumes the tail; None when there is no file."""
        if self.place.path is None:
            return None
        order: dict[str, object] = {"tail": self.tail, "path": self.place.path, "lines": self._first_lines}
        if self._at is not None:
            order |= dict(zip(("dev", "inode", "offset"), self._at, strict=True))
        return order

    def take(self, chunk: LogBytes) -> LogUpdate:
        """The lines that a chunk completes, and the unfinished one."""
        self._at = (chunk.dev, chunk.inode, chunk.offset + len(chunk.data))
        lines, live = self._splitter.feed(chunk.data)
        return LogUpdate(
            server=self.server,
            lines=tuple(self._numbered(text) for text in lines),
            live=None if live is None else LogLine(self._number + 1, live, classify(live)),
        )

    def told(self, event: TailEvent) -> LogUpdate:
        """What an event means for the reader: a note, and the end of an unfinished line."""
        opened_before, self.opened = self.opened, True
        note = _note(event)
        self.note = None if event.event in ("opened", "rotated", "truncated") else note
        if event.event == "opened" and opened_before and event.offset == (self._at or (0, 0, 0))[2]:
            return LogUpdate(server=self.server)
        if event.event in ("rotated", "truncated", "opened"):
            self._at = None if event.inode is None else (event.dev or 0, event.inode, event.offset or 0)
            self.from_start = event.offset == 0
        finished = tuple(self._numbered(text) for text in self._splitter.end())
        notes = (note,) if note is not None and not (event.event == "opened" and not opened_before) else ()
        return LogUpdate(server=self.server, lines=finished, notes=notes)

    def _numbered(self, text: str) -> LogLine:
        self._number += 1
        return LogLine(self._number, text, classify(text))


def _note(event: TailEvent) -> str | None:
    said = {
        "opened": "log opened",
        "rotated": "log rotated: going on in the new file",
        "truncated": "log truncated: going on from its start",
        "missing": "log file is not there",
        "denied": "log file may not be read",
        "gone": "log file is gone",
    }[event.event]
    return f"{said} ({event.detail})" if event.detail else said
