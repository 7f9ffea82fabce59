"""What the tones of a line look like in the theme of the moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rich.segment import Segment
from rich.style import Style
from textual.color import BLACK, Color, ColorParseError
from textual.strip import Strip

from .lines import Line


@dataclass(frozen=True, slots=True)
class Tone:
    """The theme variables that may give the colour, the first that is there; then a colour of its own."""

    variables: tuple[str, ...] = ()
    color: str | None = None
    bold: bool = False
    badge: bool = False
    """A filled label."""
    strength: float = 1.0
    """How much of the colour stands out from the surface."""


_ROLES: Mapping[str, Tone] = {
    "prefill": Tone(("role-prefill",), "#5aa9e6"),
    "decode": Tone(("role-decode",), "#c792ea"),
    "single": Tone(("role-single",), "#7fdbca"),
    "router": Tone(("role-router",), "#b0b8c4"),
    "other": Tone(("role-other",), "#e0a458"),
    "free": Tone(("role-free", "foreground-muted"), "#808080"),
    "unknown": Tone(("role-free", "foreground-muted"), "#808080"),
}

TONES: Mapping[str, Tone] = {
    "": Tone(),
    "strong": Tone(bold=True),
    "muted": Tone(("foreground-muted",), "#909090"),
    "stale": Tone(("stale", "foreground-disabled"), "#707070"),
    "warning": Tone(("state-starting", "warning"), "#fea62b"),
    "notice": Tone(("state-starting", "warning"), "#fea62b"),
    **{f"role-{role}": tone for role, tone in _ROLES.items()},
    **{f"spark-{role}": replace(tone, strength=0.5) for role, tone in _ROLES.items()},
    "spark-stale": Tone(("stale", "foreground-disabled"), "#707070", strength=0.5),
    "state-ready": Tone(("state-ready", "success"), "#4ebf71"),
    "state-starting": Tone(("state-starting", "warning"), "#fea62b"),
    "state-failed": Tone(("state-failed", "error"), "#e0526e", bold=True),
    "state-gone": Tone(("state-gone", "foreground-muted"), "#808080"),
    "bar-low": Tone(("bar-low",), "#4f9d8f"),
    "bar-mid": Tone(("bar-mid",), "#6fb58a"),
    "bar-high": Tone(("bar-high",), "#d9a05b"),
    "bar-track": Tone(("bar-track", "surface-lighten-2", "panel"), "#303438"),
    "added": Tone(("success",), "#4ebf71"),
    "removed": Tone(("error",), "#e0526e"),
    "marked-row": Tone(("block-cursor-background", "primary"), "#5684a5", badge=True),
    "badge-demo": Tone(("accent",), "#fea62b", bold=True, badge=True),
    "badge-readonly": Tone(("primary",), "#5684a5", bold=True, badge=True),
    "badge-protected": Tone(("error",), "#e0526e", bold=True, badge=True),
}

_SURFACE = Tone(("surface", "background"), "#1e1e1e")


class Paint:
    """Tones in the colours of one theme, given as Textual's theme variables."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._surface = self._parse(_SURFACE) or BLACK
        self._styles: dict[str, Style] = {}

    def strip(self, line: Line) -> Strip:
        """A line in colour."""
        return Strip([Segment(span.text, self.style(span.tone)) for span in line])

    def style(self, tone: str) -> Style:
        """What a tone looks like."""
        if tone not in self._styles:
            self._styles[tone] = self._style(TONES[tone])
        return self._styles[tone]

    def _style(self, tone: Tone) -> Style:
        parsed = self._parse(tone)
        if parsed is None:
            return Style(bold=tone.bold or None)
        color = self._surface.blend(parsed, parsed.a * tone.strength, alpha=1.0)
        if tone.badge:
            text = color.blend(color.get_contrast_text(1.0), 1.0, alpha=1.0)
            return Style(color=text.rich_color, bgcolor=color.rich_color, bold=tone.bold or None)
        return Style(color=color.rich_color, bold=tone.bold or None)

    def _parse(self, tone: Tone) -> Color | None:
        for value in (*(self._variables.get(name) for name in tone.variables), tone.color):
            if value:
                try:
                    return Color.parse(value)
                except ColorParseError:
                    continue
        return None
