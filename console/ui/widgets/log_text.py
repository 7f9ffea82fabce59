"""What is shown of the text of a row, and in which tones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from console.domain.logline import LogLine
from console.domain.printable import Colour

from .log_rows import Row
from .meter import Glyphs

# Left out of a line: the date, the level (the sign says it), and where in its source a router stands.
_SGLANG = re.compile(
    r"\[\d{4}-\d\d-\d\d (?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<ranks>(?: [A-Z_]+\d+)*)\] "
    r"(?:(?:INFO|WARNING|ERROR): +)?"
)
_ROUTER = re.compile(
    r"\d{4}-\d\d-\d\d (?P<time>\d\d:\d\d:\d\d)(?P<ranks>) +(?:(?:TRACE|DEBUG|INFO|WARN|ERROR) )?"
)
_ROUTER_DETAIL = re.compile(r'(?<=: )/\S+\.rs:\d+: | version=\S+ module="\w+" request_id="[^"]*"')
_VALUE = re.compile(r"(?<=: )([^,]+)")


class Piece(NamedTuple):
    """A part of a row's text in one tone; `start` is where in the whole text it stands."""

    text: str
    tone: str
    start: int
    sgr: str = ""
    """SGR parameters that its writer gave it."""

    def part(self, start: int, end: int) -> Piece:
        """What of it stands between two places in the whole text."""
        return self._replace(text=self.text[start - self.start : end - self.start], start=start)


def recoloured(pieces: Iterable[Piece], colours: Sequence[Colour]) -> Iterator[Piece]:
    """The pieces, cut where a colour of the writer's begins or ends."""
    for piece in pieces:
        done, end = piece.start, piece.start + len(piece.text)
        for colour in colours:
            first, last = max(done, colour.start), min(end, colour.end)
            if first < last:
                if first > done:
                    yield piece.part(done, first)
                yield piece.part(first, last)._replace(sgr=colour.sgr)
                done = last
        if done < end:
            yield piece.part(done, end)


def row_pieces(row: Row, glyphs: Glyphs, *, whole: bool = False, timed: bool = True) -> list[Piece]:
    """What is shown of a row, all of it cut out of its text; letter for letter where `whole`."""
    text = glyphs.safe(row.text)
    if not isinstance(row, LogLine):
        return [Piece(text, "log-note", 0)]
    tone = f"log-{row.line_class}"
    if whole:
        return [Piece(text, tone, 0)]
    prefix = _SGLANG.match(text) or _ROUTER.match(text)
    if prefix is None:
        return list(_message(row, text, 0, tone))
    return [*_lead(prefix, timed=timed), *_message(row, text, prefix.end(), tone)]


def _lead(prefix: re.Match[str], *, timed: bool) -> Iterator[Piece]:
    """When and where."""
    start = prefix.start("time") if timed else prefix.start("ranks") + 1
    end = prefix.end("ranks")
    if start < end:
        yield Piece(prefix.string[start:end], "muted", start)
        yield Piece(" ", "muted", prefix.end() - 1)


def _message(row: LogLine, text: str, start: int, tone: str) -> Iterator[Piece]:
    """What: a batch line as labels and values, anything else in one tone, without the router's details."""
    if row.line_class == "stats":
        yield from _values(text, start)
        return
    if start and text[0] != "[":
        for detail in _ROUTER_DETAIL.finditer(text, start):
            yield Piece(text[start : detail.start()], tone, start)
            start = detail.end()
    yield Piece(text[start:], tone, start)


def _values(text: str, start: int) -> Iterator[Piece]:
    for value in _VALUE.finditer(text, start):
        yield Piece(text[start : value.start()], "log-stats", start)
        yield Piece(value[0], "log-plain", value.start())
        start = value.end()
    if start < len(text):
        yield Piece(text[start:], "log-stats", start)
