"""Follows a log file by name, across rotation and truncation, without losing or keeping a byte.

Bytes are read only when somebody takes them, straight from the file: nothing is buffered, nothing is dropped.
A file that was replaced stays open until it has been read to its end.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Dict, NamedTuple, Tuple

from . import logfiles
from .logfiles import FileId
from .logreader import LogReader

Event = Dict[str, Any]
Chunk = Tuple[Dict[str, Any], bytes]

LEAST_SPACE = 1 << 20
"""A file system with less than this is full for every practical purpose."""


class Resume(NamedTuple):
    """Where an earlier tail stopped, and the `last` bytes before that, up to 64, as far as it knows them."""

    device: int
    inode: int
    offset: int
    last: bytes = b""


class Tail:
    """One followed path.

    It begins with the last `lines` lines; or, with `resume`, where an earlier tail stopped, even if that file
    was rotated since. Events and chunks are frames of this package's wire format:
        opened     reading begins at the offset
        rotated    the file before was read to its end; reading goes on in the next one
        truncated  the file was cut, or written anew; reading goes on at its start
        missing    the path names nothing; a file that is still open is read on
        denied     the path cannot be opened, or the file cannot be read
        gone       the file to resume cannot be found: bytes after its offset may be lost
        full       what is written may be lost, because the file system is full; `space`: no longer
    """

    def __init__(self, tail_id: str, path: str, *, lines: int = 2000, resume: Resume | None = None) -> None:
        self._tail_id = tail_id
        self._path = path
        self._lines: int | None = lines
        self._resume = resume
        self._log: LogReader | None = None
        self._events: list[Event] = []
        self._absence: str | None = None
        self._empty_successor: FileId | None = None
        self._full = False

    @property
    def file(self) -> FileId | None:
        """The file that is open."""
        return None if self._log is None else self._log.file

    def descriptor(self) -> int:
        """A descriptor of its own for the open file, which need not have a name any more."""
        assert self._log is not None
        return self._log.descriptor()

    def poll(self) -> list[Event]:
        """What has happened to the file since the last call. Costs one stat when nothing has."""
        try:
            if self._log is None:
                self._open()
            else:
                self._look(self._log)
        except (FileNotFoundError, NotADirectoryError) as error:
            # What appears from now on is new from its first byte.
            self._lines = None
            self._note_absence("missing", error)
        except OSError as error:
            self._note_absence("denied", error)
            if error.errno == errno.ESTALE:
                self._reopen_later()
        events, self._events = self._events, []
        return events

    def read(self, limit: int = 65536) -> Chunk | None:
        """A header and up to `limit` bytes that follow those read last, or None when there are none.

        Also None while an event waits for the next `poll`: it has to be told before what comes after it.
        """
        if self._log is None or self._events or self._log.at_end:
            return None
        try:
            return self._take(self._log, limit)
        except OSError as error:
            self._note_absence("denied", error)
            self._reopen_later()
            return None

    def look_for_space(self) -> None:
        """Let the next `poll` say whether the file system has filled up, or has space again."""
        if self._log is None:
            return
        try:
            left = self._log.space()
        except OSError:
            return
        if (left < LEAST_SPACE) == self._full:
            return
        self._full = not self._full
        self._say("full" if self._full else "space", self._log.file, self._log.offset, f"{left} bytes left")

    def close(self) -> None:
        """Let go of the file."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _take(self, log: LogReader, limit: int) -> Chunk | None:
        reached = log.offset
        data = log.read(limit)
        if data is None:
            self._say_truncated(log, reached)
        if not data:
            return None
        header = self._frame("log", log.file, log.offset)
        log.advance(data)
        return header, data

    def _open(self) -> None:
        """Open the file to begin with. Raises OSError."""
        if self._resume is not None and self._go_on(self._resume):
            return
        fd = logfiles.open_log(self._path)
        begin = (
            0 if self._lines is None else logfiles.start_of_last_lines(fd, os.fstat(fd).st_size, self._lines)
        )
        self._adopt(LogReader(fd, begin), "opened")

    def _go_on(self, resume: Resume) -> bool:
        """Open the file that an earlier tail was reading; False when it is gone. Raises OSError."""
        file = (resume.device, resume.inode)
        name = logfiles.name_of(self._path, file)
        if name is None:
            self._say("gone", file, resume.offset, "the file that was being read has left its folder")
            self._resume = self._lines = None
            return False
        log = LogReader(logfiles.open_log(name), resume.offset, resume.last)
        self._adopt(log, "opened", None if name == self._path else f"it is now called {name}")
        self._measure(log, log.status())
        return True

    def _adopt(self, log: LogReader, event: str, detail: str | None = None) -> None:
        """Read from `log` from now on, and say so."""
        self.close()
        self._log = log
        self._resume = self._lines = self._absence = self._empty_successor = None
        self._say(event, log.file, log.offset, detail)

    def _reopen_later(self) -> None:
        """The descriptor has become useless: find the same file anew at the next poll."""
        if self._log is not None:
            self._resume = Resume(*self._log.file, self._log.offset, self._log.last)
        self.close()

    def _look(self, log: LogReader) -> None:
        """Compare what the path names with the open file. Raises OSError when it names nothing."""
        try:
            named = os.stat(self._path)
        except OSError:
            self._measure(log, log.status())
            raise
        if logfiles.id_of(named) == log.file:
            self._absence = None
            self._measure(log, named)
            return
        self._measure(log, log.status())
        still_empty = named.st_size == 0 and logfiles.id_of(named) == self._empty_successor
        if log.at_end and not still_empty:
            self._move_on(log, named)

    def _move_on(self, log: LogReader, named: os.stat_result) -> None:
        """Go on to the next file once that has bytes; until then a writer may still add to this one.

        A process that keeps its stdout over a rotation writes to the old file for ever.
        """
        fd = logfiles.open_next(self._path, log.file)
        if fd is None:
            return
        following = os.fstat(fd)
        empty = following.st_size == 0 and os.path.samestat(following, named)
        if empty:
            self._empty_successor = logfiles.id_of(following)
        if empty or log.status().st_size > log.offset:
            os.close(fd)
        else:
            self._adopt(LogReader(fd, 0), "rotated", f"the file before it ended at {log.offset}")

    def _measure(self, log: LogReader, status: os.stat_result) -> None:
        reached = log.offset
        if not log.measure(status):
            self._say_truncated(log, reached)

    def _say_truncated(self, log: LogReader, reached: int) -> None:
        self._say(
            "truncated", log.file, log.offset, f"{reached} bytes of what was there before had been read"
        )

    def _note_absence(self, event: str, error: OSError) -> None:
        """Say that the path cannot be opened: once, not at every poll."""
        if self._absence != event:
            self._absence = event
            self._say(event, None, None, error.strerror)

    def _say(self, event: str, file: FileId | None, offset: int | None, detail: str | None) -> None:
        header = self._frame("tail", file, offset)
        self._events.append(dict(header, event=event, path=self._path, detail=detail))

    def _frame(self, kind: str, file: FileId | None, offset: int | None) -> dict[str, Any]:
        device, inode = file or (None, None)
        return {"kind": kind, "tail": self._tail_id, "dev": device, "inode": inode, "offset": offset}
