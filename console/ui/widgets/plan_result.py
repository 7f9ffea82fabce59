"""What came of a plan: the sentence, what to do next, settings that are not as asked for, and the time."""

from __future__ import annotations

from collections.abc import Iterator

from console.domain.plan_progress import PlanResult
from console.domain.run_record import Difference

from .lines import Span
from .meter import NA, Glyphs
from .paragraphs import Paragraph
from .progress import Progress, stretch

TONES = {"done": "state-ready", "failed": "state-failed", "aborted": "warning"}
NOT_KNOWN = "Whether it went on is not known: look at the dashboard once the host is back."


def result_paragraphs(progress: Progress, glyphs: Glyphs) -> list[Paragraph]:
    """Empty while the plan goes on."""
    if progress.error is not None:
        head = (Span(f"{glyphs.failed} LOST  ", "state-failed"),)
        return [Paragraph(progress.error, head=head), Paragraph(f"Next: {NOT_KNOWN}", "muted")]
    return [] if progress.result is None else list(_result(progress.result, glyphs))


def _result(result: PlanResult, glyphs: Glyphs) -> Iterator[Paragraph]:
    signs = {"done": glyphs.ready, "failed": glyphs.failed, "aborted": "!"}
    word = f"{signs[result.state]} {result.state.upper()}  "
    yield Paragraph(result.sentence, head=(Span(word, TONES[result.state]),))
    if result.next:
        yield Paragraph(f"Next: {result.next}")
    yield from _verification(result, glyphs)
    yield Paragraph(_time(result), "muted")


def _verification(result: PlanResult, glyphs: Glyphs) -> Iterator[Paragraph]:
    verification = result.deployment.verification if result.deployment else None
    if verification is None:
        return
    if not verification.differences:
        verified = f"{verification.checked} settings compared with the profile, no difference"
        yield Paragraph(verified, head=(Span(f"{glyphs.ready} ", "state-ready"),))
        return
    count = len(verification.differences)
    yield Paragraph(f"{count} of {verification.checked} settings are not as the profile asks:", "strong")
    for difference in verification.differences:
        tone = "muted" if difference.kind == "ignored" else "warning"
        head = (Span(f"  {difference.kind:<9} ", tone),)
        yield Paragraph(in_words(difference), head=head)


def in_words(difference: Difference) -> str:
    """`decode, flag --page-size: wanted 64, is 1`."""
    actual = NA if difference.actual is None else difference.actual
    return f"{difference.server}, {difference.setting}: wanted {difference.wanted}, is {actual}"


def _time(result: PlanResult) -> str:
    overhead = (
        "" if result.overhead_s is None else f", of which {stretch(result.overhead_s)} the console's own"
    )
    return f"It took {stretch(result.seconds)}{overhead}."
