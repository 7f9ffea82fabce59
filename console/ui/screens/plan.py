"""A plan: shown with all that it does, confirmed, watched while it is carried out, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from console.domain.errors import ConsoleError
from console.domain.host_view import HostView
from console.domain.operating import Operator
from console.domain.plan import Plan
from console.domain.preflight import Check, refused
from console.domain.run_record import Process
from console.ui.screens.confirm import ConfirmScreen
from console.ui.screens.proposal import ProposalScreen
from console.ui.widgets.check_list import check_paragraphs, check_title
from console.ui.widgets.choices import Choice
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph, ParagraphView
from console.ui.widgets.plan_heading import foreign_paragraphs, plan_heading
from console.ui.widgets.plan_result import result_paragraphs
from console.ui.widgets.plan_steps import carried_out, is_step, planned, steps_title
from console.ui.widgets.progress import Progress

LOOKING = "the preflight is still looking"


class PlanScreen(ProposalScreen[Progress]):
    """Shows a plan beside its preflight, then its steps beside what came of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "page(1)", "scroll", key_display="pgup/pgdn"),
        Binding("home", "page(-1000)", show=False),
        Binding("end", "page(1000)", show=False),
    ]

    ON_ABORT = "What this plan has launched is stopped; what it has stopped stays stopped."

    class Begun(Message):
        """The plan is to be carried out, and these processes of others may be ended by it."""

        def __init__(self, plan: Plan, consent: Collection[Process]) -> None:
            super().__init__()
            self.plan, self.consent = plan, consent

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
        refusal: Callable[[], str | None],
        progress: Progress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`refusal` tells why no plan may begin now."""
        super().__init__(host, glyphs, progress=progress, clock=clock)
        self.plan = plan
        self._operator, self._refusal = operator, refusal
        self._interrupted = operator.interrupted() if progress is None else None
        self._followed: int | None = None
        self._checks: tuple[Check, ...] | None = None
        self._check_failure: str | None = None

    def parts(self) -> ComposeResult:
        with Container(id="plan"):
            yield ParagraphView(glyphs=self._glyphs, id="plan-side")
            yield ParagraphView(glyphs=self._glyphs, id="plan-steps")

    @property
    def deed(self) -> str:
        return self.plan.verb.capitalize()

    def heading(self) -> Iterable[Paragraph]:
        return plan_heading(self.plan, self._host, self._interrupted)

    def on_mount(self) -> None:
        if self._progress is None:
            self.run_worker(self._check(), group="check", exclusive=True)

    async def _check(self) -> None:
        try:
            self._checks = await self._operator.check(self.plan)
        except ConsoleError as error:
            self._check_failure = str(error)
        self.refresh_state()

    def show_end(self) -> None:
        self.query_one("#plan-side").scroll_home(animate=False)

    def show_parts(self) -> None:
        now = self._clock()
        side, steps = (self.query_one(name, ParagraphView) for name in ("#plan-side", "#plan-steps"))
        self._show_side(side)
        steps.border_title = steps_title(self.plan, self._progress, now)
        if self._progress is None:
            steps.show(planned(self.plan))
        else:
            steps.show(carried_out(self._progress, now, self._glyphs))
            self._follow(steps, self._progress)

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

    def why_not(self) -> str | None:
        if (reason := self._refusal()) is not None:
            return reason
        if self._check_failure is not None:
            return f"the preflight could not be made: {self._check_failure}"
        if self._checks is None:
            return LOOKING
        subjects = ", ".join(check.subject for check in refused(self._checks))
        return f"the preflight refuses {subjects}" if subjects else None

    @property
    def _rollback(self) -> str | None:
        """The profile to which a plan that has ended can be taken back."""
        ended = self._progress.result if self._progress else None
        return ended.rollback if ended else None

    def answers(self) -> tuple[Choice, ...]:
        if not self.begun:
            return (Choice(self.deed, self.why_not() is None),)
        return (Choice(f"Roll back to {self._rollback}"),) if self._rollback else ()

    def answer(self, index: int) -> None:
        if not self.begun:
            self._confirm_foreign()
        elif self._rollback is not None:
            self.post_message(self.RollbackWanted(self._rollback))

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
            f"{self.deed} on a protected host",
            said,
            yes=self.deed,
            typed=self._host.name,
            glyphs=self._glyphs,
        )
        self.app.push_screen(question, lambda agreed: self._begin() if agreed else None)

    def _begin(self) -> None:
        consent = [target.server for target in self.plan.foreign if target.server is not None]
        self.post_message(self.Begun(self.plan, consent))

    @property
    def scrolled(self) -> Widget:
        return self.query_one("#plan-steps")
