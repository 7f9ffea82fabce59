"""One line in which a person types an answer: a pattern, a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual import events
from textual.widget import Widget

from .lines import fit
from .meter import UNICODE, Glyphs
from .paint import Paint
from .typed_line import TypedLine

HISTORY_LIMIT = 100
LEAST_ROOM = 16
"""Columns for what is typed, however long the remark is."""


class History:
    """What was typed before, the newest last."""

    def __init__(self) -> None:
        self._typed: list[str] = []

    def __len__(self) -> int:
        return len(self._typed)

    def __getitem__(self, index: int) -> str:
        return self._typed[index]

    def add(self, typed: str) -> None:
        """Remember it as the newest."""
        if typed:
            self._typed = [*(each for each in self._typed if each != typed), typed][-HISTORY_LIMIT:]


def _nothing(typed: str) -> str:
    return ""


@dataclass(frozen=True)
class Question:
    """What is asked, and what becomes of the answer. The functions return a remark for the line, or none."""

    label: str
    answered: Callable[[str], str]
    """Called at enter; what it returns keeps the line open, with what was typed."""
    changed: Callable[[str], str] = _nothing
    """Called at each change."""
    cancelled: Callable[[], None] = lambda: None
    suggestion: str = ""
    history: History = field(default_factory=History)


class PromptLine(Widget, can_focus=False):
    """Asks one question at a time, and is not there in between.

    It never has the focus: whoever has it gives each key to `press` first. So no key comes too early or too
    late, however fast they are typed.
    """

    DEFAULT_CSS = """
    PromptLine { display: none; height: 1; background: $panel; }
    """

    def __init__(self, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.question: Question | None = None
        """What is being asked."""
        self.typed = TypedLine()
        self._glyphs = glyphs
        self._remark = ""
        self._back = 0  # steps back in the history; 0 is what is being typed
        self._draft = TypedLine()

    def ask(self, question: Question) -> None:
        """Open the line."""
        self.question, self._back, self._remark = question, 0, ""
        self.typed = TypedLine.of(question.suggestion)
        self._shown(open=True)

    def remark(self, text: str) -> None:
        """Say something beside what is typed."""
        self._remark = text
        self.refresh()

    def close(self) -> None:
        """Ask nothing."""
        self.question = None
        self._shown(open=False)

    def press(self, event: events.Key) -> bool:
        """Takes a key that is for the line, while there is a question; returns whether it was taken."""
        if self.question is None or not self._take(event):
            return False
        event.stop()
        event.prevent_default()
        return True

    def paste(self, text: str) -> None:
        """Types a text."""
        self._change(self.typed.insert(text))

    def answer(self) -> None:
        """Give what is typed as the answer."""
        if (question := self.question) is None:
            return
        if remark := question.answered(self.typed.text):
            self.remark(remark)
            return
        question.history.add(self.typed.text)
        if self.question is question:
            self.close()

    def cancel(self) -> None:
        """Leave without an answer."""
        if (question := self.question) is not None:
            self.close()
            question.cancelled()

    def recall(self, steps: int) -> None:
        """Type what was typed so many answers before the one that stands there, or after it."""
        history = self.question.history if self.question else History()
        back = self._back + steps
        if not 0 <= back <= len(history):
            return
        if self._back == 0:
            self._draft = self.typed
        self._back = back
        self._change(TypedLine.of(history[-back]) if back else self._draft)

    def render(self) -> Text:
        """The label, what is typed with its cursor, the remark at the right."""
        label, remark = (self.question.label if self.question else ""), self._glyphs.safe(self._remark)
        width = self.size.width - cell_len(label)
        said = f" {remark} " if remark else ""
        said = fit(said, min(cell_len(said), max(0, width - LEAST_ROOM)), self._glyphs)
        paint = Paint(self.app.theme_variables)
        text = Text(no_wrap=True, end="")
        text.append(label, paint.style("strong"))
        text.append_text(self._typed_in(width - cell_len(said)))
        text.append(said, paint.style("muted"))
        return text

    def _typed_in(self, width: int) -> Text:
        """What is typed in so many cells, scrolled so far that the cursor is in view."""
        before, after = self._glyphs.safe(self.typed.before), self._glyphs.safe(self.typed.after) or " "
        while before and cell_len(before) + cell_len(after[:1]) > width:
            before = before[1:]
        rest = set_cell_size(after[1:], max(0, width - cell_len(before) - cell_len(after[:1])))
        return Text.assemble(before, (after[:1], Style(reverse=True)), rest)

    def _take(self, event: events.Key) -> bool:
        actions: Mapping[str, Callable[[], None]] = {
            "enter": self.answer,
            "escape": self.cancel,
            "up": partial(self.recall, 1),
            "down": partial(self.recall, -1),
            # The focus stays until the question is answered.
            "tab": lambda: None,
            "shift+tab": lambda: None,
        }
        if (action := actions.get(event.key)) is not None:
            action()
        elif (edited := self.typed.press(event.key)) is not None:
            self._change(edited)
        elif event.is_printable and event.character is not None:
            self._change(self.typed.insert(event.character))
        else:
            return False
        return True

    def _change(self, typed: TypedLine) -> None:
        before, self.typed = self.typed, typed
        if self.question is not None and typed.text != before.text:
            self._remark = self.question.changed(typed.text)
        self.refresh()

    def _shown(self, *, open: bool) -> None:
        self.display = open
        self.refresh()
        self.screen.refresh_bindings()
