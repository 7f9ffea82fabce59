"""From the bytes of a log to lines that are safe to show, each with its class and its head.

`LineSplitter` turns bytes, cut anywhere, into lines of printable text; `LogReader` gives them numbers and
meaning (domain/logclass.py, domain/logcontext.py).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from console.domain.logclass import LinePattern, classify, judge, judge_with
from console.domain.logcontext import LogContext
from console.domain.logline import LogLine
from console.domain.printable import Colour, coloured, printable

__all__ = ["LINE_LIMIT", "Cut", "LineSplitter", "LogReader", "Read", "Split", "classify"]

LINE_LIMIT = 4096
"""Characters of a line that are kept; the rest is counted and skipped."""
DUMP_LIMIT = 32 * 1024
"""The same for the dump of all settings (13 kB in 0.5.15), whose end says as much as its beginning."""
CUTS_KEPT = 1000
"""So many cut lines can still be found in the file."""

_KEPT_BYTES = max(4 * LINE_LIMIT, DUMP_LIMIT)  # LINE_LIMIT characters of UTF-8
_END_BYTES = 16

_GLUED = re.compile(r"(?<=(?:it/s|s/it)\]) *(?=\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_DUMP = re.compile(r"(?:\[[^]]{,80}\] )?server_args=")


class Split(NamedTuple):
    """What one piece of a log gave: the lines it completed, and the unfinished one at its end."""

    lines: list[str]
    live: str | None
    """Replaces the previous `live`, which is a part of `lines` or of this one by now."""


class Cut(NamedTuple):
    """Where a line that is shown in part stands in its file, whole: `length` bytes from `offset`."""

    offset: int
    length: int
    end: str
    """Its last characters."""


class LineSplitter:
    """Splits one log. A carriage return starts the line anew, so a progress bar is one line that changes.

    Every byte that is not UTF-8 becomes U+FFFD; for the rest see domain/printable.py.
    """

    def __init__(self) -> None:
        self.count = 0
        """Lines completed so far."""
        self.cuts: dict[int, Cut] = {}
        """The last `CUTS_KEPT` lines that were cut, by their number from 1."""
        self.colours: dict[int, tuple[Colour, ...]] = {}
        """Of lines completed since they were last taken, by number, where their writer gave them any."""
        self._pending = bytearray()
        self._start = 0  # where in the file the pending line starts
        self._length = 0  # of the pending line, with what is not kept of it
        self._end = b""  # its last bytes
        self._next = 0
        self._returned = False  # a carriage return stands at the end: what comes next replaces the line

    def feed(self, data: bytes, offset: int | None = None) -> Split:
        """Takes the next bytes, however many and wherever they were cut.

        `offset` is where they stand in the file, if not behind those before.
        """
        at = self._next if offset is None else offset
        self._next = at + len(data)
        first, newline, rest = data.partition(b"\n")
        self._append(first, at)
        if not newline:
            return Split([], self._live())
        lines = self._take()
        whole, newline, tail = rest.rpartition(b"\n")
        if newline:
            lines += self._lines(whole, at + len(first) + 1)
        self._append(tail, self._next - len(tail))
        return Split(lines, self._live())

    def end(self) -> list[str]:
        """The log ended, or another file took its place: what was unfinished is a line now."""
        return self._take() if self._length else []

    def _append(self, data: bytes, at: int) -> None:
        visible = data.rstrip(b"\r")
        start = visible.rfind(b"\r") + 1
        if start or (visible and self._returned):
            self._forget()
        self._returned = visible != data if visible else self._returned or bool(data)
        if not self._length:
            self._start = at + start
        self._length += len(visible) - start
        self._pending += visible[start : start + _KEPT_BYTES - len(self._pending)]
        self._end = (self._end + visible[max(start, len(visible) - _END_BYTES) :])[-_END_BYTES:]

    def _forget(self) -> None:
        self._pending.clear()
        self._length = 0
        self._end = b""
        self._returned = False

    def _take(self) -> list[str]:
        text = self._pending.decode("utf-8", "replace")
        if len(text) <= LINE_LIMIT:
            lines = self._short(text, self.count + 1)
        else:
            lines = [_cut(text, self._length)]
            if len(text) > _limit(text) or self._length > len(self._pending):
                self._remember(Cut(self._start, self._length, self._end.decode("utf-8", "replace")))
        self.count += len(lines)
        self._forget()
        return lines

    def _lines(self, block: bytes, at: int) -> list[str]:
        """The hot path: nine lines in ten are short printable ASCII and pass three cheap tests."""
        lines: list[str] = []
        places = _places(block, at)
        counted = self.count
        for index, raw in enumerate(block.decode("utf-8", "replace").split("\n")):
            if raw.isascii() and raw.isprintable() and len(raw) <= LINE_LIMIT:
                lines.append(raw)
                continue
            text = _last_segment(raw)
            if len(text) <= LINE_LIMIT:
                lines += self._short(text, counted + len(lines) + 1)
                continue
            self._append(*next((data, start) for number, data, start in places if number == index))
            self.count = counted + len(lines)
            lines += self._take()
        self.count = counted + len(lines)
        return lines

    def _short(self, text: str, number: int) -> list[str]:
        if "\x1b[" not in text or "/s]" in text or "/it]" in text:
            return _short(text)
        line, colours = coloured(text)
        if colours:
            self.colours[number] = colours
        return [line]

    def _remember(self, cut: Cut) -> None:
        self.cuts[self.count + 1] = cut
        if len(self.cuts) > CUTS_KEPT:
            del self.cuts[next(iter(self.cuts))]

    def _live(self) -> str | None:
        if not self._length:
            return None
        # An incremental decoder holds back a character whose last bytes are still to come.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._pending))
        return printable(text) if len(text) <= LINE_LIMIT else _cut(text, self._length)


def _places(block: bytes, at: int) -> Iterator[tuple[int, bytes, int]]:
    """The lines of a block as bytes, each with its index and its place in the file."""
    for index, data in enumerate(block.split(b"\n")):
        yield index, data, at
        at += len(data) + 1


def _last_segment(raw: str) -> str:
    """What is left to see of a line that was written over."""
    return raw.rstrip("\r").rpartition("\r")[2] if "\r" in raw else raw


def _short(text: str) -> list[str]:
    """Parts a bar from the log line that another rank printed behind it, where no newline stands between."""
    if "/s]" in text or "/it]" in text:
        return [printable(part) for part in _GLUED.sub("\n", text).split("\n")]
    return [printable(text)]


def _limit(text: str) -> int:
    return DUMP_LIMIT if _DUMP.match(text) else LINE_LIMIT


def _cut(text: str, length: int) -> str:
    """A line of `length` bytes, as much of it as is kept, with what is missing told."""
    kept = text[: _limit(text)]
    skipped = length - len(kept.encode())
    return f"{printable(kept)} … +{_size(skipped)}" if skipped > 0 else printable(kept)


def _size(count: int) -> str:
    """Bytes in decimal units, rounded down."""
    if count < 1000:
        return f"{count} B"
    return f"{count // 1000} kB" if count < 1_000_000 else f"{count // 10_000 / 100:.2f} MB"


class Read(NamedTuple):
    """What one piece of a log gave."""

    lines: list[LogLine]
    live: LogLine | None
    """The unfinished line; it replaces the one before."""
    revised: list[LogLine]
    """Lines of earlier calls that mean something else now; of two with one number the later holds."""
    colours: dict[int, tuple[Colour, ...]]
    """Those that the writer gave the lines, by number."""


class LogReader:
    """Reads one log over all of its files. A line keeps its number (from 1) for ever."""

    def __init__(self, patterns: Sequence[LinePattern] = ()) -> None:
        self._splitter = LineSplitter()
        self._context = LogContext()
        self._judge = partial(judge_with, tuple(patterns)) if patterns else judge

    @property
    def cuts(self) -> dict[int, Cut]:
        """Where the lines stand that were cut for display, by number; the last `CUTS_KEPT`."""
        return self._splitter.cuts

    def feed(self, data: bytes, offset: int | None = None) -> Read:
        """Takes the next bytes, however many and wherever they were cut.

        `offset` is where they stand in the file, if not behind those before.
        """
        first = self._splitter.count + 1
        texts, live = self._splitter.feed(data, offset)
        return self._read(first, self._placed(first, texts), live)

    def end(self) -> Read:
        """The file ended for good: what was unfinished is a line now."""
        first = self._splitter.count + 1
        lines = self._placed(first, self._splitter.end())
        self._context.end()
        return self._read(first, lines, None)

    def _placed(self, first: int, texts: list[str]) -> list[LogLine]:
        feed, judge_line, cuts = self._context.feed, self._judge, self._splitter.cuts
        if not cuts:
            return [feed(number, text, judge_line(text)) for number, text in enumerate(texts, first)]
        return [
            feed(number, text, judge_line(text), cuts[number].end if number in cuts else None)
            for number, text in enumerate(texts, first)
        ]

    def _read(self, first: int, lines: list[LogLine], live: str | None) -> Read:
        """Revisions of what this very piece gave are made at once."""
        revised, self._context.revised = self._context.revised, []
        for line in revised:
            if line.number >= first:
                lines[line.number - first] = line
        colours, self._splitter.colours = self._splitter.colours, {}
        earlier = [line for line in revised if line.number < first]
        return Read(lines, self._living(live), earlier, colours)

    def _living(self, live: str | None) -> LogLine | None:
        if live is None:
            return None
        return LogLine(self._splitter.count + 1, live, self._context.live_class(self._judge(live)))
