"""How a growing log is read: followed, scrolled back, paused, searched; drawn ten times a second at most."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp

from console.domain.logline import LogLine

from .log_filter import LogFilter
from .log_looking import LogLooking
from .log_pattern import Pattern
from .log_rows import KeptRows
from .log_shown import FIRST_SLICE_S
from .log_window import LIVE, LogWindow, Place, Spot
from .meter import UNICODE, Glyphs

REPAINT_S = 0.1
"""Least time between two repaints, however fast the log grows."""
WHEEL_ROWS = 3


class Bookmark(NamedTuple):
    """Where a reader was."""

    top: Place
    held: bool
    marked: int | None


class LogView(LogWindow):
    """A window that follows the end of a log, or stays where the reader is.

    Scrolled back, it keeps the same lines in view while new ones come and old ones are dropped. At the end it
    follows again, because to follow is a wish that scrolling does not undo. Paused, it shows the log of that
    moment, and goes on reading behind it.
    """

    follow: reactive[bool] = reactive(True, init=False)
    """Whether to keep the end of the log in view for as long as the reader does not look at older lines."""
    paused: reactive[bool] = reactive(False, init=False)

    class WantsOlder(Message):
        """The reader is at the oldest line and wants to go further back."""

    class GaveUp(Message):
        """A pattern took too long, and is no longer looked for."""

    def __init__(self, buffer: KeptRows, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(buffer, glyphs=glyphs)
        self.repainted: Callable[[], None] = lambda: None
        """Called when what is shown may have changed; no message, which would make for a second frame."""
        self.wrapped = False
        """The way to the last match led around an end of the log."""
        self._newest: LogLine | None = None
        self._held = False
        self._top = Place(0)
        self._looking = LogLooking(self, self.shown, looked=self._looked, gave_up=self._gave_up)
        self._painted = 0.0
        self._repaint_due = False

    @property
    def following(self) -> bool:
        """Whether the end of the log is kept in view now."""
        return self.follow and not self._held

    @property
    def below(self) -> int:
        """Rows of the log that stand below the view."""
        if self.last_shown == LIVE:
            return self.shown.unseen
        return self._count - self.shown.rows.index(self.last_shown + 1) + self.shown.unseen

    @property
    def bookmark(self) -> Bookmark:
        """Where the reader is, to come back to."""
        return Bookmark(self._top, self._held, self.marked)

    def set_live(self, line: LogLine | None) -> None:
        """Shows an unfinished line below all others, in place of the one before."""
        self._newest = line
        self.changed()

    def would_lose(self, excess: int) -> bool:
        """Whether a reader would lose what is in view, were so many of the oldest rows dropped."""
        return not (self.following or self.paused) and self.shown.live.index(self._top.position) < excess

    def changed(self) -> None:
        """Sees to it that what is new is drawn soon, if anybody can see it; else `on_show` catches up."""
        if self._repaint_due or not self.is_on_screen:
            return
        wait = self._painted + REPAINT_S - monotonic()
        if wait <= 0:
            self.repaint()
        else:
            self._repaint_due = True
            self.set_timer(wait, self._repaint_if_seen)

    def revised(self, position: int | None) -> None:
        """Rows from this position on have another class, if any has."""
        if position is not None:
            self.shown.forget_from(position)
            self._drawn.clear()
            self.changed()

    def set_filter(self, log_filter: LogFilter) -> None:
        """Show the lines that pass."""
        self.shown.set_filter(log_filter)
        self._looking.look(FIRST_SLICE_S)
        self.repaint()

    def set_search(self, pattern: Pattern | None) -> None:
        """Look for a pattern, and show where it matches; None ends that."""
        self.shown.set_search(pattern)
        self._looking.seek(None)
        self._looking.look(FIRST_SLICE_S)
        self.repaint()

    def seek(self, position: int, *, forward: bool) -> None:
        """Goes to the match nearest to a position, as soon as it is known."""
        self._looking.seek(position, forward=forward)
        self._find()
        self.repaint()

    def go_back(self, bookmark: Bookmark) -> None:
        """Shows what was in view then."""
        self._top, self._held, self.marked = bookmark
        self.repaint()

    def show(self, position: int) -> None:
        """Marks a row; where it is not in view it comes there, with what stands around it."""
        spot = self._spot(Place(position))
        self._show(position, self._moved(spot, -(self.size.height // 3)))

    def move_mark(self, count: int) -> None:
        """Marks the row so many further down, or up for a negative count."""
        if self.marked is not None and len(self.shown.rows):
            index = min(max(0, self.shown.rows.index(self.marked) + count), len(self.shown.rows) - 1)
            spot = Spot(index)
            # No further than must be.
            top = spot if spot < self._spot(self._top) else self._moved(spot, 1 - self.size.height)
            self._show(self.shown.rows.position(index), top)

    def rows_came_before(self) -> None:
        """Older rows were put before the first one; what is in view stays."""
        self.shown.begin_anew()
        self._looking.look(FIRST_SLICE_S)
        self.repaint()

    def to_top(self) -> None:
        """The oldest row kept."""
        if self._spot(self._top) == Spot(0) and not self.following:
            self.post_message(self.WantsOlder())
        self._go(Spot(0))
        self._held = True
        self.repaint()

    def to_end(self) -> None:
        """The newest row."""
        self._go(self._lowest())

    def scroll_rows(self, count: int) -> None:
        """So many lines of the screen down, or up for a negative count."""
        self.repaint()
        if count < 0 and self._spot(self._top) == Spot(0):
            self.post_message(self.WantsOlder())
        self._go(self._moved(self._spot(self._top), count))

    def scroll_columns(self, count: int) -> None:
        """So many columns to the right; the signs stay in view."""
        self.repaint()
        self.scroll_to(x=self.scroll_offset.x + count, animate=False)

    def repaint(self) -> None:
        """Shows what there is now."""
        self._painted = monotonic()
        if not self.is_attached:
            return
        self._measure()
        if self.would_lose(self.shown.live.excess()):
            self.paused = True
        if not self.paused:
            self._live = self._newest if self.shown.filter.is_open else None
        if not self._looking.look():
            self._looking.go_on()
        self._find()
        lowest = self._lowest()
        top = lowest if self.following else min(self._spot(self._top), lowest)
        if self.shown.done:
            self._top = self._place(top)
        self._lay_out(top)
        self._move_window(top.row, lowest.row + self.size.height if self.folded else self._count)
        self.refresh()
        self.repainted()

    def on_mount(self) -> None:
        for look in ("whole", "timed", "folded", "greyed", "place_note"):
            self.watch(self, look, self.repaint, init=False)

    def on_show(self, event: events.Show) -> None:
        self.repaint()

    def on_resize(self, event: events.Resize) -> None:
        self.repaint()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, WHEEL_ROWS)

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)
        self.repaint()

    # The reader's own scrolling is told by these messages alone: Textual changes the offset for reasons of
    # its own too, such as another size.

    def on_scroll_to(self, message: ScrollTo) -> None:
        if message.y is not None:
            message.stop()
            message.prevent_default()
            self._go(Spot(max(0, round(message.y))))

    def on_scroll_up(self, message: ScrollUp) -> None:
        self._page(message, -1)

    def on_scroll_down(self, message: ScrollDown) -> None:
        self._page(message, 1)

    def watch_follow(self) -> None:
        self._held = False
        self.repaint()

    def watch_paused(self) -> None:
        self.shown.freeze(self.paused)
        self.repaint()

    def _go(self, spot: Spot) -> None:
        lowest = self._lowest()
        self._held = spot < lowest
        self._top = self._place(min(spot, lowest))
        self.repaint()

    def _show(self, position: int, top: Spot) -> None:
        """Marks a row; where it is not in view, `top` comes to the top."""
        if not self.sees(position):
            self._top = self._place(min(top, self._lowest()))
        self.marked = position
        self._held = True
        self.repaint()

    def _page(self, message: Message, pages: int) -> None:
        message.stop()
        message.prevent_default()
        self.scroll_rows(pages * (self.size.height - 1))

    def _wheel(self, event: events.MouseEvent, count: int) -> None:
        if not (event.shift or event.ctrl):
            event.stop()
            event.prevent_default()
            self.scroll_rows(count)

    def _repaint_if_seen(self) -> None:
        self._repaint_due = False
        if self.is_on_screen:
            self.repaint()

    def _looked(self, done: bool) -> None:
        """Show what a slice of a look through the log has found."""
        if done:
            self.repaint()
        else:
            self.changed()

    def _gave_up(self) -> None:
        self.post_message(self.GaveUp())

    def _find(self) -> None:
        """Goes to the match that is sought, if it is known by now."""
        if (hit := self._looking.found()) is not None:
            self.wrapped = hit.wrapped
            self.show(hit.position)
