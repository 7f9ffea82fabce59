"""How one row of a log looks: a sign that tells its class without colour, whose it is, then its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from console.domain.logline import LogLine
from console.domain.printable import Colour

from .lines import Line, Span, in_grey
from .log_folds import folds
from .log_rows import Kind, Mark, Note, Row, Source
from .log_text import Piece, recoloured, row_pieces
from .meter import Glyphs
from .paint import Paint, Tone

SIGNS: Mapping[Kind, str] = {
    "ready": "✓",
    "error": "✗",
    "fatal": "✖",
    "warning": "!",
    "stats": "~",
    "progress": "›",  # noqa: RUF001
    "config": "=",
    "benign": "·",
    "plain": " ",
    "note": "─",
    "mark": "─",
}
ASCII_SIGNS: Mapping[Kind, str] = {
    **SIGNS,
    "ready": "+",
    "error": "x",
    "fatal": "X",
    "progress": ">",
    "benign": ".",
    "note": "-",
    "mark": "-",
}

GUTTER = 2
"""Cells of the sign, and of the blank or the bar of a selected row behind it."""

LOG_TONES: Mapping[str, Tone] = {
    "log-ready": Tone(("log-ready", "success"), bold=True),
    "log-error": Tone(("log-error", "error")),
    "log-fatal": Tone(("log-fatal", "error"), bold=True),
    "log-warning": Tone(("log-warning", "warning")),
    "log-stats": Tone(("log-stats", "foreground-muted")),
    "log-progress": Tone(("log-progress", "foreground-muted")),
    "log-config": Tone(("log-config", "foreground-muted")),
    "log-benign": Tone(("log-benign", "foreground-muted")),
    "log-plain": Tone(),
    "log-note": Tone(("log-note", "accent")),
    "log-mark": Tone(("accent",), bold=True),
    "marked": Tone(("primary",), bold=True),
    "match": Tone(("accent",)),
    "selected": Tone(("primary",), bold=True),
}
# Reversed, so that they are seen without colour too.
_REVERSED = frozenset({"marked", "match"})


class LogPaint(Paint):
    """Adds the tones of logs to those of every panel, all on the base style of the pane."""

    def __init__(self, variables: Mapping[str, str], base: Style) -> None:
        super().__init__(variables)
        self.base = base
        self._based: dict[str, Style] = {}

    def style(self, tone: str) -> Style:
        style = self._based.get(tone)
        if style is None:
            own = self._style(LOG_TONES[tone]) if tone in LOG_TONES else super().style(tone)
            style = self._based[tone] = self.base + own + Style(reverse=True if tone in _REVERSED else None)
        return style

    def segments(self, line: Line) -> list[Segment]:
        """A line in colour, in pieces."""
        return [Segment(text, self.style(tone)) for text, tone in line]


class Window(NamedTuple):
    """What part of a row is seen, and how."""

    width: int
    left: int = 0
    """Cells that are scrolled out at the left; the gutter stays."""
    folded: bool = False
    """Long rows take several lines of the screen rather than being cut."""
    whole: bool = False
    """Letter for letter, with what the line's prefix says of date, level and source."""
    timed: bool = True
    """With the time of day, where the line is not whole."""
    greyed: bool = False
    words: int = 0
    """Cells for the word that says whose the line is, the blank behind it included; 0 for none."""

    @property
    def room(self) -> int:
        """Cells for the text."""
        return max(1, self.width - GUTTER - self.words)


class Emphasis(NamedTuple):
    """What sets a row off from others."""

    marked: bool = False
    """It was jumped to."""
    selected: bool = False
    matches: re.Pattern[str] | None = None
    """What to show in reverse."""
    colours: tuple[Colour, ...] = ()
    """Those that its writer gave it."""


PLAIN = Emphasis()


def row_strips(
    row: Row,
    source: Source | None,
    window: Window,
    paint: LogPaint,
    glyphs: Glyphs,
    emphasis: Emphasis = PLAIN,
) -> list[Strip]:
    """A row as lines of `window.width` cells each; one line where rows are not folded."""
    if isinstance(row, Mark):
        return [_rule(row, window, paint, glyphs, emphasis)]
    pieces = row_pieces(row, glyphs, whole=window.whole, timed=window.timed)
    text = Strip(_segments(pieces, row, window, paint, emphasis))
    parts = _folded(text, window, paint) if window.folded else [_cut(text, window, paint, glyphs)]
    gutters = _gutters(row, source, window, glyphs, emphasis)
    return [
        Strip([*paint.segments(gutter), *part], window.width)
        for gutter, part in zip(gutters, parts, strict=False)
    ]


