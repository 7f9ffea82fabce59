"""Pages of a log file that were not followed: the lines before an offset, a slice at a time."""

from __future__ import annotations

import os
from typing import Any, Dict, Generator, Iterator, Tuple

PAGE_LIMIT = 1 << 18
PART = 1 << 15
"""Bytes of one frame: telemetry waits for no more than that."""
SLICE = 1 << 20
"""Bytes looked through between two turns of the agent's loop: less than a millisecond in the page cache."""
TRUNCATED = "the log was truncated: what was there before is lost"

Part = Tuple[Dict[str, Any], bytes]


def page_before(fd: int, before: int, limit: int) -> Iterator[Part | None]:
    """The whole lines among the `limit` bytes before `before`, in parts; None where others may take a turn.

    Of one line that is longer come the head and the last part, so that a gap is left between their offsets.
    `before` is taken for the end of a line. Raises OSError, also when the file has become shorter than that.
    """
    if os.fstat(fd).st_size < before:
        raise OSError(TRUNCATED)
    begin = yield from start_of_page(fd, before, limit)
    if before - begin <= limit:
        yield from span(fd, begin, before)
    else:
        yield from span(fd, begin, begin + limit - PART, more=True)
        yield from span(fd, before - PART, before)


def span(fd: int, begin: int, end: int, *, more: bool = False) -> Iterator[Part]:
    """The bytes between two offsets, in parts; at least one, and `more` after the last if it is said so.

    Raises OSError when the file ends before.
    """
    for offset in range(begin, max(end, begin + 1), PART):
        size = min(PART, end - offset)
        data = os.pread(fd, size, offset)
        if len(data) < size:
            raise OSError(TRUNCATED)
        yield {"kind": "page", "offset": offset, "more": more or offset + PART < end}, data


def start_of_page(fd: int, before: int, limit: int) -> Generator[None, None, int]:
    """Where the first whole line of the page begins, or the one line that is longer than the page."""
    floor = before - limit
    if floor <= 0:
        return 0
    # The byte before the floor tells whether a line begins there; the last byte ends the last line.
    newline = os.pread(fd, limit, floor - 1).find(b"\n")
    if newline >= 0:
        return floor + newline
    while floor > 0:
        yield
        begin = max(0, floor - SLICE)
        newline = os.pread(fd, floor - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        floor = begin
    return 0
