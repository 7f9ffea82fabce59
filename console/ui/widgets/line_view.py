"""The widget under every panel of the dashboard: lines in, as few repaints as they need out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from textual import events
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from .lines import Line, in_grey
from .meter import UNICODE, Glyphs
from .paint import Paint


class LineView(ScrollView):
    """A Line-API widget that shows what `lines` returns, scrolls it, and repaints only lines that changed."""

    DEFAULT_CSS = """
    LineView { overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    greyed: reactive[bool] = reactive(False)
    """Whether what is shown is no longer true; whoever sets it also says so in words."""

    PINNED = 0
    """Lines at the top that do not scroll."""

    def __init__(
        self, *, glyphs: Glyphs = UNICODE, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self._lines: tuple[Line, ...] = ()
        self._paint = Paint({})
        self._theme: object = None

    def lines(self, width: int, height: int) -> Sequence[Line]:
        """What to show in so many cells; more lines than `height` are scrolled."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Ask for the lines again and repaint those that differ."""
        width, height = self.size
        if not width:
            return
        before, self._lines = self._lines, tuple(self._toned(width, height))
        self.virtual_size = Size(width, len(self._lines))
        changed = [y for y, (old, new) in enumerate(zip_longest(before, self._lines)) if old != new]
        regions = [Region(0, row, width, 1) for row in map(self._row, changed) if row is not None]
        if regions:
            self.refresh(*regions)

    @property
    def shown(self) -> tuple[Line, ...]:
        """The lines as last drawn, whether or not they are scrolled into view."""
        return self._lines

    def render_line(self, y: int) -> Strip:
        index = y if y < self.PINNED else y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ()
        return self._painter().strip(line).adjust_cell_length(self.size.width).apply_style(self.rich_style)

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()

    def watch_greyed(self) -> None:
        self.redraw()

    @property
    def is_stale(self) -> bool:
        """Whether to draw in grey."""
        return self.greyed

    def _toned(self, width: int, height: int) -> Sequence[Line]:
        lines = self.lines(width, height)
        return [in_grey(line) for line in lines] if self.is_stale else lines

    def _row(self, index: int) -> int | None:
        """Where on the widget a line stands; None when it is scrolled away."""
        row = index if index < self.PINNED else index - self.scroll_offset.y
        return row if index < self.PINNED or self.PINNED <= row < self.size.height else None

    def _painter(self) -> Paint:
        # Textual makes a new mapping of variables when the theme changes, and only then.
        if self._theme is not self.app.theme_variables:
            self._theme = self.app.theme_variables
            self._paint = Paint(self.app.theme_variables)
        return self._paint
