"""Things in one line each below a title, with a mark that the keys move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from .line_view import LineView
from .lines import Line, Span, fit, fit_line
from .meter import UNICODE, Glyphs
from .paragraphs import SCROLL_BAR

Item = TypeVar("Item")


class MarkedList(LineView, Generic[Item], can_focus=True):
    """Says with `Moved` that the mark may be on something else; what that is, `marked` tells."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-100000)", show=False),
        Binding("end", "move(100000)", show=False),
    ]

    PINNED = 1

    class Moved(Message):
        """The mark is on another item, or on none."""

    def __init__(self, nothing: str, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        """`nothing` is what an empty list says."""
        super().__init__(glyphs=glyphs, id=id)
        self.nothing = nothing
        self._items: tuple[Item, ...] = ()
        self._index = 0

    def identity(self, item: Item) -> str:
        """What makes an item the same as one that was shown before."""
        raise NotImplementedError

    def table(self, items: Sequence[Item], width: int) -> tuple[Line, Sequence[Line]]:
        """The title, which leaves two cells for the mark, and a line for each of the items, without those."""
        raise NotImplementedError

    def take(self, items: Sequence[Item], otherwise: int) -> None:
        """Show these. The mark stays on its item where that is there, else it is on the row `otherwise`."""
        marked = None if self.marked is None else self.identity(self.marked)
        self._items = tuple(items)
        known = [self.identity(item) for item in items]
        self._index = known.index(marked) if marked in known else otherwise
        self.action_move(0)

    @property
    def marked(self) -> Item | None:
        """The item under the mark."""
        return self._items[self._index] if self._items else None

    def action_move(self, steps: int) -> None:
        """The mark up or down."""
        self._index = min(max(0, self._index + steps), max(0, len(self._items) - 1))
        self.redraw()
        # The pinned title hides the line above the one that is scrolled to.
        self.scroll_to_region(Region(0, self._index, 1, 2), animate=False, force=True)
        self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        """The mark a page up or down."""
        self.action_move(pages * max(1, self.size.height - 2))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self.PINNED:
            return
        row = offset.y - self.PINNED + int(self.scroll_offset.y)
        if row < len(self._items):
            self.action_move(row - self._index)

    def lines(self, width: int, height: int) -> Sequence[Line]:
        if not self._items:
            return [(Span(self.nothing, "muted"),)]
        width -= SCROLL_BAR
        title, rows = self.table(self._items, width)
        return [
            fit_line(title, width, self.glyphs),
            *(self._row_line(index, row, width) for index, row in enumerate(rows)),
        ]

    def _row_line(self, index: int, row: Line, width: int) -> Line:
        """The one under the mark is told by a sign and by its colours turned around."""
        if index != self._index:
            return fit_line((Span("  "), *row), width, self.glyphs)
        text = "".join(span.text for span in row)
        return (Span(fit(f"> {text}", width, self.glyphs), "marked-row"),)
