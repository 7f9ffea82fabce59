"""What the preflight found: refusals first, each with a word and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.preflight import Check, Outcome

from .lines import Line, Span
from .meter import Glyphs
from .paragraphs import Paragraph

TONES = {"refused": "state-failed", "warning": "warning", "ok": "state-ready"}
ORDER: tuple[Outcome, ...] = ("refused", "warning", "ok")
INDENT = 10


def check_paragraphs(checks: Sequence[Check] | None, failure: str | None, glyphs: Glyphs) -> list[Paragraph]:
    """The checks, None while they are being made; `failure` is why they could not be."""
    if failure is not None:
        return [Paragraph(failure, "state-failed")]
    if checks is None:
        return [Paragraph(f"looking at the host{glyphs.ellipsis} nothing is changed by it", "muted")]
    if not checks:
        return [Paragraph("This plan asks nothing of the host.", "muted")]
    found = []
    for check in sorted(checks, key=lambda check: ORDER.index(check.outcome)):
        found.append(Paragraph(f"{check.subject}: {check.sentence}", head=_head(check, glyphs)))
        if check.next:
            found.append(Paragraph(f"Next: {check.next}", "muted", head=(Span(" " * INDENT),)))
    return found


def check_title(checks: Sequence[Check] | None) -> str:
    """`Preflight: 11 ok, 2 warning, 1 refused`."""
    counts = {outcome: sum(check.outcome == outcome for check in checks or ()) for outcome in ORDER}
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in reversed(ORDER) if counts[outcome])
    return f"Preflight: {said}" if said else "Preflight"


def _head(check: Check, glyphs: Glyphs) -> Line:
    signs = {"refused": glyphs.failed, "warning": "!", "ok": glyphs.ready}
    return (Span(f"{signs[check.outcome]} {check.outcome:<7} ", TONES[check.outcome]),)
