"""A question before something that cannot be taken back: the harmless answer first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from console.ui.widgets.choices import Choice, Choices
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph, ParagraphView, clean
from console.ui.widgets.prompt_line import PromptLine, Question


class ConfirmScreen(ModalScreen[bool]):
    """Ends with whether it was confirmed.

    With `typed` there are no buttons: that word must be typed, and an empty line cancels.
    """

    AUTO_FOCUS = "Choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "cancel", show=False),
        Binding("pageup", "scroll(-1)", show=False),
        Binding("pagedown", "scroll(1)", show=False),
    ]

    def __init__(
        self,
        title: str,
        said: Sequence[Paragraph],
        *,
        yes: str,
        no: str = "Cancel",
        typed: str | None = None,
        glyphs: Glyphs,
    ) -> None:
        super().__init__()
        self._question = (clean(title, glyphs), tuple(said))
        self._yes, self._no, self._typed = yes, no, typed
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        title, said = self._question
        with Vertical(id="confirm") as box:
            box.border_title = Text(title)
            text = ParagraphView(glyphs=self._glyphs, id="confirm-text")
            text.can_focus = False
            text.show(said)
            yield text
            if self._typed is not None:
                yield PromptLine(glyphs=self._glyphs)
            else:
                yield Choices((Choice(self._no), Choice(self._yes)), glyphs=self._glyphs)

    def on_mount(self) -> None:
        if self._typed is not None:
            self.query_one(PromptLine).ask(
                Question(
                    f"type {clean(self._typed, self._glyphs)}: ",
                    answered=self._answered,
                    cancelled=self.action_cancel,
                )
            )

    def _answered(self, typed: str) -> str:
        if typed and typed != self._typed:
            return f"not {self._typed}; escape cancels"
        self.dismiss(typed == self._typed)
        return ""

    def on_key(self, event: events.Key) -> None:
        if self._typed is not None:
            self.query_one(PromptLine).press(event)

    @on(Choices.Chosen)
    def _chosen(self, message: Choices.Chosen) -> None:
        message.stop()
        self.dismiss(message.index == 1)

    def action_cancel(self) -> None:
        """The harmless answer."""
        self.dismiss(False)

    def action_scroll(self, pages: int) -> None:
        """The text, where there is more than fits."""
        text = self.query_one(ParagraphView)
        text.scroll_relative(y=pages * text.size.height, animate=False)
