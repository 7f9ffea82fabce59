"""Something that is proposed, goes on once it was agreed to, and ends: a plan, a benchmark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import ClassVar, Generic, Protocol, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Footer

from console.domain.host_view import HostView
from console.ui.screens.confirm import ConfirmScreen
from console.ui.screens.host_screen import HostScreen
from console.ui.widgets.choices import Choice, Choices
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph, ParagraphView
from console.ui.widgets.status_bar import StatusBar

TICK_S = 1.0


class Goes(Protocol):
    """How far something has come."""

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        ...

    @property
    def aborting(self) -> str | None:
        """What an abort that was asked for will leave."""
        ...


Progressed = TypeVar("Progressed", bound=Goes)


class ProposalScreen(HostScreen, Generic[Progressed]):
    """Shows what is proposed and, once it has begun, its progress; says with messages what is wanted."""

    AUTO_FOCUS = "Choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "back"),
        Binding("escape", "cancel", show=False),
        Binding("escape", "abort", "abort"),
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]

    ON_ABORT: ClassVar[str]
    """What becomes of it when it is aborted."""

    class Left(Message):
        """The screen is to be closed; what has begun goes on."""

    class AbortWanted(Message):
        """What is under way is to end."""

    def __init__(
        self,
        host: HostView,
        glyphs: Glyphs,
        *,
        progress: Progressed | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(host, glyphs)
        self._clock = clock
        self._progress = progress

    # What a screen of this kind says.

    def parts(self) -> ComposeResult:
        """What stands between heading and note."""
        raise NotImplementedError

    @property
    def deed(self) -> str:
        """What is or is not possible: `Restart`, `Measuring`."""
        raise NotImplementedError

    def why_not(self) -> str | None:
        """Why it cannot begin; None: it can."""
        raise NotImplementedError

    def heading(self) -> Iterable[Paragraph]:
        """What stands above all."""
        raise NotImplementedError

    def show_parts(self) -> None:
        """Show the parts as they are now."""
        raise NotImplementedError

    def show_end(self) -> None:
        """It has ended: bring what came of it into view."""
        raise NotImplementedError

    @property
    def scrolled(self) -> Widget:
        """What the keys scroll while an answer has the focus."""
        raise NotImplementedError

    def answers(self) -> tuple[Choice, ...]:
        """What can be answered before it begins and after its end, but for the harmless one."""
        raise NotImplementedError

    def answer(self, index: int) -> None:
        """Do what was answered of those, counted from 1."""
        raise NotImplementedError

    # What they have in common.

    def compose(self) -> ComposeResult:
        yield StatusBar(glyphs=self._glyphs)
        yield _unfocused(ParagraphView(glyphs=self._glyphs, id="proposal-heading"))
        yield from self.parts()
        yield _unfocused(ParagraphView(glyphs=self._glyphs, id="proposal-note"))
        yield Choices(glyphs=self._glyphs, id="proposal-choices")
        yield Footer(show_command_palette=False)

    @property
    def begun(self) -> bool:
        """Whether it goes on, or has ended."""
        return self._progress is not None

    @property
    def goes_on(self) -> bool:
        """Whether it has begun and not ended."""
        return self._progress is not None and self._progress.running

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.begun and not self.goes_on

    def on_mount(self) -> None:
        self.refresh_state()
        self.set_interval(TICK_S, self.refresh_state)

    def show_progress(self, progress: Progressed) -> None:
        """How far it is by now."""
        began = progress.running and not self.goes_on
        self._progress = progress
        if not self.is_mounted:
            return
        self.refresh_state()
        if began or self.ended:
            self.query_one(Choices).focus()
        if self.ended:
            self.show_end()

    def show_host(self, view: HostView) -> None:
        """The host as it is now."""
        super().show_host(view)
        if self.is_mounted:
            self.refresh_state()

    def refresh_state(self) -> None:
        """Show everything as it is now."""
        self.set_class(self.goes_on, "-running")
        self.set_class(self.ended, "-ended")
        self.query_one("#proposal-heading", ParagraphView).show(self.heading())
        self.show_parts()
        self.query_one("#proposal-note", ParagraphView).show(self._note())
        self.query_one(Choices).offer(self._choices())
        self.refresh_bindings()

    def _note(self) -> list[Paragraph]:
        progress = self._progress
        if progress is None:
            reason = self.why_not()
            return [Paragraph(f"{self.deed} is not possible: {reason}", "warning")] if reason else []
        if progress.running and progress.aborting is not None:
            return [Paragraph(f"Aborting: {progress.aborting}", "warning")]
        return []

    def _choices(self) -> tuple[Choice, ...]:
        progress = self._progress
        if progress is not None and progress.running:
            return (Choice("Leave it running"), Choice("Abort", progress.aborting is None))
        return (Choice("Close" if self.begun else "Cancel"), *self.answers())

    @on(Choices.Chosen)
    def _chosen(self, message: Choices.Chosen) -> None:
        if message.index == 0:
            self.action_leave()
        elif self.goes_on:
            self.action_abort()
        else:
            self.answer(message.index)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape aborts while it runs; one that comes just after the end does not close the result."""
        return {"abort": self.goes_on, "cancel": not self.begun}.get(action, True)

    def action_cancel(self) -> None:
        """Close the screen of what has not begun."""
        self.action_leave()

    def action_abort(self) -> None:
        """Ask whether to abort."""
        if self._progress is None or self._progress.aborting is not None:
            return
        said = [Paragraph(self.ON_ABORT)]
        question = ConfirmScreen("Abort?", said, yes="Abort", no="Go on", glyphs=self._glyphs)
        self.app.push_screen(question, self._abort)

    def _abort(self, agreed: bool | None) -> None:
        if agreed and self.goes_on:
            self.post_message(self.AbortWanted())

    def action_leave(self) -> None:
        """Close the screen; what has begun goes on."""
        self.post_message(self.Left())

    def action_step(self, rows: int) -> None:
        """Scroll, while an answer has the focus."""
        self.scrolled.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        """The same by pages."""
        view = self.scrolled
        view.scroll_relative(y=pages * max(1, view.size.height - 1), animate=False)


def _unfocused(view: ParagraphView) -> ParagraphView:
    view.can_focus = False
    return view
