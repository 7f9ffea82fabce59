"""Bars, sparklines and numbers as plain text.

Every function takes None for what could not be read: that becomes `n/a` or a gap, never 0.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

NA = "n/a"


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that meters are drawn with; all are one cell wide."""

    ascii_only: bool
    full: str
    half: str
    """A cell half full; empty where there is no such character."""
    track: str
    """The empty part of a bar."""
    levels: str
    """The heights of a sparkline, ascending; the first stands for a value of 0."""
    starting: str
    ready: str
    failed: str
    gone: str
    dot: str
    ellipsis: str
    degree: str

    def safe(self, text: str) -> str:
        """Text from a host, with nothing in it that could steer the terminal or that it could not show."""
        if self.ascii_only:
            text = text.encode("ascii", "replace").decode("ascii")
        return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


UNICODE = Glyphs(
    ascii_only=False,
    full="━",
    half="╾",
    track="─",
    # Without the full block: the lines of neighbouring rows must not grow together.
    levels="▁▂▃▄▅▆▇",
    starting="◐",
    ready="●",
    failed="✗",
    gone="○",
    dot="·",
    ellipsis="…",
    degree="°",
)

ASCII = Glyphs(
    ascii_only=True,
    full="#",
    half="",
    track=".",
    levels="_.:-=+*#",
    starting="~",
    ready="*",
    failed="x",
    gone="-",
    dot="-",
    ellipsis="~",
    degree=" ",
)


def glyphs_for(encoding: str | None) -> Glyphs:
    """The glyphs that a terminal with this encoding can show."""
    try:
        return UNICODE if codecs.lookup(encoding or "ascii").name == "utf-8" else ASCII
    except LookupError:
        return ASCII


def bar(pct: float, width: int, glyphs: Glyphs = UNICODE) -> tuple[str, str]:
    """The full and the empty part of a bar of `width` cells for 0 to 100 percent.

    Whatever is above 0 shows at least the smallest part that there is.
    """
    steps = 2 if glyphs.half else 1
    filled = min(max(round(pct / 100.0 * width * steps), 1), width * steps) if pct > 0 else 0
    whole, part = divmod(filled, steps)
    drawn = glyphs.full * whole + glyphs.half * part
    return drawn, glyphs.track * (width - len(drawn))


def sparkline(
    values: Sequence[float | None], width: int, high: float = 100.0, glyphs: Glyphs = UNICODE
) -> str:
    """The last `width` values, the newest at the right, scaled from 0 to `high`; a gap is a blank."""
    drawn = "".join(" " if value is None else _level(value, high, glyphs) for value in values[-width:])
    return drawn.rjust(width)


def _level(value: float, high: float, glyphs: Glyphs) -> str:
    share = value / high if high > 0 else 0.0
    return glyphs.levels[min(max(int(share * len(glyphs.levels)), 0), len(glyphs.levels) - 1)]


def percent(pct: float | None) -> str:
    """`34%`."""
    return NA if pct is None else f"{pct:.0f}%"


def count(value: float | None) -> str:
    """`1,048`."""
    return NA if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """`1,048`, with one decimal below 10: `9.4`."""
    return f"{value:.1f}" if value is not None and 0 < value < 9.95 else count(value)


def gib(mib: float | None) -> str:
    """Mebibytes as gibibytes: `71`, with one decimal below 10, where half a gibibyte is a find: `0.5`."""
    if mib is None:
        return NA
    value = mib / 1024
    return f"{value:.1f}" if 0.05 <= value < 9.95 else f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """A stretch of time in at most two units: `14 s`, `3m`, `2h14m`, `3d4h`."""
    if seconds is None:
        return NA
    minutes = int(seconds) // 60
    if minutes < 1:
        return f"{max(seconds, 0):.0f} s" if seconds < 59.5 else "59 s"
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 24 else f"{hours // 24}d{hours % 24}h"
