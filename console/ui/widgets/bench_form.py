"""The shape of a benchmark, field by field, with a mark that the keys move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from console.domain.bench.benching import BenchPlan

from .bench_shape import FIELDS, Field, shown_value
from .line_view import LineView
from .lines import Line, Span, fit, fit_line
from .meter import Glyphs
from .paragraphs import SCROLL_BAR

LABEL_WIDTH = 15
VALUE_WIDTH = 8
GAP = 2


class BenchForm(LineView, can_focus=True):
    """Says with `Chosen` which field is to be changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("enter", "choose", "change"),
    ]

    class Chosen(Message):
        """This field is to be changed."""

        def __init__(self, field: Field) -> None:
            super().__init__()
            self.field = field

    def __init__(self, plan: BenchPlan, *, glyphs: Glyphs, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._plan = plan
        self._index = 0

    def show(self, plan: BenchPlan) -> None:
        """Show the shape of this one."""
        self._plan = plan
        self.redraw()

    def action_move(self, steps: int) -> None:
        """The mark up or down."""
        self._index = min(max(0, self._index + steps), len(FIELDS) - 1)
        self.redraw()

    def action_choose(self) -> None:
        """Change the field under the mark."""
        self.post_message(self.Chosen(FIELDS[self._index]))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        row = None if offset is None else offset.y + int(self.scroll_offset.y)
        if row is not None and row < len(FIELDS):
            self.action_move(row - self._index)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        return [self._field(index, field, width - SCROLL_BAR) for index, field in enumerate(FIELDS)]

    def _field(self, index: int, field: Field, width: int) -> Line:
        values = max(VALUE_WIDTH, *(len(shown_value(self._plan, each)) + GAP for each in FIELDS))
        label = field.label.ljust(LABEL_WIDTH)
        value = fit(shown_value(self._plan, field), min(values, width - LABEL_WIDTH - GAP), self.glyphs)
        if index == self._index and self.has_focus:
            marked = fit(f"> {label}{value}{field.explained}", width, self.glyphs)
            return (Span(marked, "marked-row"),)
        row = (Span(f"  {label}"), Span(value, "strong"), Span(field.explained, "muted"))
        return fit_line(row, width, self.glyphs)
