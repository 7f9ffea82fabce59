"""A log as it grows: a window over a bounded buffer, drawn row by row, ten times a second at most."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import ClassVar

from rich.cells import cell_len
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

from .lines import Line, Span, fit
from .log_buffer import ROW_LIMIT, Alarm, LogBuffer, Row
from .log_look import GUTTER, LogPaint, Window, row_strip
from .log_title import LogState, log_title
from .meter import UNICODE, Glyphs

REPAINT_S = 0.1
"""Least time between two repaints, however fast the log grows."""
STRIPS_KEPT = 512


class LogPane(ScrollView, can_focus=True):
    """Shows one log.

    Following, it keeps the newest line in view. Scrolled back, it keeps the same lines in view while new ones
    come and old ones are dropped. Paused, it shows the log of that moment, and goes on reading behind it.
    """

    DEFAULT_CSS = """
    LogPane {
        overflow: scroll scroll;
        scrollbar-size: 0 1;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(LOG),
        Binding(
            "v", "toggle_raw", "whole lines", id="raw", show=False, tooltip="With date, level and source."
        ),
    ]

    label: reactive[str] = reactive("", init=False)
    role: reactive[Role | None] = reactive(None, init=False)
    place_note: reactive[str | None] = reactive(None, init=False)
    """Why there is nothing to follow, or what is odd about it."""
    following: reactive[bool] = reactive(True, init=False)
    paused: reactive[bool] = reactive(False, init=False)
    raw: reactive[bool] = reactive(False, init=False)
    """Whether lines are shown letter for letter, with the date, level and source of their prefix."""
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
        self._strips: LRUCache[tuple[int, int, bool], Strip] = LRUCache(STRIPS_KEPT)
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
        position = self._top + y
        if not self._shown.first <= position < self._shown.end:
            return self._beyond(position, y)
        key = (position, self.scroll_offset.x, position == self._mark)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._draw(self._shown[position], marked=position == self._mark)
        return strip

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._paint = None
        self._title = ()
        self._strips.clear()
        if self.is_attached:
            self.call_after_refresh(self._retitle)

    def on_mount(self) -> None:
        for look in ("raw", "greyed", "place_note"):
            self.watch(self, look, self._redraw, init=False)
        for word in ("label", "role", "age_s"):
            self.watch(self, word, self._retitle)

    def on_show(self, event: events.Show) -> None:
        self._repaint()

    def on_resize(self, event: events.Resize) -> None:
        self._redraw()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        # Only the user's scrolling comes here: `_move_window` calls no watcher.
        if round(old_value) != round(new_value):
            self.following = round(new_value) >= self.max_scroll_y
            self._repaint()

    def watch_following(self) -> None:
        if self.following:
            self._mark = None
        self._repaint()

    def watch_paused(self) -> None:
        self._shown = self._buffer.frozen() if self.paused else self._buffer
        self._shown_live = self._live
        self._repaint()

    @property
    def _top(self) -> int:
        """The position of the row at the top of the view."""
        return self._first + self.scroll_offset.y

    @property
    def _width(self) -> int:
        return self.size.width - self.scrollbar_size_vertical

    def _set_live(self, line: LogLine | None) -> None:
        self._live = line
        self._changed()

    def _changed(self) -> None:
        """Sees to it that what is new is drawn soon, if anybody can see it; else `on_show` catches up."""
        if self._repaint_due or not self.is_on_screen:
            return
        wait = self._painted + REPAINT_S - monotonic()
        if wait <= 0:
            self._repaint()
        else:
            self._repaint_due = True
            self.set_timer(wait, self._repaint)

    def _redraw(self) -> None:
        self._strips.clear()
        self._repaint()

    def _repaint(self) -> None:
        self._repaint_due = False
        self._painted = monotonic()
        if not self.is_attached:
            return
        if not self.paused:
            self._shown_live = self._live
        top, self._first = self._top, self._shown.first
        rows = len(self._shown) + (self._shown_live is not None)
        lowest = max(0, rows - self.size.height)
        self._move_window(lowest if self.following else min(max(0, top - self._first), lowest), rows)
        self._retitle()
        self.refresh()

    def _move_window(self, row: int, rows: int) -> None:
        """Scrolls an area of so many rows without a watcher, and without a layout of the whole screen."""
        self._widest = max(self._widest, self._width_in_view(row))
        self.set_reactive(Widget.virtual_size, Size(GUTTER + self._widest, rows))
        self.set_reactive(Widget.scroll_target_y, row)
        self.set_scroll(None, row)
        self.vertical_scrollbar.window_virtual_size = rows
        self.vertical_scrollbar.position = row

    def _width_in_view(self, row: int) -> int:
        start = self._first + row
        in_view = range(start, min(start + self.size.height, self._shown.end))
        return max((cell_len(self._shown[position].text) for position in in_view), default=0)

    def _jump(self, alarm: Alarm, *, forward: bool) -> None:
        """To the next or previous one, seen from the last jump or else from the view; around at the ends."""
        start = self._shown.end if self.following else self._top - forward
        if self._mark is not None and self._top <= self._mark < self._top + self.size.height:
            start = self._mark
        found = self._shown.after(alarm, start) if forward else self._shown.before(alarm, start)
        if found is None:
            self._say_none(alarm)
        else:
            self.following = False
            self._mark = found
            self._show_from(found - self.size.height // 3)

    def _say_none(self, alarm: Alarm) -> None:
        dropped = self._shown.counts[alarm] > 0
        self.notify(f"the {alarm}s are no longer in memory" if dropped else f"no {alarm}s", timeout=3)

    def _show_from(self, position: int) -> None:
        self.set_scroll(None, max(0, position - self._first))
        self._repaint()

    def _beyond(self, position: int, y: int) -> Strip:
        """A row that is no line of the buffer."""
        width = self._width
        if position == self._shown.end and self._shown_live is not None:
            return self._draw(self._shown_live)
        if not len(self._shown) and y == self.size.height // 2:
            said = self.glyphs.safe(self.place_note or "no lines yet")
            line = (Span(fit(said, min(width, cell_len(said)), self.glyphs).center(width), "muted"),)
            return self._painter().strip(line).adjust_cell_length(width).apply_style(self.rich_style)
        return Strip.blank(width, self.rich_style)

    def _draw(self, row: Row, *, marked: bool = False) -> Strip:
        window = Window(self.scroll_offset.x, self._width, self.raw, self.greyed)
        return row_strip(row, window, self._painter(), self.glyphs, marked=marked).apply_style(
            self.rich_style
        )

    def _painter(self) -> LogPaint:
        if self._paint is None:
            self._paint = LogPaint(self.app.theme_variables)
        return self._paint

    def _retitle(self) -> None:
        if not self.is_attached:
            return
        title = log_title(self._state(), self.outer_size.width - 6, self.glyphs)
        if title != self._title:
            self._title = title
            self.border_title = Text.assemble(*((said, self._painter().style(tone)) for said, tone in title))

    def _state(self) -> LogState:
        end = self._buffer.end + (self._live is not None)
        return LogState(
            label=self.glyphs.safe(self.label),
            role=self.role,
            greyed=self.greyed,
            age_s=self.age_s,
            paused=self.paused,
            following=self.following,
            below=max(0, end - self._top - self.size.height),
            errors=self._buffer.counts["error"],
            warnings=self._buffer.counts["warning"],
        )