def kind_of(row: Row) -> Kind:
    """What a row is."""
    if isinstance(row, LogLine):
        return row.line_class
    return "note" if isinstance(row, Note) else "mark"


def _gutters(
    row: Row, source: Source | None, window: Window, glyphs: Glyphs, emphasis: Emphasis
) -> Iterator[Line]:
    """The gutter of the first line of a row, then of those that continue it, without end."""
    kind = kind_of(row)
    signs = ASCII_SIGNS if glyphs.ascii_only else SIGNS
    sign = Span(signs[kind], "marked" if emphasis.marked else f"log-{kind}")
    bar = Span(("|" if glyphs.ascii_only else "▎") if emphasis.selected else " ", "selected")
    word = Span((source.word if source else "").ljust(window.words)[: window.words], _role_tone(source))
    first: Line = (sign, bar, word)
    yield in_grey(first) if window.greyed else first
    while True:
        yield Span(" "), bar, Span(" " * window.words)


def _role_tone(source: Source | None) -> str:
    return "muted" if source is None or source.role is None else f"role-{source.role}"


def _segments(
    pieces: Iterable[Piece], row: Row, window: Window, paint: LogPaint, emphasis: Emphasis
) -> Iterator[Segment]:
    tone_of = _greyed if window.greyed else str
    matched = list(_matched(row.text, emphasis.matches))
    for piece in recoloured(pieces, () if window.greyed else emphasis.colours):
        for text, is_match in _parted(piece, matched):
            style = paint.style("match" if is_match else tone_of(piece.tone))
            yield Segment(text, style + sgr_style(piece.sgr) if piece.sgr and not is_match else style)


@lru_cache(256)
def sgr_style(sgr: str) -> Style:
    """Foreground, weight and slant of SGR parameters; a background would hide what the pane marks."""
    spans = Text.from_ansi(f"\x1b[{sgr}mx").spans
    given = Style.combine([Style(), *(span.style for span in spans if isinstance(span.style, Style))])
    return Style(
        color=given.color, bold=given.bold, dim=given.dim, italic=given.italic, underline=given.underline
    )


def _greyed(tone: str) -> str:
    return in_grey((Span("", tone),))[0].tone


def _matched(text: str, pattern: re.Pattern[str] | None) -> Iterator[tuple[int, int]]:
    if pattern is not None:
        yield from (found.span() for found in pattern.finditer(text) if found.end() > found.start())


def _parted(piece: Piece, matched: Iterable[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """A piece in those parts of it that match and those that do not."""
    done, text = 0, piece.text
    for first, last in matched:
        start, end = max(done, first - piece.start), min(len(text), last - piece.start)
        if start < end:
            if start > done:
                yield text[done:start], False
            yield text[start:end], True
            done = end
    if done < len(text):
        yield text[done:], False


def _cut(text: Strip, window: Window, paint: LogPaint, glyphs: Glyphs) -> Strip:
    """The part of the text in view, with an ellipsis where it goes on."""
    room = window.room
    cut = text.cell_length > window.left + room
    seen = text.crop(window.left, window.left + room - cut) if cut or window.left else text
    pad = Span(glyphs.ellipsis, "muted") if cut else Span(" " * max(0, room - seen.cell_length))
    return Strip([*seen, *paint.segments((pad,))], room)


def _folded(text: Strip, window: Window, paint: LogPaint) -> list[Strip]:
    room = window.room
    if not text.cell_length:
        return [Strip.blank(room, paint.base)]
    return [part.adjust_cell_length(room, paint.base) for part in text.divide(list(folds(text.text, room)))]


def _rule(row: Mark, window: Window, paint: LogPaint, glyphs: Glyphs, emphasis: Emphasis) -> Strip:
    """A line across the log, with time and text in it."""
    dash = ASCII_SIGNS["mark"] if glyphs.ascii_only else SIGNS["mark"]
    said = f"{dash} {glyphs.safe(row.text)} "
    said += dash * max(0, window.width - 1 - cell_len(said))
    sign = Span(dash, "marked" if emphasis.marked else "log-mark")
    line: Line = (sign, Span(said, "log-mark"))
    strip = Strip(paint.segments(in_grey(line) if window.greyed else line))
    return strip.adjust_cell_length(window.width, paint.base)
