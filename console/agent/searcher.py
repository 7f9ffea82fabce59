"""Searches one open log file, in a process of its own: no pattern, however slow, holds up the agent.

What is searched is what a screen shows: text without its escape sequences, and of a line that was redrawn
over carriage returns what it shows last. Reports go to stdout as headers of frames, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from itertools import accumulate
from typing import Any, Dict, Iterator, Tuple

BLOCK = 1 << 18
LINE_SEARCHED = 1 << 20
"""Bytes of one line that are searched; how many lines are longer is told."""
REPORT_S = 0.2
REPORT_CHARS = 32768
STUCK_S = 2.0
"""A block takes milliseconds. After so much computing on one, the kernel ends the process."""
NICENESS = 5

SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\n\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")

Order = Dict[str, Any]
Span = Tuple[int, int]


def main(order: Order) -> None:
    """Search as the order says, report what is found, and end."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    os.nice(NICENESS)
    allow_time()
    try:
        search = Search(order)
    except (re.error, OverflowError, RecursionError) as error:
        say({"kind": "reply", "error": f"not a regular expression: {error}", "more": False})
        return
    search.run()


def allow_time() -> None:
    """From now on, so much computing is allowed."""
    signal.setitimer(signal.ITIMER_VIRTUAL, STUCK_S)


def say(report: dict[str, Any]) -> None:
    """One line on stdout."""
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


class Search:
    """One search. The order has `fd`, `pattern`, `literal`, `ignore_case`, `backwards`, `max_matches` and
    `max_chars`, the most of a line that is reported. Raises re.error."""

    def __init__(self, order: Order) -> None:
        self._fd: int = order["fd"]
        self._size = os.fstat(self._fd).st_size
        self._literal: bool = order["literal"]
        pattern = re.escape(order["pattern"]) if self._literal else order["pattern"]
        self._find = re.compile(pattern, re.IGNORECASE if order["ignore_case"] else 0).search
        self._backwards: bool = order["backwards"]
        self._wanted: int = order["max_matches"]
        self._max_chars: int = order["max_chars"]
        self._found: list[dict[str, Any]] = []
        self._chars = 0
        self._searched = 0
        self._cut_lines = 0
        self._reported_at = time.monotonic()

    def run(self) -> None:
        """Search block by block until there are enough matches or no more blocks."""
        blocks = blocks_backwards if self._backwards else blocks_forwards
        try:
            for begin, end in blocks(self._fd, self._size):
                allow_time()
                self._search_block(begin, end)
                if self._wanted == 0:
                    break
                self._searched += end - begin
                if time.monotonic() - self._reported_at >= REPORT_S:
                    self._report()
        except EOFError:
            self._report(more=False, complete=False, note="the file was truncated while it was searched")
        else:
            self._report(more=False, complete=self._searched == self._size)

    def _report(self, *, more: bool = True, **how: Any) -> None:
        progress = {"searched": self._searched, "size": self._size, "cut_lines": self._cut_lines}
        say(dict(progress, kind="matches", matches=self._found, more=more, **how))
        self._found, self._chars = [], 0
        self._reported_at = time.monotonic()

    def _search_block(self, begin: int, end: int) -> None:
        length = min(end - begin, LINE_SEARCHED)
        raw = os.pread(self._fd, length, begin)
        if len(raw) < length:
            raise EOFError
        self._cut_lines += length < end - begin
        raw = raw[:-1] if raw.endswith(b"\n") else raw
        text = SEQUENCE.sub("", raw.decode("utf-8", "replace"))
        # No literal spans two lines, so that a block without it has no line with it.
        if self._literal and not self._find(text):
            return
        lines = [shown(line) for line in text.split("\n")]
        hits = [index for index, line in enumerate(lines) if self._find(line)]
        if not hits:
            return
        starts = [*accumulate((len(line) + 1 for line in raw.split(b"\n")[:-1]), initial=begin), end]
        for index in (hits[::-1] if self._backwards else hits)[: self._wanted]:
            self._take(starts[index], starts[index + 1], lines[index])

    def _take(self, begin: int, end: int, line: str) -> None:
        text, left_out = self._excerpt(line)
        self._found.append({"offset": begin, "size": end - begin, "text": text, "left_out": left_out})
        self._wanted -= 1
        self._chars += len(text)
        if self._chars >= REPORT_CHARS:
            self._report()

    def _excerpt(self, line: str) -> tuple[str, int]:
        """What is wanted of the line, the match in it, and the number of characters left out before."""
        if len(line) <= self._max_chars:
            return line, 0
        found = self._find(line)
        start = max(0, found.start() - self._max_chars // 4) if found else 0
        return line[start : start + self._max_chars], start


def shown(line: str) -> str:
    """What is seen of a line in the end."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def blocks_forwards(fd: int, size: int) -> Iterator[Span]:
    """Spans of whole lines from the start; a line that is longer than a block is a span by itself."""
    begin = 0
    while begin < size:
        end = min(size, begin + BLOCK)
        if end < size:
            newline = os.pread(fd, BLOCK, begin).rfind(b"\n")
            end = begin + newline + 1 if newline >= 0 else end_of_line(fd, end, size)
        yield begin, end
        begin = end


def blocks_backwards(fd: int, size: int) -> Iterator[Span]:
    """The same from the end."""
    end = size
    while end > 0:
        begin = max(0, end - BLOCK)
        if begin > 0:
            newline = os.pread(fd, end - begin, begin - 1).find(b"\n")
            begin = begin + newline if newline >= 0 else start_of_line(fd, begin)
        yield begin, end
        end = begin


def end_of_line(fd: int, begin: int, size: int) -> int:
    """The offset after the first newline from `begin` on; `size` when there is none."""
    while begin < size:
        newline = os.pread(fd, BLOCK, begin).find(b"\n")
        if newline >= 0:
            return min(size, begin + newline + 1)
        begin += BLOCK
    return size


def start_of_line(fd: int, end: int) -> int:
    """The offset after the last newline before `end`; 0 when there is none."""
    while end > 0:
        begin = max(0, end - BLOCK)
        newline = os.pread(fd, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0
