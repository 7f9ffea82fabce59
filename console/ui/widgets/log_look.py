"""How one row of a log looks: a sign that tells its class without colour, then its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from rich.style import Style

from console.domain.logline import LineClass

from .lines import Line, Span
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
    "progress": "›",
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
    "mark": Tone(("primary",), badge=True),
}

# Of a line's own prefix the date, the level (the sign says it) and a router's source file are left out.
_SGLANG = re.compile(r"\[\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d(?:\.\d+)?(?: [A-Z_]+\d+)*)\] ")
_ROUTER = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d) +(?:(?:TRACE|DEBUG|INFO|WARN|ERROR) )?")
_ROUTER_SOURCE = re.compile(r"(?<=: )/\S+\.rs:\d+: ")
_VALUE = re.compile(r"(?<=: )([^,]+)")


class LogPaint(Paint):
    """Adds the tones of logs to those of every panel."""

    def style(self, tone: str) -> Style:
        if tone in LOG_TONES and tone not in self._styles:
            self._styles[tone] = self._style(LOG_TONES[tone])
        return super().style(tone)


def sign(row: Row, glyphs: Glyphs, marked: bool = False) -> Line:
    """The gutter of a row: two cells."""
    look = _look(row)
    signs = ASCII_SIGNS if glyphs.ascii_only else SIGNS
    return Span(signs[look], "mark" if marked else f"log-{look}"), Span(" ")


def text(row: Row, raw: bool = False) -> Line:
    """The text of a row, toned; a raw one letter for letter."""
    tone = f"log-{_look(row)}"
    if raw or isinstance(row, Note):
        return (Span(row.text, tone),)
    lead, message = _parted(row.text)
    body = _values(message) if row.line_class == "stats" else (Span(message, tone),)
    return (Span(lead, "muted"), *body) if lead else body


def _look(row: Row) -> Look:
    return "note" if isinstance(row, Note) else row.line_class


def _parted(line: str) -> tuple[str, str]:
    """When and where, and what."""
    if found := _SGLANG.match(line):
        return f"{found[1]} ", line[found.end() :]
    if found := _ROUTER.match(line):
        return f"{found[1]} ", _ROUTER_SOURCE.sub("", line[found.end() :], count=1)
    return "", line


def _values(message: str) -> Line:
    """A batch line as labels and values."""
    parts = _VALUE.split(message)
    return tuple(
        Span(part, "log-plain" if index % 2 else "log-stats") for index, part in enumerate(parts) if part
    )
