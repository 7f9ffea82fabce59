"""The part of a log that is on the screen: which row stands on which line, and how it is drawn."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import NamedTuple, TypeGuard

from rich.cells import cell_len
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from console.domain.logline import LogLine
from console.domain.printable import Colour

from .lines import Span, fit
from .log_look import GUTTER, Emphasis, LogPaint, Window, row_strips
from .log_pattern import TooSlow, time_limit
from .log_rows import KeptRows, Row, Source
from .log_shown import MATCH_LIMIT_S, ShownLog
from .meter import UNICODE, Glyphs

LIVE = sys.maxsize
"""The position of a line that is not finished."""
ROWS_KEPT = 512
"""Rows whose look is remembered."""


class Spot(NamedTuple):
    """A line of the screen in the log of the moment: the index of its row, and which of the row's lines."""

    row: int
    fold: int = 0


class Place(NamedTuple):
    """The same for good: the position of its row, and which of the row's lines."""

    position: int
    fold: int = 0


class LogWindow(ScrollView, can_focus=False, inherit_bindings=False):
    """Draws the rows of a log from one on, or the last ones."""

    DEFAULT_CSS = """
    LogWindow { overflow: scroll scroll; scrollbar-size: 0 1; }
    """

    whole: reactive[bool] = reactive(False, init=False)
    """Whether lines are shown letter for letter, with the date, level and source of their prefix."""
    timed: reactive[bool] = reactive(True, init=False)
    """Whether lines that are not shown whole have their time."""
    folded: reactive[bool] = reactive(False, init=False)
    """Whether long lines are folded rather than cut."""
    greyed: reactive[bool] = reactive(False, init=False)
    """Whether the log may have gone on unseen."""
    place_note: reactive[str | None] = reactive(None, init=False)
    """Why there is nothing to follow, or what is odd about it."""

    def __init__(self, buffer: KeptRows, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.shown = ShownLog(buffer)
        self.marked: int | None = None
        """The position of the row last jumped to."""
        self.block_start: int | None = None
        """The position at which a block was begun; it reaches from there to the marked row."""
        self.word_width = 0
        """Cells for the word that says whose a line is; 0 for none."""
        self._live: LogLine | None = None
        self._window = Window(1)
        self._places: list[Place] = []
        self._widest = 0
        self._drawn: LRUCache[tuple[int, Window, Emphasis], list[Strip]] = LRUCache(ROWS_KEPT)
        self._paint: LogPaint | None = None

    @property
    def block(self) -> tuple[int, int] | None:
        """The positions between which rows are selected, both included."""
        if self.block_start is None or self.marked is None:
            return None
        return min(self.block_start, self.marked), max(self.block_start, self.marked)

    @property
    def first_shown(self) -> int:
        """The position of the row at the top."""
        return self._places[0].position if self._places else 0

    @property
    def last_shown(self) -> int:
        """The position of the last row in view, be it the unfinished one."""
        return self._places[-1].position if self._places else -1

    @property
    def last_row(self) -> int:
        """The position of the last finished row in view."""
        finished = (place.position for place in reversed(self._places) if place.position != LIVE)
        return next(finished, self.first_shown)

    def sees(self, position: int | None) -> TypeGuard[int]:
        """Whether a row is in view."""
        return position is not None and self.first_shown <= position <= self.last_shown

    def render_line(self, y: int) -> Strip:
        base = self._painter().base
        strip = Strip.blank(self._window.width, base)
        if y < len(self._places):
            place = self._places[y]
            strips = self._strips(place.position)
            strip = strips[place.fold] if place.fold < len(strips) else strip
        elif not self._places and y == self.size.height // 2:
            strip = self._placeholder()
        return strip.adjust_cell_length(self.size.width - self.scrollbar_size_vertical, base)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._paint = None
        self._drawn.clear()

    def _measure(self) -> None:
        """Take note of how rows are to be drawn: that is the same for all, and takes Textual long to tell."""
        width = self.size.width - self.scrollbar_size_vertical
        left = 0 if self.folded else self.scroll_offset.x
        self._window = Window(width, left, self.folded, self.whole, self.timed, self.greyed, self.word_width)
        if self._paint is None or self._paint.base != self.rich_style:
            self._paint = LogPaint(self.app.theme_variables, self.rich_style)
            self._drawn.clear()

    @property
    def _count(self) -> int:
        """Rows that can be shown, the unfinished one included."""
        return len(self.shown.rows) + (self._live is not None)

    def _position(self, index: int) -> int:
        rows = self.shown.rows
        return rows.position(index) if index < len(rows) else LIVE

    def _place(self, spot: Spot) -> Place:
        return Place(self._position(spot.row), spot.fold) if self._count else Place(0)

    def _spot(self, place: Place) -> Spot:
        """Where a place is now; where it would be, when its row is dropped or hidden."""
        index = self.shown.rows.index(place.position)
        there = index < self._count and self._position(index) == place.position
        return Spot(index, place.fold if there else 0)

    def _height(self, index: int) -> int:
        """Lines of the screen that a row takes."""
        return len(self._strips(self._position(index))) if self.folded else 1

    def _moved(self, spot: Spot, count: int) -> Spot:
        """So many lines of the screen further down, or up; at most to an end of the log."""
        index, fold = spot
        fold += count
        while fold < 0 and index > 0:
            index -= 1
            fold += self._height(index)
        while index < self._count - 1 and fold >= (height := self._height(index)):
            index += 1
            fold -= height
        return Spot(index, max(0, fold))

    def _lowest(self) -> Spot:
        """The spot at the top of the view when the end of the log is at its bottom."""
        return self._moved(Spot(self._count), -self.size.height)

    def _lay_out(self, top: Spot) -> None:
        """Decide what each line of the screen shows, from this spot on."""
        self._places = []
        index, fold = top
        while index < self._count and len(self._places) < self.size.height:
            position = self._position(index)
            self._places += [Place(position, each) for each in range(fold, self._height(index))]
            index, fold = index + 1, 0
        del self._places[self.size.height :]

    def _move_window(self, top: int, rows: int) -> None:
        """Scrolls an area of so many rows without a watcher, and without a layout of the whole screen."""
        self._widest = max(self._widest, self._width_in_view())
        width = self._window.width if self.folded else GUTTER + self._window.words + self._widest
        self.set_reactive(Widget.virtual_size, Size(width, rows))
        self.set_reactive(Widget.scroll_target_y, top)
        self.set_scroll(None, top)
        self.vertical_scrollbar.window_virtual_size = rows
        self.vertical_scrollbar.position = top

    def _width_in_view(self) -> int:
        return max((cell_len(self._row(place.position)[0].text) for place in self._places), default=0)

    def _row(self, position: int) -> tuple[Row, Source | None]:
        if position == LIVE:
            return self._live or LogLine(0, ""), None
        rows = self.shown.buffer
        index = min(rows.index(position), len(rows) - 1)
        return rows.row(index), rows.source(index)

    def _strips(self, position: int) -> list[Strip]:
        """A row as lines of the screen."""
        paint, window, emphasis = self._painter(), self._window, self._emphasis(position)
        key = (position, window, emphasis)
        strips = None if position == LIVE else self._drawn.get(key)
        if strips is None:
            strips = self._drawn[key] = self._draw(position, window, paint, emphasis)
        return strips

    def _draw(self, position: int, window: Window, paint: LogPaint, emphasis: Emphasis) -> list[Strip]:
        row, source = self._row(position)
        try:
            with time_limit(MATCH_LIMIT_S) if emphasis.matches else nullcontext():
                return row_strips(row, source, window, paint, self.glyphs, emphasis)
        except TooSlow:
            return row_strips(row, source, window, paint, self.glyphs, emphasis._replace(matches=None))

    def _colours(self, position: int) -> tuple[Colour, ...]:
        rows = self.shown.buffer
        return () if position == LIVE else rows.colours(rows.index(position))

    def _emphasis(self, position: int) -> Emphasis:
        search, block = self.shown.search, self.block
        return Emphasis(
            marked=position == self.marked,
            colours=self._colours(position),
            selected=block is not None and block[0] <= position <= block[1],
            matches=search.pattern.regex if search is not None and position in search.positions else None,
        )

    def _placeholder(self) -> Strip:
        width = self._window.width
        said = self.glyphs.safe(self._nothing_said())
        said = fit(said, min(width, cell_len(said)), self.glyphs).center(width)
        return self._painter().strip((Span(said, "muted"),)).adjust_cell_length(width, self._painter().base)

    def _nothing_said(self) -> str:
        """Why no row is shown."""
        if self.shown.hidden:
            return f"all {self.shown.hidden:,} lines are hidden by {self.shown.filter.words}"
        return self.place_note or "no lines yet"

    def _painter(self) -> LogPaint:
        if self._paint is None:
            self._measure()
        return self._paint or LogPaint({}, Style())
