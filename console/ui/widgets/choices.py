"""Answers side by side, the harmless one first.

One widget takes all their keys, in the order in which they are pressed: were each answer a widget of its own,
an enter close behind an arrow would still go to the one that the arrow leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.message import Message

from .line_view import LineView
from .lines import Line, Span, fit_line
from .meter import UNICODE, Glyphs
from .paragraphs import clean

LEAST_WIDTH = 8
"""Cells of a label."""
GAP = 1


class Choice(NamedTuple):
    """One answer; it is passed over while it cannot be given."""

    label: str
    able: bool = True


class Choices(LineView, can_focus=True, inherit_bindings=False):
    """Says with `Chosen` which answer was given."""

    DEFAULT_CSS = """
    Choices { height: 1; overflow: hidden hidden; }
    """

    class Chosen(Message):
        """The answer, counted from 0."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(
        self, choices: Sequence[Choice] = (), *, glyphs: Glyphs = UNICODE, id: str | None = None
    ) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self.choices = tuple(choices)
        self.marked = 0
        """The one that enter gives."""

    def offer(self, choices: Sequence[Choice]) -> None:
        """Offer these. Where they are others, or the marked one cannot be given, the first is marked."""
        asked = [choice.label for choice in self.choices] != [choice.label for choice in choices]
        self.choices = tuple(choices)
        if asked or not self.choices[self.marked].able:
            self.marked = 0
        self.redraw()

    def on_key(self, event: events.Key) -> None:
        """The last one lets tab go on to what comes next on the screen."""
        if event.key == "enter":
            self.post_message(self.Chosen(self.marked))
        elif event.key in ("left", "shift+tab"):
            if not self._move(-1) and event.key != "left":
                return
        elif event.key in ("right", "tab"):
            if not self._move(1) and event.key != "right":
                return
        else:
            return
        event.stop()
        event.prevent_default()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        index = None if offset is None else self._at(offset.x)
        if index is not None and self.choices[index].able:
            self.marked = index
            self.redraw()
            self.post_message(self.Chosen(index))

    def watch_has_focus(self, _has_focus: bool) -> None:
        # On Focus and Blur it would be too early: Textual's own handlers of those come last.
        super().watch_has_focus(_has_focus)
        self.redraw()

    def _move(self, steps: int) -> bool:
        """Whether there was one to go to."""
        index = self.marked + steps
        if not 0 <= index < len(self.choices) or not self.choices[index].able:
            return False
        self.marked = index
        self.redraw()
        return True

    def _at(self, x: int) -> int | None:
        """Which one stands at a cell."""
        end = 0
        for index in range(len(self.choices)):
            end += cell_len(self._span(index).text)
            if x < end:
                return index
            end += GAP
        return None

    def _span(self, index: int) -> Span:
        choice = self.choices[index]
        label = clean(choice.label, self.glyphs).center(LEAST_WIDTH)
        if index == self.marked:
            return Span(f"[ {label} ]", "marked-row" if self.has_focus else "strong")
        return Span(f"  {label}  ", "" if choice.able else "muted")

    def lines(self, width: int, height: int) -> Sequence[Line]:
        shown: list[Span] = []
        for index in range(len(self.choices)):
            shown += [Span(" " * GAP), self._span(index)] if shown else [self._span(index)]
        return [fit_line(tuple(shown), width, self.glyphs)]
