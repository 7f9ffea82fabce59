"""How one row of a log looks: a sign that tells its class without colour, then its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from console.domain.logline import LineClass

from .lines import Line, Span, in_grey
from .log_buffer import Note, Row
from .meter import Glyphs
from .paint import Paint, Tone

Look = LineClass | Literal["note"]

SIGNS: Mapping[Look, str] = {
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
}
ASCII_SIGNS: Mapping[Look, str] = {
    **SIGNS,
    "ready": "+",
    "error": "x",
    "fatal": "X",
    "progress": ">",
    "benign": ".",
    "note": "-",
}

GUTTER = 2
"""Cells before the text: the sign and a space. They stay when the text is scrolled sideways."""

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
    "mark": Tone(("primary",), bold=True),
}

# Left out of a line: the date, the level (the sign says it), and where in its source a router stands.
_SGLANG = re.compile(
    r"\[\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d(?:\.\d+)?(?: [A-Z_]+\d+)*)\] (?:(?:INFO|WARNING|ERROR): +)?"
)
_ROUTER = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d) +(?:(?:TRACE|DEBUG|INFO|WARN|ERROR) )?")
_ROUTER_DETAIL = re.compile(r'(?<=: )/\S+\.rs:\d+: | version=\S+ module="\w+" request_id="[^"]*"')
_VALUE = re.compile(r"(?<=: )([^,]+)")


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
            # Reversed, so that it is seen without colour too.
            style = self._based[tone] = self.base + own + Style(reverse=True if tone == "mark" else None)
        return style

    def segments(self, line: Line) -> list[Segment]:
        """A line in colour, in pieces."""
        return [Segment(text, self.style(tone)) for text, tone in line]


class Window(NamedTuple):
    """What part of a row is seen, and how."""

    left: int
    width: int
    raw: bool
    """Letter for letter, with what the line's prefix says of date, level and source."""
    greyed: bool


def row_strip(row: Row, window: Window, paint: LogPaint, glyphs: Glyphs, *, marked: bool = False) -> Strip:
    """A row of `window.width` cells: the gutter and the part of the text in view, an ellipsis where cut."""
    gutter, text = row_gutter(row, glyphs, marked=marked), row_text(row, glyphs, raw=window.raw)
    if window.greyed:
        gutter, text = in_grey(gutter), in_grey(text)
    seen, room = Strip(paint.segments(text)), max(1, window.width - GUTTER)
    cut = seen.cell_length > window.left + room
    if cut or window.left:
        seen = seen.crop(window.left, window.left + room - cut)
    pad = Span(glyphs.ellipsis, "muted") if cut else Span(" " * max(0, room - seen.cell_length))
    return Strip([*paint.segments(gutter), *seen, *paint.segments((pad,))], window.width)


def row_gutter(row: Row, glyphs: Glyphs, *, marked: bool = False) -> Line:
    """The sign of a row."""
    look = _look(row)
    signs = ASCII_SIGNS if glyphs.ascii_only else SIGNS
    return Span(signs[look], "mark" if marked else f"log-{look}"), Span(" ")


def row_text(row: Row, glyphs: Glyphs, *, raw: bool = False) -> Line:
    """The text of a row in tones."""
    tone, said = f"log-{_look(row)}", glyphs.safe(row.text)
    if raw or isinstance(row, Note):
        return (Span(said, tone),)
    lead, message = _parted(said)
    body = _values(message) if row.line_class == "stats" else (Span(message, tone),)
    return (Span(lead, "muted"), *body) if lead else body


def _look(row: Row) -> Look:
    return "note" if isinstance(row, Note) else row.line_class


def _parted(line: str) -> tuple[str, str]:
    """When and where, and what."""
    if found := _SGLANG.match(line):
        return f"{found[1]} ", line[found.end() :]
    if found := _ROUTER.match(line):
        return f"{found[1]} ", _ROUTER_DETAIL.sub("", line[found.end() :], count=2)
    return "", line


def _values(message: str) -> Line:
    """A batch line as labels and values."""
    parts = _VALUE.split(message)
    return tuple(
        Span(part, "log-plain" if index % 2 else "log-stats") for index, part in enumerate(parts) if part
    )
