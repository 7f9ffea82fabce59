"""The pane of one log: its keys, its title, and the way to what went wrong."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.reactive import reactive

from console.domain.logline import LogLine
from console.domain.observation import LogUpdate
from console.domain.server import Role
from console.ui.keymap import LOG, bindings

from .lines import Line
from .log_buffer import ROW_LIMIT, Alarm
from .log_title import LogState, log_title
from .log_view import LogView
from .meter import UNICODE, Glyphs

SIDEWAYS = 8
"""Columns that one key scrolls."""
BORDER = 6
"""Columns of the title's line that are border, with a blank beside the title at either end."""


class LogPane(LogView, can_focus=True):
    """Shows one log and says in its title whose it is and what was found."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(LOG)]

    label: reactive[str] = reactive("")
    role: reactive[Role | None] = reactive(None)
    age_s: reactive[float | None] = reactive(None)
    """Seconds since the log was last known to be complete, for the title of a greyed pane."""

    def __init__(
        self,
        label: str = "",
        *,
        role: Role | None = None,
        glyphs: Glyphs = UNICODE,
        limit: int = ROW_LIMIT,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(glyphs=glyphs, limit=limit, name=name, id=id, classes=classes)
        self._title: Line = ()
        self.set_reactive(LogPane.label, label)
        self.set_reactive(LogPane.role, role)

    def take(self, update: LogUpdate) -> None:
        """Shows the news of this log."""
        self.extend(update.lines)
        for note in update.notes:
            self.add_note(note)
        live = update.live
        self.set_live(*(None, "plain") if live is None else (live.text, live.line_class))

    @property
    def marked(self) -> LogLine | None:
        """The line last jumped to, while it is in memory."""
        if self._mark is None or self._mark < self._shown.first:
            return None
        row = self._shown[self._mark]
        return row if isinstance(row, LogLine) else None

    def action_to_top(self) -> None:
        self.following = False
        self.show_from(self._shown.first)

    def action_to_bottom(self) -> None:
        self.following = True

    def action_toggle_follow(self) -> None:
        self.following = not self.following

    def action_toggle_pause(self) -> None:
        self.paused = not self.paused

    def action_toggle_raw(self) -> None:
        self.raw = not self.raw

    def action_scroll_up(self) -> None:
        self.scroll_rows(-1)

    def action_scroll_down(self) -> None:
        self.scroll_rows(1)

    def action_page_up(self) -> None:
        self.scroll_rows(1 - self.size.height)

    def action_page_down(self) -> None:
        self.scroll_rows(self.size.height - 1)

    def action_scroll_left(self) -> None:
        self.scroll_columns(-SIDEWAYS)

    def action_scroll_right(self) -> None:
        self.scroll_columns(SIDEWAYS)

    def action_next_error(self) -> None:
        self._jump("error", forward=True)

    def action_previous_error(self) -> None:
        self._jump("error", forward=False)

    def action_next_warning(self) -> None:
        self._jump("warning", forward=True)

    def action_previous_warning(self) -> None:
        self._jump("warning", forward=False)

    def watch_label(self) -> None:
        self._retitle()

    def watch_role(self) -> None:
        self._retitle()

    def watch_age_s(self) -> None:
        self._retitle()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._title = ()
        self.call_later(self._retitle)

    def _repaint(self) -> None:
        super()._repaint()
        self._retitle()

    def _jump(self, alarm: Alarm, *, forward: bool) -> None:
        """To the next or previous one, seen from the last jump or else from the view; around at the ends."""
        start = self._shown.end if self.following else self.top - forward
        if self._mark is not None and self.top <= self._mark < self.top + self.size.height:
            start = self._mark
        found = self._shown.after(alarm, start) if forward else self._shown.before(alarm, start)
        if found is None:
            dropped = self._shown.counts[alarm] > 0
            self.notify(f"the {alarm}s are no longer in memory" if dropped else f"no {alarm}s", timeout=3)
            return
        self.following = False
        self._mark = found
        self.show_from(found - self.size.height // 3)

    def _retitle(self) -> None:
        if not self.is_attached:
            return
        title = log_title(self._state(), self.outer_size.width - BORDER, self.glyphs)
        if title != self._title:
            self._title = title
            self.border_title = Text.assemble(*((said, self._painter().style(tone)) for said, tone in title))

    def _state(self) -> LogState:
        return LogState(
            label=self.glyphs.safe(self.label),
            role=self.role,
            greyed=self.greyed,
            age_s=self.age_s,
            paused=self.paused,
            following=self.following,
            below=self.below,
            errors=self._buffer.counts["error"],
            warnings=self._buffer.counts["warning"],
        )
