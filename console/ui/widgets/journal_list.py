"""Actions of the journal, one line each, with a mark that the keys move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from console.domain.journal_entry import ActionState, JournalEntry, JournalStep, StepState

from .lines import Line, Span, fit
from .marked_list import MarkedList
from .meter import NA, UNICODE, Glyphs
from .paragraphs import Paragraph, clean
from .progress import stretch

NOTHING = "no action of that kind"
CUT_OFF = "under way, or its console ended before it did"
MOST_PROFILE = 20
TIME = "%m-%d %H:%M"
TONES: dict[ActionState | StepState, str] = {
    "done": "state-ready",
    "failed": "state-failed",
    "aborted": "warning",
    "running": "state-starting",
    "skipped": "muted",
}


class JournalList(MarkedList[JournalEntry]):
    """Shows them with what came of each."""

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(NOTHING, glyphs=glyphs, id=id)
        self._zone = UTC

    def show(self, entries: Sequence[JournalEntry], utc_offset_s: float | None, nothing: str) -> None:
        """Show these. The mark stays on its action where that is there."""
        self._zone, self.nothing = timezone(timedelta(seconds=utc_offset_s or 0.0)), nothing
        self.take(entries, otherwise=0)

    def identity(self, item: JournalEntry) -> str:
        return item.id

    def table(self, items: Sequence[JournalEntry], width: int) -> tuple[Line, Sequence[Line]]:
        columns = Columns(
            verb=max(4, *(len(entry.verb) for entry in items)),
            profile=min(MOST_PROFILE, max(7, *(len(entry.profile or "") for entry in items))),
        )
        title = (
            f"  {'begun':<11} {'verb':<{columns.verb}} {'profile':<{columns.profile}} state   what came of it"
        )
        return (Span(title, "muted"),), [self._line(entry, columns) for entry in items]

    def _line(self, entry: JournalEntry, columns: Columns) -> Line:
        began = f"{datetime.fromtimestamp(entry.begun_at, self._zone):{TIME}}"
        profile = fit(clean(entry.profile or "", self.glyphs), columns.profile, self.glyphs)
        return (
            Span(f"{began} ", "muted"),
            Span(f"{entry.verb:<{columns.verb}} {profile} "),
            Span(f"{entry.state:<8}", TONES[entry.state]),
            Span(clean(outcome(entry), self.glyphs)),
        )


class Columns(NamedTuple):
    """Widths."""

    verb: int
    profile: int


def outcome(entry: JournalEntry) -> str:
    """What came of it, in a sentence."""
    return CUT_OFF if entry.ended_at is None else entry.sentence


def entry_paragraphs(entry: JournalEntry) -> Iterator[Paragraph]:
    """All of one action: what came of it, its steps, and the commands that would have done the same."""
    yield Paragraph(outcome(entry), "strong")
    took = NA if entry.seconds is None else stretch(entry.seconds)
    yield Paragraph(f"by {entry.by} on {entry.host}, {took}", "muted")
    for step in entry.steps:
        yield _step(step)
    if entry.commands:
        yield Paragraph("By hand:", "muted")
    yield from (Paragraph(command, head=(Span("  "),)) for command in entry.commands)


def _step(step: JournalStep) -> Paragraph:
    head = (Span(f"{step.index + 1:>3}. "), Span(f"{step.state:<8}", TONES[step.state]))
    said = f"{step.title}: {step.text}" if step.text else step.title
    return Paragraph(said, head=head, tail=(Span(stretch(step.seconds), "muted"),))
