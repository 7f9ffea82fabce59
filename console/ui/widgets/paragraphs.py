"""Text of several paragraphs, wrapped to the width that there is, a sign before and a figure behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from textual.geometry import Region, Size

from console.domain.printable import printable

from .line_view import LineView
from .lines import Line, Span, width_of
from .meter import Glyphs

LEAST_ROOM = 24
"""Cells of text beside a tail; in less the tail has a line of its own."""
GAP = 2
SCROLL_BAR = 1
FOLLOWING = 6
"""Lines brought into view from the top of what is revealed."""


class Paragraph(NamedTuple):
    """`head` stands before its first line, `tail` at the right end of it; further lines are indented."""

    text: str = ""
    tone: str = ""
    head: Line = ()
    tail: Line = ()
    indent: int | None = None
    """Cells before the further lines; None: as wide as the head."""


def clean(text: str, glyphs: Glyphs) -> str:
    """Text that others wrote, as one line that this terminal can show."""
    return glyphs.safe(printable(text.strip()).replace("…", glyphs.ellipsis))


def laid_out(paragraphs: Iterable[Paragraph], width: int, glyphs: Glyphs) -> list[Line]:
    """The lines of all paragraphs, none wider than `width`."""
    return [line for paragraph in paragraphs for line in _lines(paragraph, width, glyphs)]


def _lines(paragraph: Paragraph, width: int, glyphs: Glyphs) -> Iterator[Line]:
    before = width_of(paragraph.head)
    behind = width_of(paragraph.tail) + GAP if paragraph.tail else 0
    beside = width - before - behind >= LEAST_ROOM
    indent = before if paragraph.indent is None else paragraph.indent
    first = width - before - (behind if beside else 0)
    for number, text in enumerate(_wrapped(paragraph.text, first, width - indent, glyphs)):
        if number:
            yield (Span(" " * indent), Span(text, paragraph.tone))
        elif beside and paragraph.tail:
            gap = Span(" " * (first - cell_len(text) + GAP))
            yield (*paragraph.head, Span(text, paragraph.tone), gap, *paragraph.tail)
        else:
            yield (*paragraph.head, Span(text, paragraph.tone))
    if paragraph.tail and not beside:
        yield (Span(" " * indent), *paragraph.tail)


def _wrapped(text: str, first: int, rest: int, glyphs: Glyphs) -> Iterator[str]:
    room = max(first, 1)
    for part in text.splitlines() or [""]:
        line = ""
        for word in _words(clean(part, glyphs), max(min(first, rest), 1)):
            if line and cell_len(line) + 1 + cell_len(word) > room:
                yield line
                line, room = word, max(rest, 1)
            else:
                line = f"{line} {word}" if line else word
        yield line
        room = max(rest, 1)


def _words(text: str, width: int) -> Iterator[str]:
    """The words, those cut in pieces that are wider than a line."""
    for word in text.split(" "):
        yield from chop_cells(word, width) if cell_len(word) > width else [word]


class ParagraphView(LineView):
    """Shows paragraphs; as high as they are where the style sheet says `height: auto`."""

    _paragraphs: tuple[Paragraph, ...] = ()

    def show(self, paragraphs: Iterable[Paragraph]) -> None:
        """Show these instead."""
        shown = tuple(paragraphs)
        if shown == self._paragraphs:
            return
        before = len(self._lines)
        self._paragraphs = shown
        self.redraw()
        if len(self._lines) != before or not before:
            self.refresh(layout=True)

    def reveal(self, wanted: Callable[[Paragraph], bool]) -> None:
        """Scroll so far that the first such paragraph is in view, and some of what follows it."""
        before = list(takewhile(lambda paragraph: not wanted(paragraph), self._paragraphs))
        if len(before) < len(self._paragraphs):
            top = len(laid_out(before, self.size.width - SCROLL_BAR, self.glyphs))
            self.scroll_to_region(Region(0, top, 1, FOLLOWING), animate=False, force=True)

    def lines(self, width: int, height: int) -> Sequence[Line]:
        return laid_out(self._paragraphs, width - SCROLL_BAR, self.glyphs)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines(width, 0))
