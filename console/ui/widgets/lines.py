"""Lines of toned text, as values.

A widget of the dashboard is a pure function from values and a width to lines; a line is spans of text, each
with a tone (paint.py says what a tone looks like). No text is ever parsed for markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from .meter import UNICODE, Glyphs


class Span(NamedTuple):
    """Text in one tone; the empty tone is the widget's own colour."""

    text: str
    tone: str = ""


Line = tuple[Span, ...]


def plain(line: Iterable[Span]) -> str:
    """The text of a line."""
    return "".join(span.text for span in line)


def width_of(line: Iterable[Span]) -> int:
    """Cells that a line takes."""
    return sum(cell_len(span.text) for span in line)


def fit(text: str, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Text in exactly `width` cells: padded, or cut with an ellipsis and never through a wide character."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + glyphs.ellipsis if width > 0 else ""


def fit_line(line: Line, width: int, glyphs: Glyphs = UNICODE) -> Line:
    """A line in exactly `width` cells."""
    fitted: list[Span] = []
    room = width
    for span in line:
        if cell_len(span.text) > room:
            return (*fitted, Span(fit(span.text, room, glyphs), span.tone))
        fitted.append(span)
        room -= cell_len(span.text)
    return (*fitted, Span(" " * room)) if room else tuple(fitted)


def joined(parts: Iterable[Line], gap: str = "  ") -> Line:
    """The parts that say something, with a gap between them."""
    said: list[Span] = []
    for part in parts:
        if part:
            said += (Span(gap), *part) if said else part
    return tuple(said)


def spread(left: Line, right: Line, width: int, glyphs: Glyphs = UNICODE) -> Line:
    """One part at each end; the left one yields."""
    room = width - width_of(right)
    return fit_line(left, room, glyphs) + right if room > 0 else fit_line(right, width, glyphs)


def in_grey(line: Line) -> Line:
    """A line that is no longer true; what is said about that keeps its tone."""
    return tuple(Span(span.text, _greyed(span.tone)) for span in line)


def _greyed(tone: str) -> str:
    if tone in ("notice", "bar-track"):
        return tone
    return "spark-stale" if tone.startswith("spark-") else "stale"
