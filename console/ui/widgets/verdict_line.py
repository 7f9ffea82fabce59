"""The verdict on the deployment in one line, with how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.diagnosis import Verdict

from .line_view import LineView
from .lines import Line, Span, fit_line

TONES = {"certain": "", "likely": "warning", "undecided": "muted"}


class VerdictLine(LineView, can_focus=False):
    """Shows a verdict; empty until there is one."""

    DEFAULT_CSS = """
    VerdictLine { height: 1; overflow: hidden hidden; }
    """

    _verdict: Verdict | None = None

    def update_verdict(self, verdict: Verdict) -> None:
        """Show it."""
        self._verdict = verdict
        self.tooltip = "\n".join(verdict.evidence) or None
        self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        verdict = self._verdict
        if verdict is None:
            return []
        sure = "" if verdict.confidence == "certain" else f" ({verdict.confidence})"
        spans = (Span(self.glyphs.safe(verdict.text), TONES[verdict.confidence]), Span(sure, "muted"))
        return [fit_line(spans, width, self.glyphs)]
