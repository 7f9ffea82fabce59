"""Where plans are asked for, begun and followed."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial

import msgspec
from textual.app import App

from console.domain.errors import ConsoleError
from console.domain.operating import Operator
from console.domain.plan import Plan
from console.domain.plan_progress import PlanEvent
from console.domain.run_record import Process
from console.ui.keymap import Keymap
from console.ui.screens.desk import Desk, UnderWay
from console.ui.screens.last_seen import LastSeen
from console.ui.screens.plan import PlanScreen
from console.ui.screens.profiles import ProfilesScreen
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.plan_line import PlanLine
from console.ui.widgets.progress import Progress, begun


class PlanDesk(Desk[PlanEvent, Progress]):
    """Opens the screens of deployments, and carries out one plan at a time."""

    SCREEN = PlanScreen
    OWN = (PlanScreen, ProfilesScreen)
    LINE = PlanLine
    NO_END = "it ended without a result"

    def __init__(
        self,
        app: App[BaseException],
        operator: Operator,
        seen: LastSeen,
        keymap: Keymap,
        glyphs: Glyphs,
        *,
        busy: Callable[[], str | None],
    ) -> None:
        """`busy` tells what else goes on in this console, during which no plan may begin."""
        super().__init__(app, seen, glyphs, back=keymap.shows_plan, refusal=operator.refusal, busy=busy)
        self._operator, self._keymap = operator, keymap

    def open_profiles(self) -> None:
        """The picker, or the plan under way."""
        if self._return() or isinstance(self._app.screen, ProfilesScreen):
            return
        self._close_own()
        self._app.push_screen(
            ProfilesScreen(self._operator, self._seen.host, self._glyphs, finish=self._keymap.finish)
        )

    def restart(self) -> None:
        """The plan of a restart, or the plan under way."""
        if not self._return():
            self._propose(self._operator.restart_plan)

    def stop(self) -> None:
        """The plan of a stop, or the plan under way."""
        if not self._return():
            self._propose(self._operator.stop_plan)

    def switch(self, profile: str) -> None:
        """The plan of a switch, or the plan under way."""
        if not self._return():
            self._propose(lambda: self._operator.switch_plan(profile))

    def roll_back(self, profile: str) -> None:
        """The plan back to a profile, to be confirmed as any other."""
        self.under_way = None
        self.switch(profile)

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
        """In the place of another plan; the picker stays below it."""
        try:
            plan = await make()
        except ConsoleError as error:
            self._tell(str(error))
            return
        # Another may have begun on its screen meanwhile: that is what is shown.
        if self._return():
            return
        if isinstance(self._app.screen, PlanScreen):
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
        )

    def begin(self, plan: Plan, consent: Collection[Process]) -> None:
        """Carry it out, on the screen that shows it."""
        self._start(lambda: self._begun(plan, consent))

    def _begun(self, plan: Plan, consent: Collection[Process]) -> UnderWay[PlanEvent, Progress]:
        execution = self._operator.execute(plan, consent)
        progress = begun(plan, time.monotonic())
        screen = partial(self._screen, plan)
        return UnderWay(plan.title, execution.events(), execution.abort, progress, screen)

    def after(self, progress: Progress, event: PlanEvent) -> Progress:
        return progress.after(event, time.monotonic())

    def outcome(self, progress: Progress) -> tuple[str, bool]:
        if (result := progress.result) is None:
            return progress.error or "", False
        return result.sentence, result.state == "done"

    def line(self, under_way: UnderWay[PlanEvent, Progress]) -> PlanLine:
        return PlanLine(
            lambda: (under_way.title, under_way.progress, time.monotonic()), self._back, glyphs=self._glyphs
        )

    def ask_to_leave(self, leave: Callable[[], None]) -> None:
        """Before the console ends while a plan goes on."""
        assert self.under_way is not None
        said = "The plan ends where it stands, and the host is left so; a console can take it up again."
        self._ask_to_leave(f"Leave during {self.under_way.title}?", said, leave)
