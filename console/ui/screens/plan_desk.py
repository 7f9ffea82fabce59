"""Where plans are asked for, begun and followed. A plan under way belongs to the console, not to a screen."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing

import msgspec
from textual.app import App

from console.domain.errors import ConsoleError
from console.domain.operating import Execution, Operator
from console.domain.plan import Plan
from console.domain.run_record import Process
from console.ui.keymap import Keymap
from console.ui.screens.confirm import ConfirmScreen
from console.ui.screens.last_seen import LastSeen
from console.ui.screens.plan import PlanScreen
from console.ui.screens.profiles import ProfilesScreen
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph
from console.ui.widgets.plan_line import PlanLine
from console.ui.widgets.progress import Progress, begun


class UnderWay:
    """A plan that was begun: what carries it out, and how far it is."""

    def __init__(self, plan: Plan, execution: Execution, now: float) -> None:
        self.plan, self.execution = plan, execution
        self.progress: Progress = begun(plan, now)
        self.seen = False
        """Whether its end was on a screen."""


class PlanDesk:
    """Opens the screens of deployments on an app, and carries out one plan at a time."""

    def __init__(
        self,
        app: App[BaseException],
        operator: Operator,
        seen: LastSeen,
        keymap: Keymap,
        glyphs: Glyphs,
        *,
        busy: Callable[[], str | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`busy` tells what else goes on in this console, during which no plan may begin."""
        self.under_way: UnderWay | None = None
        """The plan that goes on, or the last one whose end nobody has looked at."""
        self._app, self._operator, self._seen, self._keymap = app, operator, seen, keymap
        self._glyphs, self._busy, self._clock = glyphs, busy, clock

    @property
    def running(self) -> bool:
        """Whether a plan is being carried out."""
        return self.under_way is not None and self.under_way.progress.running

    @property
    def goes_on(self) -> str | None:
        """What is being carried out, in a sentence; None: nothing is."""
        if self.under_way is None or not self.running:
            return None
        return f"{self.under_way.plan.title} goes on ({self._keymap.shows_plan})"

    def refusal(self) -> str | None:
        """Why no plan may begin now; None: one may."""
        return self.goes_on or self._busy() or self._operator.refusal()

    def open_profiles(self) -> None:
        """The picker, or the plan under way."""
        if self._return_to_plan() or isinstance(self._app.screen, ProfilesScreen):
            return
        self._close_own()
        self._app.push_screen(
            ProfilesScreen(self._operator, self._seen.host, self._glyphs, finish=self._keymap.finish)
        )

    def restart(self) -> None:
        """The plan of a restart, or the plan under way."""
        if not self._return_to_plan():
            self._propose(self._operator.restart_plan)

    def stop(self) -> None:
        """The plan of a stop, or the plan under way."""
        if not self._return_to_plan():
            self._propose(self._operator.stop_plan)

    def switch(self, profile: str) -> None:
        """The plan of a switch, or the plan under way."""
        if not self._return_to_plan():
            self._propose(lambda: self._operator.switch_plan(profile))

    def toggle_readonly(self) -> None:
        """The user's own switch."""
        on = not self._seen.host.readonly
        try:
            self._operator.set_readonly(on)
        except ConsoleError as error:
            self._tell(str(error))
            return
        self._seen.show(msgspec.structs.replace(self._seen.host, readonly=on))
        self._app.notify(
            "read-only: nothing is changed" if on else "changes are possible again", markup=False
        )

    def _propose(self, make: Callable[[], Awaitable[Plan]]) -> None:
        self._app.run_worker(self._show_plan(make), group="plan", exclusive=True)

    async def _show_plan(self, make: Callable[[], Awaitable[Plan]]) -> None:
        try:
            plan = await make()
        except ConsoleError as error:
            self._tell(str(error))
            return
        if (screen := self._plan_screen) is not None and screen is self._app.screen:
            self._app.pop_screen()
        self._app.push_screen(self._screen(plan))

    def _screen(self, plan: Plan, progress: Progress | None = None) -> PlanScreen:
        return PlanScreen(
            plan,
            self._operator,
            self._seen.host,
            self._glyphs,
            refusal=self.refusal,
            progress=progress,
            clock=self._clock,
        )

    def begin(self, plan: Plan, consent: Collection[Process]) -> None:
        """Carry it out, on the screen that shows it."""
        if (why := self.goes_on or self._busy()) is not None:
            self._tell(why)
            return
        try:
            execution = self._operator.execute(plan, consent)
        except ConsoleError as error:
            self._tell(str(error))
            return
        self.under_way = UnderWay(plan, execution, self._clock())
        self._moved(self.under_way)
        self._app.run_worker(self._carry_out(self.under_way), group="execution")

    async def _carry_out(self, under_way: UnderWay) -> None:
        try:
            async with aclosing(under_way.execution.events()) as events:
                async for event in events:
                    under_way.progress = under_way.progress.after(event, self._clock())
                    self._moved(under_way)
        except ConsoleError as error:
            self._lost(under_way, str(error))
        self._lost(under_way, "it ended without a result")
        if not under_way.seen:
            self._tell_end(under_way)

    def _lost(self, under_way: UnderWay, why: str) -> None:
        """Nobody knows how it ended, unless it had told."""
        if under_way.progress.running:
            under_way.progress = under_way.progress._replace(error=why, ended=self._clock())
            self._moved(under_way)

    def _tell_end(self, under_way: UnderWay) -> None:
        result = under_way.progress.result
        said = under_way.progress.error if result is None else result.sentence
        self._app.notify(
            f"{said} ({self._keymap.shows_plan})",
            title=under_way.plan.title,
            severity="information" if result is not None and result.state == "done" else "warning",
            markup=False,
        )

    def abort(self) -> None:
        """End the plan under way where the host is consistent."""
        if (under_way := self.under_way) is not None and under_way.progress.running:
            under_way.progress = under_way.progress._replace(aborting=under_way.execution.abort())
            self._moved(under_way)

    def leave(self) -> None:
        """Close the plan's screen, and with one that was begun the picker below it."""
        screen = self._plan_screen
        if screen is None or screen is not self._app.screen:
            return
        if not screen.begun:
            self._app.pop_screen()
            return
        self._close_own()
        if self.under_way is not None and not self.under_way.progress.running:
            self.under_way = None
        self.show_line()

    def roll_back(self, profile: str) -> None:
        """The plan back to a profile, to be confirmed as any other."""
        self.under_way = None
        self.switch(profile)

    def ask_to_leave(self, leave: Callable[[], None]) -> None:
        """Before the console ends while a plan goes on."""
        assert self.under_way is not None
        said = "The plan ends where it stands, and the host is left so; a console can take it up again."
        question = ConfirmScreen(
            f"Leave during {self.under_way.plan.title}?",
            [Paragraph(said)],
            yes="Leave",
            no="Stay",
            glyphs=self._glyphs,
        )
        self._app.push_screen(question, lambda agreed: leave() if agreed else None)

    def _return_to_plan(self) -> bool:
        """Show the plan under way, or the end of one that nobody saw; False when there is none."""
        if self.under_way is not None and not self.running and self.under_way.seen:
            self.under_way = None
        if (under_way := self.under_way) is None:
            return False
        if self._plan_screen is None:
            self._close_own()
            self._app.push_screen(self._screen(under_way.plan, under_way.progress))
            under_way.seen = not under_way.progress.running
            self.show_line()
        return True

    def _close_own(self) -> None:
        while isinstance(self._app.screen, PlanScreen | ProfilesScreen):
            self._app.pop_screen()

    @property
    def _plan_screen(self) -> PlanScreen | None:
        return next((each for each in reversed(self._app.screen_stack) if isinstance(each, PlanScreen)), None)

    def _moved(self, under_way: UnderWay) -> None:
        if (screen := self._plan_screen) is not None:
            screen.show_progress(under_way.progress)
            under_way.seen = not under_way.progress.running
        self.show_line()

    def show_line(self) -> None:
        """The line on the dashboard, while a plan goes on whose screen was left."""
        home = self._app.screen_stack[0]
        lines = home.query(PlanLine)
        if not self.running or self._plan_screen is not None:
            lines.remove()
        elif not lines:
            line = PlanLine(self._look, self._keymap.shows_plan, glyphs=self._glyphs)
            home.mount(line, after="#status")

    def _look(self) -> tuple[str, Progress, float]:
        assert self.under_way is not None
        return self.under_way.plan.title, self.under_way.progress, self._clock()

    def _tell(self, said: str) -> None:
        self._app.notify(said, severity="warning", markup=False)
