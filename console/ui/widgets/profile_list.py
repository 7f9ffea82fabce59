"""The profiles to choose from: one line each, with a mark that the keys move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from console.domain.operating import LastResult, ProfileEntry

from .lines import Line, Span, fit
from .marked_list import MarkedList
from .meter import UNICODE, Glyphs, duration
from .paragraphs import clean

EXPERIMENTAL = "experimental"
NOTHING = "no profile of that name"
NEVER = "never launched here"
MARK_WIDTH = 9
LAST_WIDTH = 28
"""Cells of how it did last, to which other columns give way."""


class ProfileList(MarkedList[ProfileEntry]):
    """Shows them with how each did last."""

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(NOTHING, glyphs=glyphs, id=id)
        self._now = 0.0

    def show(self, entries: Sequence[ProfileEntry], now: float) -> None:
        """Show these; `now` in seconds since the epoch. The mark stays on its entry where that is there."""
        self._now = now
        self.take(entries, otherwise=0)

    def identity(self, item: ProfileEntry) -> str:
        return item.name

    def table(self, items: Sequence[ProfileEntry], width: int) -> tuple[Line, Sequence[Line]]:
        columns = _columns(items, width)
        return _title(columns), [_row(entry, columns, self._now, self.glyphs) for entry in items]


class Columns(NamedTuple):
    """Widths; 0 is not shown."""

    name: int
    kind: int
    gpus: int


def _columns(entries: Sequence[ProfileEntry], width: int) -> Columns:
    name = min(max(len(entry.name) for entry in entries), 24)
    profiles = [entry.profile for entry in entries if entry.profile is not None]
    kind = max([4, *(len(profile.kind) for profile in profiles)])
    gpus = max([4, *(len(gpus_in_words(profile.gpus)) for profile in profiles)])
    room = width - 2 - MARK_WIDTH - name - LAST_WIDTH
    return Columns(name, kind if room > kind else 0, gpus if room > kind + gpus + 1 else 0)


def _title(columns: Columns) -> Line:
    words = [("profile", columns.name), ("kind", columns.kind), ("GPUs", columns.gpus)]
    shown = " ".join(word.ljust(width) for word, width in words if width)
    return (Span(f"{' ' * (2 + MARK_WIDTH)}{shown} last launched", "muted"),)


def _row(entry: ProfileEntry, columns: Columns, now: float, glyphs: Glyphs) -> Line:
    name = fit(clean(entry.name, glyphs), columns.name, glyphs)
    if entry.profile is None:
        said = clean(entry.error or "cannot be read", glyphs)
        return (
            Span(_mark(f"{glyphs.failed} broken"), "state-failed"),
            Span(f"{name} "),
            Span(said, "state-failed"),
        )
    mark = Span(_mark(f"{glyphs.ready} runs") if entry.running else " " * MARK_WIDTH, "state-ready")
    facts = [(entry.profile.kind, columns.kind), (gpus_in_words(entry.profile.gpus), columns.gpus)]
    shown = "".join(f" {fit(word, width, glyphs)}" for word, width in facts if width)
    announced = (Span(f" {EXPERIMENTAL}", "warning"),) if entry.profile.known_failure else ()
    return (mark, Span(name, "strong"), Span(shown, "muted"), *announced, *_last(entry.last, now, glyphs))


def _mark(text: str) -> str:
    return text.ljust(MARK_WIDTH)


def _last(last: LastResult | None, now: float, glyphs: Glyphs) -> Line:
    if last is None:
        return (Span(f" {NEVER}", "muted"),)
    sign = glyphs.ready if last.verified else "!"
    return (Span(f" {sign} ", last_tone(last)), Span(clean(last_words(last, now), glyphs)))


def last_words(last: LastResult | None, now: float) -> str:
    """`verified after 38 s, 2h14m ago`."""
    return NEVER if last is None else f"{last.sentence}, {duration(now - last.at)} ago"


def last_tone(last: LastResult | None) -> str:
    """The tone of its sign."""
    return "muted" if last is None else "state-ready" if last.verified else "warning"


def gpus_in_words(gpus: Sequence[int]) -> str:
    """`0-3`, `0-1,4`, `CPU` for none."""
    runs: list[list[int]] = []
    for gpu in gpus:
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or "CPU"
