"""Facts about log files on disk: where the last lines begin, and what follows a file that was rotated."""

from __future__ import annotations

import collections
import errno
import itertools
import os
import re
import stat
from typing import Iterator, Tuple

FileId = Tuple[int, int]
"""(device, inode): what a file is, whatever it is called."""

BLOCK = 1 << 16
SCAN_LIMIT = 8 << 20
"""How far back the start of the last lines is looked for, in bytes."""
ROTATED = re.compile(r"[.\-_].+")
"""What rotation appends to a name: .1, .2026-11-01, -20261101."""
SHIFTED = re.compile(r"\.(\d{1,3})")
"""The kind that is shifted: .1 is newer than .2 (logrotate, Python's RotatingFileHandler)."""


def open_log(path: str) -> int:
    """A descriptor for reading. Raises OSError, also for what is no regular file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "not a regular file", path)


def id_of(status: os.stat_result) -> FileId:
    """The identity of a file."""
    return status.st_dev, status.st_ino


def start_of_last_lines(fd: int, end: int, lines: int) -> int:
    """Offset at which the last `lines` lines before `end` begin; an unfinished line counts as one.

    Looks back over SCAN_LIMIT bytes and takes the first line start there when they hold fewer lines. Inside
    one longer line it takes the limit itself.
    """
    if lines <= 0 or end <= 0:
        return end
    floor = max(0, end - SCAN_LIMIT)
    starts = collections.deque(itertools.islice(line_starts(fd, floor, end - 1), lines), maxlen=1)
    return starts[0] if starts else floor


def line_starts(fd: int, floor: int, end: int) -> Iterator[int]:
    """Offsets after the newlines from `floor` to `end`, the last first; then the file's start if reached."""
    while end > floor:
        begin = max(floor, end - BLOCK)
        block = os.pread(fd, end - begin, begin)
        index = block.rfind(b"\n")
        while index >= 0:
            yield begin + index + 1
            index = block.rfind(b"\n", 0, index)
        end = begin
    if floor == 0:
        yield 0


def start_of_data(fd: int) -> int:
    """Offset of the first bytes that were written; a hole before them holds none.

    A writer that does not append goes on at its old offset after a truncation and leaves such a hole.
    """
    try:
        return os.lseek(fd, 0, os.SEEK_DATA)
    except OSError:
        return 0


def name_of(path: str, file: FileId) -> str | None:
    """Where a file that was called `path` is now: there, or under a rotated name in the same folder."""
    folder, base = os.path.split(path)
    try:
        names = [name for name in os.listdir(folder or ".") if name.startswith(base)]
    except OSError:
        names = []
    rotated = (name for name in names if ROTATED.fullmatch(name, len(base)))
    for candidate in itertools.chain([path], (os.path.join(folder, name) for name in rotated)):
        try:
            if id_of(os.stat(candidate)) == file:
                return candidate
        except OSError:
            continue
    return None


def open_next(path: str, file: FileId) -> int | None:
    """A descriptor of the file that was written after `file`, both having been called `path` in their time.

    None while a rotation is under way. Raises OSError when it cannot be opened. Where the older file has no
    number, what `path` names now is the next one.
    """
    # A name that changes while a folder is listed may be missed once.
    name = name_of(path, file) or name_of(path, file)
    if name == path:
        return None
    shifted = SHIFTED.fullmatch(name, len(path)) if name else None
    fd = open_newer_than(path, int(shifted.group(1)) if shifted else 0)
    # The oldest is shifted first: as long as `file` has kept its name, the one after it has too.
    if name_of(path, file) == name:
        return fd
    os.close(fd)
    return None


def open_newer_than(path: str, number: int) -> int:
    """Open the file that was rotated next after `path`.`number`, or `path` itself. Raises OSError."""
    for newer in range(number - 1, 0, -1):
        try:
            return open_log(f"{path}.{newer}")
        except FileNotFoundError:
            continue
    return open_log(path)
