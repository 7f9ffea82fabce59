"""A window over the rows of a growing log: only what is in view is drawn, ten times a second at most."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from rich.cells import cell_len
from textual import events
from textual.cache import LRUCache
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from console.domain.logline import LineClass, LogLine

from .lines import Span, fit
from .log_buffer import ROW_LIMIT, LogBuffer, Row
from .log_look import GUTTER, LogPaint, Window, row_strip
from .meter import UNICODE, Glyphs

REPAINT_S = 0.1
"""Least time between two repaints, however fast the log grows."""
STRIPS_KEPT = 512


class LogView(ScrollView):
    """Shows part of a log.

    Following, it keeps the newest line in view. Scrolled back, it keeps the same lines in view while new ones
    come and old ones are dropped. Paused, it shows the log of that moment, and goes on reading behind it.
    """

    DEFAULT_CSS = """
    LogView { overflow: scroll scroll; scrollbar-size: 0 1; }
    """

    following: reactive[bool] = reactive(True, init=False)
    paused: reactive[bool] = reactive(False, init=False)
    raw: reactive[bool] = reactive(False, init=False)
    """Whether lines are shown letter for letter, with the date, level and source of their prefix."""
    greyed: reactive[bool] = reactive(False, init=False)
    """Whether the log may have gone on unseen."""
    place_note: reactive[str | None] = reactive(None, init=False)
    """Why there is nothing to follow, or what is odd about it."""

    def __init__(
        self,
        *,
        glyphs: Glyphs = UNICODE,
        limit: int = ROW_LIMIT,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
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
        self._painted = 0.0
        self._repaint_due = False

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
        self._live = None if text is None else LogLine(0, text, line_class)
        self._changed()

    @property
    def top(self) -> int:
        """The position in the buffer of the row at the top of the view."""
        return self._first + self.scroll_offset.y

    @property
    def below(self) -> int:
        """Rows of the log that stand below the view."""
        end = self._buffer.end + (self._live is not None)
        return max(0, end - self.top - self.size.height)

    def show_from(self, position: int) -> None:
        """Brings this position to the top, or near it at the end of the log."""
        self.set_scroll(None, max(0, position - self._first))
        self._repaint()

    def scroll_rows(self, count: int) -> None:
        """Scrolls as the user asked to: down for positive counts, and at once."""
        self._repaint()
        self.scroll_to(y=self.scroll_offset.y + count, animate=False)

    def scroll_columns(self, count: int) -> None:
        """Likewise to the right; the signs stay in view."""
        self._repaint()
        self.scroll_to(x=self.scroll_offset.x + count, animate=False)

    def render_line(self, y: int) -> Strip:
        position = self.top + y
        if not self._shown.first <= position < self._shown.end:
            return self._beyond(position, y)
        key = (position, self.scroll_offset.x, position == self._mark)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._draw(self._shown[position], marked=position == self._mark)
        return strip

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._forget_looks()

    def on_mount(self) -> None:
        for look in ("raw", "greyed", "place_note"):
            self.watch(self, look, self._redraw, init=False)

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
    def _width(self) -> int:
        return self.size.width - self.scrollbar_size_vertical

    def _changed(self) -> None:
        """Sees to it that what is new is drawn soon, if anybody can see it; else `on_show` catches up."""
        if self._repaint_due or not self.is_on_screen:
            return
        wait = self._painted + REPAINT_S - monotonic()
        if wait <= 0:
            self._repaint()
        else:
            self._repaint_due = True
            self.set_timer(wait, self._repaint_if_seen)

    def _repaint_if_seen(self) -> None:
        self._repaint_due = False
        if self.is_on_screen:
            self._repaint()

    def _forget_looks(self) -> None:
        self._paint = None
        self._strips.clear()

    def _redraw(self) -> None:
        self._strips.clear()
        self._repaint()

    def _repaint(self) -> None:
        self._painted = monotonic()
        if not self.is_attached:
            return
        if not self.paused:
            self._shown_live = self._live
        top, self._first = self.top, self._shown.first
        rows = len(self._shown) + (self._shown_live is not None)
        lowest = max(0, rows - self.size.height)
        if self._paint is not None and self._paint.base != self.rich_style:
            self._forget_looks()
        self._move_window(lowest if self.following else min(max(0, top - self._first), lowest), rows)
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

    def _beyond(self, position: int, y: int) -> Strip:
        """A row that is no line of the buffer."""
        if position == self._shown.end and self._shown_live is not None:
            return self._draw(self._shown_live)
        if not len(self._shown) and y == self.size.height // 2:
            return self._placeholder()
        return Strip.blank(self._width, self._painter().base)

    def _placeholder(self) -> Strip:
        said = self.glyphs.safe(self.place_note or "no lines yet")
        said = fit(said, min(self._width, cell_len(said)), self.glyphs).center(self._width)
        return self._painter().strip((Span(said, "muted"),)).adjust_cell_length(self._width)

    def _draw(self, row: Row, *, marked: bool = False) -> Strip:
        window = Window(self.scroll_offset.x, self._width, self.raw, self.greyed)
        return row_strip(row, window, self._painter(), self.glyphs, marked=marked).apply_style(
            self.rich_style
        )

    def _painter(self) -> LogPaint:
        if self._paint is None:
            self._paint = LogPaint(self.app.theme_variables, self.rich_style)
        return self._paint
