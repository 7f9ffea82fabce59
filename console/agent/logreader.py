"""One open log file and how far it has been read."""

from __future__ import annotations

import os

from . import logfiles

REMEMBERED = 64
"""Bytes before the offset that are kept, to notice a file that was cut and grew past the offset again."""


class LogReader:
    """Reads onward from `offset`; owns the descriptor. Every method may raise OSError.

    When the file turns out to have been cut, or written anew, the offset goes back to 0 and the method tells.
    `last` are the bytes that stood before the offset when it was reached; without it, those that stand there
    now.
    """

    def __init__(self, fd: int, offset: int, last: bytes = b"") -> None:
        status = os.fstat(fd)
        self._fd = fd
        self.file = logfiles.id_of(status)
        self.offset = offset
        self._size = status.st_size
        # What was remembered elsewhere has to be compared with the file at the first opportunity.
        self._changed_ns = 0 if last else status.st_mtime_ns
        kept = min(offset, REMEMBERED)
        self.last = last or os.pread(fd, kept, offset - kept)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def descriptor(self) -> int:
        """Another descriptor of the same file."""
        return os.dup(self._fd)

    def space(self) -> int:
        """Bytes that an ordinary user may still write to the file system."""
        found = os.fstatvfs(self._fd)
        return found.f_bavail * found.f_frsize

    def status(self) -> os.stat_result:
        """The file's status now, under whatever name."""
        return os.fstat(self._fd)

    @property
    def at_end(self) -> bool:
        """True when all bytes of the size last measured have been read."""
        return self._size <= self.offset

    def measure(self, status: os.stat_result) -> bool:
        """Take note of the file's size. False when it was cut."""
        changed = status.st_mtime_ns != self._changed_ns
        self._size, self._changed_ns = status.st_size, status.st_mtime_ns
        if self._size < self.offset:
            self._start_over()
            return False
        if self.at_end and changed:
            return self.read(0) is not None
        return True

    def read(self, limit: int) -> bytes | None:
        """Up to `limit` bytes, empty at the end; None when the file was cut."""
        if self.offset == 0:
            self.offset = logfiles.start_of_data(self._fd)
        kept = len(self.last)
        data = os.pread(self._fd, kept + limit, self.offset - kept)
        if not data.startswith(self.last):
            self._start_over()
            return None
        return data[kept:]

    def advance(self, data: bytes) -> None:
        """Count bytes as read."""
        self.offset += len(data)
        self.last = (self.last + data)[-REMEMBERED:]

    def _start_over(self) -> None:
        self.offset, self.last = 0, b""
