"""A log as it grows: a window over a bounded buffer, drawn row by row, ten times a second at most."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from console.domain.logline import LineClass, LogLine
from console.domain.observation import LogUpdate
from console.domain.server import Role
from console.ui.keymap import LOG, bindings

from . import log_look
from .lines import Line, Span, fit, greyed
from .log_buffer import ROW_LIMIT, Alarm, LogBuffer, Row
from .log_look import GUTTER, LogPaint
from .log_title import LogState, log_title
from .meter import UNICODE, Glyphs

REPAINT_S = 0.1
"""Least time between two repaints, however fast the log grows."""
STRIPS_KEPT = 512


class LogPane(ScrollView, can_focus=True):
    """Shows one log.

    Following, it keeps the newest line in view. Scrolled back, it keeps the same lines in view while new ones come
    and old ones are dropped. Paused, it shows the log of that moment, and goes on reading behind it.
    """

    DEFAULT_CSS = """
    LogPane {
        overflow: scroll scroll;
        scrollbar-size: 0 1;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(LOG),
        Binding("v", "toggle_raw", "whole lines", id="raw", show=False, tooltip="With date, level and source."),
    ]

    label: reactive[str] = reactive("", init=False)
    role: reactive[Role | None] = reactive(None, init=False)
    place_note: reactive[str | None] = reactive(None, init=False)
    """Why there is nothing to follow, or what is odd about it."""
    following: reactive[bool] = reactive(True, init=False)
    paused: reactive[bool] = reactive(False, init=False)
    raw: reactive[bool] = reactive(False, init=False)
    """Whether lines are shown letter for letter, with what their prefix says of date, level and source."""
    greyed: reactive[bool] = reactive(False, init=False)
    """Whether the log may have gone on unseen."""
    age_s: reactive[float | None] = reactive(None, init=False)
    """Seconds since it was last known to be complete, for the title of a greyed pane."""

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
        super().__init__(name=name, id=id, classes=classes)
        self.set_reactive(LogPane.label, label)
        self.set_reactive(LogPane.role, role)
        self.glyphs = glyphs
        self._buffer = LogBuffer(limit)
        self._live: LogLine | None = None
        self._shown = self._buffer
        self._shown_live: LogLine | None = None
        self._first = 0  # the position that is row 0 of the scrolled area, as of the last repaint
        self._mark: int | None = None
        self._widest = 0
        self._strips: LRUCache[tuple[int, int, int, bool], Strip] = LRUCache(STRIPS_KEPT)
        self._paint: LogPaint | None = None
        self._title: Line = ()
        self._painted = 0.0
        self._repaint_due = False

    def take(self, update: LogUpdate) -> None:
        """Shows the news of this log."""
        self.extend(update.lines)
        for note in update.notes:
            self.add_note(note)
        self._set_live(update.live)

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Adds complete lines."""
        self._buffer.extend(lines)
        self._changed()

    def add_note(self, text: str) -> None:
        """Adds a remark of the console's own, such as `log truncated`."""
        self._buffer.note(text)
        self._changed()

    def set_live(self, text: str | None, line_class: LineClass = "progress") -> None:
        """Shows an unfinished line below all others, in place of the one before."""
        self._set_live(None if text is None else LogLine(0, text, line_class))

    @property
    def marked(self) -> LogLine | None:
        """The line last jumped to."""
        if self._mark is None or self._mark < self._shown.first:
            return None
        row = self._shown[self._mark]
        return row if isinstance(row, LogLine) else None

    def action_to_top(self) -> None:
        self.following = False
        self._show_from(self._first)

    def action_to_bottom(self) -> None:
        self.following = True

    def action_toggle_follow(self) -> None:
        self.following = not self.following

    def action_toggle_pause(self) -> None:
        self.paused = not self.paused

    def action_toggle_raw(self) -> None:
        self.raw = not self.raw

    def action_next_error(self) -> None:
        self._jump("error", forward=True)

    def action_previous_error(self) -> None:
        self._jump("error", forward=False)

    def action_next_warning(self) -> None:
        self._jump("warning", forward=True)

    def action_previous_warning(self) -> None:
        self._jump("warning", forward=False)

    def render_line(self, y: int) -> Strip:
        position = self._first + self.scroll_offset.y + y
        if position < self._shown.first:  # dropped since the last repaint
            return self._blank()
        if position < self._shown.end:
            return self._kept(position)
        if position == self._shown.end and self._shown_live is not None:
            return self._draw(self._shown_live, marked=False)
        return self._placeholder(y) if not len(self._shown) else self._blank()

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Only the user's scrolling comes here; what the log does moves the view through `_scroll_rows`."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.following = round(new_value) >= self.max_scroll_y
            self._measure()
            self._retitle()

    def watch_following(self) -> None:
        if self.following:
            self._mark = None
        self._repaint()

    def watch_paused(self) -> None:
        self._shown = self._buffer.frozen() if self.paused else self._buffer
        self._repaint()

    def watch_raw(self) -> None:
        self._redraw()

    def watch_greyed(self) -> None:
        self._redraw()

    def watch_label(self) -> None:
        self._retitle()

    def watch_role(self) -> None:
        self._retitle()

    def watch_age_s(self) -> None:
        self._retitle()

    def watch_place_note(self) -> None:
        self._redraw()
