"""The profiles to choose from: one line each, with a mark that the keys move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from console.domain.operating import LastResult, ProfileEntry

from .line_view import LineView
from .lines import Line, Span, fit, fit_line
from .meter import UNICODE, Glyphs, duration
from .paragraphs import SCROLL_BAR, clean

EXPERIMENTAL = "experimental"
NEVER = "never launched here"
MARK_WIDTH = 9
LAST_WIDTH = 28
"""Cells of how it did last, to which other columns give way."""


class ProfileList(LineView, can_focus=True):
    """Says with `Highlighted` where the mark is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-100000)", show=False),
        Binding("end", "move(100000)", show=False),
    ]

    PINNED = 1

    class Highlighted(Message):
        """The mark is on another entry, or on none."""

        def __init__(self, entry: ProfileEntry | None) -> None:
            super().__init__()
            self.entry = entry

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._entries: tuple[ProfileEntry, ...] = ()
        self._index = 0
        self._now = 0.0

    def show(self, entries: Sequence[ProfileEntry], now: float) -> None:
        """Show these; `now` in seconds since the epoch. The mark stays on its entry where that is there."""
        marked = self.marked
        self._entries, self._now = tuple(entries), now
        names = [entry.name for entry in entries]
        self._index = names.index(marked.name) if marked is not None and marked.name in names else 0
        self.redraw()
        self._mark_moved()

    @property
    def marked(self) -> ProfileEntry | None:
        """The entry under the mark."""
        return self._entries[self._index] if self._entries else None

    def action_move(self, steps: int) -> None:
        """The mark up or down."""
        self._index = min(max(0, self._index + steps), max(0, len(self._entries) - 1))
        self.redraw()
        self._mark_moved()

    def action_page(self, pages: int) -> None:
        """The mark a page up or down."""
        self.action_move(pages * max(1, self.size.height - 2))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self.PINNED:
            return
        row = offset.y - self.PINNED + int(self.scroll_offset.y)
        if row < len(self._entries):
            self.action_move(row - self._index)

    def _mark_moved(self) -> None:
        # The pinned title hides the line above the one that is scrolled to.
        self.scroll_to_region(Region(0, self._index, 1, 2), animate=False, force=True)
        self.post_message(self.Highlighted(self.marked))

    def lines(self, width: int, height: int) -> Sequence[Line]:
        if not self._entries:
            return [(Span("no profile of that name", "muted"),)]
        width -= SCROLL_BAR
        columns = _columns(self._entries, width)
        rows = [_row(entry, columns, self._now, self.glyphs) for entry in self._entries]
        marked = [
            _marked(row, width, self.glyphs)
            if index == self._index
            else fit_line((Span("  "), *row), width, self.glyphs)
            for index, row in enumerate(rows)
        ]
        return [fit_line(_title(columns), width, self.glyphs), *marked]


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


def _marked(row: Line, width: int, glyphs: Glyphs) -> Line:
    """The line under the mark, told by a sign and by its colours turned around."""
    text = "".join(span.text for span in row)
    return fit_line((Span(fit(f"> {text}", width, glyphs), "marked-row"),), width, glyphs)


def gpus_in_words(gpus: Sequence[int]) -> str:
    """`0-3`, `0-1,4`, `CPU` for none."""
    runs: list[list[int]] = []
    for gpu in gpus:
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or "CPU"
