"""A plan: shown with all that it does, confirmed, watched while it is carried out, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer

from console.domain.errors import ConsoleError
from console.domain.host_view import HostView
from console.domain.operating import Operator
from console.domain.plan import Plan
from console.domain.preflight import Check, refused
from console.domain.run_record import Process
from console.ui.screens.confirm import ConfirmScreen
from console.ui.widgets.check_list import check_paragraphs, check_title
from console.ui.widgets.choices import Choice, Choices
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph, ParagraphView
from console.ui.widgets.plan_heading import foreign_paragraphs, plan_heading
from console.ui.widgets.plan_result import result_paragraphs
from console.ui.widgets.plan_steps import carried_out, is_step, planned, steps_title
from console.ui.widgets.progress import Progress
from console.ui.widgets.status_bar import StatusBar

BESIDE = 110
"""Columns from which checks and result stand beside the steps."""
TALL = 32
"""Rows below which the parts have a line above them and no border."""
TICK_S = 1.0
ABORT = "What this plan has launched is stopped; what it has stopped stays stopped."
LOOKING = "the preflight is still looking"


class PlanScreen(Screen[None]):
    """Shows a plan and, once it has begun, its progress; says with messages what is wanted."""

    AUTO_FOCUS = "Choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "back"),
        Binding("escape", "cancel", show=False),
        Binding("escape", "abort", "abort"),
        Binding("up", "scroll_steps(-1)", show=False),
        Binding("down", "scroll_steps(1)", show=False),
        Binding("pageup", "page_steps(-1)", show=False),
        Binding("pagedown", "page_steps(1)", "scroll", key_display="pgup/pgdn"),
        Binding("home", "page_steps(-1000)", show=False),
        Binding("end", "page_steps(1000)", show=False),
    ]

    class Begun(Message):
        """The plan is to be carried out, and these processes of others may be ended by it."""

        def __init__(self, plan: Plan, consent: Collection[Process]) -> None:
            super().__init__()
            self.plan, self.consent = plan, consent

    class Left(Message):
        """The screen is to be closed; a plan that has begun goes on."""

    class AbortWanted(Message):
        """The plan under way is to end."""

    class RollbackWanted(Message):
        """A plan back to this profile is wanted."""

        def __init__(self, profile: str) -> None:
            super().__init__()
            self.profile = profile

    def __init__(
        self,
        plan: Plan,
        operator: Operator,
        host: HostView,
        glyphs: Glyphs,
        *,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.plan = plan
        self._operator, self._host, self._glyphs, self._clock = operator, host, glyphs, clock
        self._progress = progress
        self._interrupted = operator.interrupted() if progress is None else None
        self._followed: int | None = None
        self._checks: tuple[Check, ...] | None = None
        self._check_failure: str | None = None

    def compose(self) -> ComposeResult:
        yield StatusBar(glyphs=self._glyphs)
        yield _unfocused(ParagraphView(glyphs=self._glyphs, id="plan-heading"))
        with Container(id="plan"):
            yield ParagraphView(glyphs=self._glyphs, id="plan-side")
            yield ParagraphView(glyphs=self._glyphs, id="plan-steps")
        yield _unfocused(ParagraphView(glyphs=self._glyphs, id="plan-note"))
        yield Choices(glyphs=self._glyphs, id="plan-choices")
        yield Footer(show_command_palette=False)

    @property
    def _verb(self) -> str:
        return self.plan.verb.capitalize()

    @property
    def begun(self) -> bool:
        """Whether it is, or was, carried out."""
        return self._progress is not None

    def on_mount(self) -> None:
        self.query_one(StatusBar).update_host(self._host)
        heading = plan_heading(self.plan, self._host, self._interrupted)
        self.query_one("#plan-heading", ParagraphView).show(heading)
        self.refresh_state()
        self.set_interval(TICK_S, self.refresh_state)
        if self._progress is None:
            self.run_worker(self._check(), group="check", exclusive=True)

    async def _check(self) -> None:
        try:
            self._checks = await self._operator.check(self.plan)
        except ConsoleError as error:
            self._check_failure = str(error)
        self.refresh_state()

    def show_progress(self, progress: Progress) -> None:
        """How far it is by now."""
        began = self._progress is None
        self._progress = progress
        if not self.is_mounted:
            return
        self.refresh_state()
        if began or not progress.running:
            self.query_one(Choices).focus()
        if progress.result is not None or progress.error is not None:
            self.query_one("#plan-side").scroll_home(animate=False)

    def show_host(self, view: HostView) -> None:
        """The host as it is now."""
        self._host = view
        if self.is_mounted:
            self.query_one(StatusBar).update_host(view)
            self.refresh_state()

    def refresh_state(self) -> None:
        """Show everything as it is now."""
        now = self._clock()
        side, steps = (self.query_one(name, ParagraphView) for name in ("#plan-side", "#plan-steps"))
        self._show_side(side)
        steps.border_title = steps_title(self.plan, self._progress, now)
        if self._progress is None:
            steps.show(planned(self.plan))
        else:
            steps.show(carried_out(self._progress, now, self._glyphs))
            self._follow(steps, self._progress)
        self.query_one("#plan-note", ParagraphView).show(self._note())
        self.query_one(Choices).offer(self._choices())
        self.set_class(self._progress is not None and self._progress.running, "-running")
        self.set_class(self._progress is not None and not self._progress.running, "-ended")
        self.refresh_bindings()

    def _show_side(self, side: ParagraphView) -> None:
        """The result once there is one, and what the preflight found."""
        progress, checks = self._progress, self._checks
        ended = result_paragraphs(progress, self._glyphs) if progress else []
        if progress and progress.result and progress.result.checks:
            checks = progress.result.checks
        if ended:
            below = [Paragraph(), *check_paragraphs(checks, None, self._glyphs)] if checks else []
            side.border_title = "Result"
            side.show([*ended, *below])
            return
        side.border_title = check_title(checks)
        side.show(check_paragraphs(checks, self._check_failure, self._glyphs))

    def _follow(self, steps: ParagraphView, progress: Progress) -> None:
        """Bring the step that matters into view, once: then a person may scroll."""
        if progress.current is not None and progress.current != self._followed:
            self._followed = progress.current
            steps.reveal(lambda paragraph: is_step(paragraph, progress.current))

    def _note(self) -> list[Paragraph]:
        progress = self._progress
        if progress is None:
            reason = self._why_not()
            return [Paragraph(f"{self._verb} is not possible: {reason}", "warning")] if reason else []
        if progress.running and progress.aborting is not None:
            return [Paragraph(f"Aborting: {progress.aborting}", "warning")]
        return []

    def _why_not(self) -> str | None:
        """Why the plan cannot begin; None: it can."""
        if (reason := self._operator.refusal()) is not None:
            return reason
        if self._check_failure is not None:
            return f"the preflight could not be made: {self._check_failure}"
        if self._checks is None:
            return LOOKING
        subjects = ", ".join(check.subject for check in refused(self._checks))
        return f"the preflight refuses {subjects}" if subjects else None

    def _choices(self) -> tuple[Choice, ...]:
        progress = self._progress
        if progress is None:
            return (Choice("Cancel"), Choice(self._verb, self._why_not() is None))
        if progress.running:
            return (Choice("Leave it running"), Choice("Abort", progress.aborting is None))
        rollback = progress.result.rollback if progress.result else None
        return (Choice("Close"), *([Choice(f"Roll back to {rollback}")] if rollback else []))

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= BESIDE, "-beside")
        self.set_class(event.size.height >= TALL, "-tall")

    @on(Choices.Chosen)
    def _chosen(self, message: Choices.Chosen) -> None:
        if message.index == 0:
            self.action_leave()
        elif self._progress is None:
            self._confirm_foreign()
        elif self._progress.running:
            self.action_abort()
        elif self._progress.result is not None and self._progress.result.rollback is not None:
            self.post_message(self.RollbackWanted(self._progress.result.rollback))

    def _confirm_foreign(self) -> None:
        """What others launched is ended only after a confirmation of its own."""
        if not self.plan.foreign:
            self._confirm_host()
            return
        said = tuple(foreign_paragraphs(self.plan))
        question = ConfirmScreen(
            "End what somebody else launched?", said, yes="End them too", glyphs=self._glyphs
        )
        self.app.push_screen(question, lambda agreed: self._confirm_host() if agreed else None)

    def _confirm_host(self) -> None:
        """A protected host's name is typed."""
        if not self._host.protected:
            self._begin()
            return
        said = [
            Paragraph(f"{self._host.name} is protected. {self.plan.consequence}"),
            Paragraph("Type its name to go on; escape or an empty line cancels.", "muted"),
        ]
        question = ConfirmScreen(
            f"{self._verb} on a protected host",
            said,
            yes=self._verb,
            typed=self._host.name,
            glyphs=self._glyphs,
        )
        self.app.push_screen(question, lambda agreed: self._begin() if agreed else None)

    def _begin(self) -> None:
        consent = [target.server for target in self.plan.foreign if target.server is not None]
        self.post_message(self.Begun(self.plan, consent))

    def _abort(self, agreed: bool | None) -> None:
        if agreed and self._progress is not None and self._progress.running:
            self.post_message(self.AbortWanted())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape aborts while it runs; one that comes just after the end does not close the result."""
        running = self._progress is not None and self._progress.running
        return {"abort": running, "cancel": self._progress is None}.get(action, True)

    def action_cancel(self) -> None:
        """Close the screen of what has not begun."""
        self.action_leave()

    def action_abort(self) -> None:
        """Ask whether to abort."""
        if self._progress is not None and self._progress.aborting is not None:
            return
        question = ConfirmScreen("Abort?", [Paragraph(ABORT)], yes="Abort", no="Go on", glyphs=self._glyphs)
        self.app.push_screen(question, self._abort)

    def action_leave(self) -> None:
        """Close the screen; what has begun goes on."""
        self.post_message(self.Left())

    def action_scroll_steps(self, rows: int) -> None:
        """The steps, while a button has the focus."""
        self.query_one("#plan-steps").scroll_relative(y=rows, animate=False)

    def action_page_steps(self, pages: int) -> None:
        """The same by pages."""
        steps = self.query_one("#plan-steps")
        steps.scroll_relative(y=pages * max(1, steps.size.height - 1), animate=False)


def _unfocused(view: ParagraphView) -> ParagraphView:
    view.can_focus = False
    return view
