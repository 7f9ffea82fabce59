"""Where benchmarks are asked for, begun and followed. One under way belongs to the console, to no screen."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing

from textual.app import App

from console.domain.bench.benching import BenchAsk, Bencher, BenchPlan, BenchRun
from console.domain.errors import ConsoleError
from console.domain.ownership import gpu_owners
from console.ui.keymap import Keymap
from console.ui.screens.bench import BenchScreen
from console.ui.screens.bench_history import BenchHistoryScreen
from console.ui.screens.bench_standing import BenchStanding
from console.ui.screens.confirm import ConfirmScreen
from console.ui.screens.last_seen import LastSeen
from console.ui.widgets.bench_gpus import gpu_paragraphs
from console.ui.widgets.bench_heading import bench_title
from console.ui.widgets.bench_line import BenchLine
from console.ui.widgets.bench_progress import BenchProgress
from console.ui.widgets.meter import Glyphs, rate
from console.ui.widgets.paragraphs import Paragraph


class Measuring:
    """A measurement that was begun: what makes it, and how far it is."""

    def __init__(self, plan: BenchPlan, wanted: BenchAsk, run: BenchRun, now: float) -> None:
        self.run, self.wanted = run, wanted
        self.progress = BenchProgress(plan, now)
        self.seen = False
        """Whether its end was on a screen."""


class BenchDesk:
    """Opens the screens of benchmarks on an app, and makes one measurement at a time."""

    def __init__(
        self,
        app: App[BaseException],
        bencher: Bencher,
        standing: BenchStanding,
        seen: LastSeen,
        keymap: Keymap,
        glyphs: Glyphs,
        *,
        busy: Callable[[], str | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`busy` tells what else goes on in this console, during which nothing may be measured."""
        self.under_way: Measuring | None = None
        """What goes on, or the last one whose end nobody has looked at."""
        self._app, self._bencher, self._standing = app, bencher, standing
        self._seen, self._keymap, self._glyphs = seen, keymap, glyphs
        self._busy, self._clock = busy, clock

    @property
    def running(self) -> bool:
        """Whether something is being measured."""
        return self.under_way is not None and self.under_way.progress.running

    @property
    def goes_on(self) -> str | None:
        """What is being measured, in a sentence; None: nothing is."""
        if self.under_way is None or not self.running:
            return None
        return f"{bench_title(self.under_way.progress.plan)} goes on ({self._keymap.shows_benchmark})"

    def refusal(self) -> str | None:
        """Why nothing can be measured now; None: it can."""
        return self.goes_on or self._busy() or self._bencher.refusal()

    def measure(self, concurrency: int) -> None:
        """The plan at this concurrency, or what is under way."""
        if self._return():
            return
        wanted = BenchAsk(concurrency=(concurrency,))
        self._app.run_worker(self._show_plan(wanted), group="bench plan", exclusive=True)

    async def _show_plan(self, wanted: BenchAsk) -> None:
        try:
            plan = await self._bencher.plan(wanted)
        except ConsoleError as error:
            self._tell(str(error))
            return
        self._close_own()
        self._app.push_screen(self._screen(plan, wanted))

    def _screen(
        self, plan: BenchPlan, wanted: BenchAsk, progress: BenchProgress | None = None
    ) -> BenchScreen:
        return BenchScreen(
            plan,
            wanted,
            self._bencher,
            self._seen.host,
            self._glyphs,
            refusal=self.refusal,
            references=self._standing.of,
            gpus=self._gpus,
            progress=progress,
            clock=self._clock,
        )

    def open_history(self) -> None:
        """All results."""
        if isinstance(self._app.screen, BenchHistoryScreen):
            return
        self._close_own()
        self._app.push_screen(BenchHistoryScreen(self._bencher, self._seen.host, self._glyphs))
        self.show_line()

    def begin(self, plan: BenchPlan, wanted: BenchAsk) -> None:
        """Measure it, on the screen that shows it; `wanted` is what it was planned by."""
        if (why := self.goes_on or self._busy()) is not None:
            self._tell(why)
            return
        try:
            run = self._bencher.run(plan)
        except ConsoleError as error:
            self._tell(str(error))
            return
        self.under_way = Measuring(plan, wanted, run, self._clock())
        self._moved(self.under_way)
        self._app.run_worker(self._measure(self.under_way), group="benchmark")

    async def _measure(self, measuring: Measuring) -> None:
        error = None
        try:
            async with aclosing(measuring.run.events()) as events:
                async for event in events:
                    measuring.progress = measuring.progress.after(event)
                    self._moved(measuring)
        except ConsoleError as raised:
            error = str(raised)
        measuring.progress = measuring.progress._replace(error=error, ended=self._clock())
        self._moved(measuring)
        if not measuring.seen:
            self._tell_end(measuring.progress)

    def _tell_end(self, progress: BenchProgress) -> None:
        stopped = progress.error or (None if progress.stopped is None else progress.stopped.reason)
        figures = ", ".join(
            f"{rate(each.figures.output_throughput)} tok/s at C={each.context.max_concurrency}"
            for each in progress.results
        )
        said = "; ".join(filter(None, (stopped, figures))) or "nothing was measured"
        self._app.notify(
            f"{said} ({self._keymap.shows_benchmark})",
            title=bench_title(progress.plan),
            severity="warning" if stopped or not figures else "information",
            markup=False,
        )

    def abort(self) -> None:
        """Cut what is under way."""
        if (measuring := self.under_way) is not None and measuring.progress.running:
            measuring.progress = measuring.progress._replace(aborting=measuring.run.abort())
            self._moved(measuring)

    def leave(self) -> None:
        """Close the screen; what goes on is then told on the dashboard."""
        screen = self._bench_screen
        if screen is None or screen is not self._app.screen:
            return
        self._app.pop_screen()
        if screen.begun and self.under_way is not None and not self.under_way.progress.running:
            self.under_way = None
        self.show_line()

    def ask_to_leave(self, leave: Callable[[], None]) -> None:
        """Before the console ends while something is measured."""
        said = "The benchmark ends with the console: what was measured is kept, marked partial."
        question = ConfirmScreen(
            "Leave during a benchmark?", [Paragraph(said)], yes="Leave", no="Stay", glyphs=self._glyphs
        )
        self._app.push_screen(question, lambda agreed: leave() if agreed else None)

    def _gpus(self) -> list[Paragraph]:
        report = self._seen.report
        processes = [view.process for view in self._seen.servers.views if view.state != "gone"]
        return gpu_paragraphs(report, gpu_owners(report, processes), self._glyphs)

    def _return(self) -> bool:
        """Show what is under way, or the end of one that nobody saw; False when there is none."""
        if self.under_way is not None and not self.running and self.under_way.seen:
            self.under_way = None
        if (measuring := self.under_way) is None:
            return False
        if self._bench_screen is None:
            self._close_own()
            plan, progress = measuring.progress.plan, measuring.progress
            self._app.push_screen(self._screen(plan, measuring.wanted, progress))
            measuring.seen = not progress.running
            self.show_line()
        return True

    def _close_own(self) -> None:
        while isinstance(self._app.screen, BenchScreen | BenchHistoryScreen):
            self._app.pop_screen()

    @property
    def _bench_screen(self) -> BenchScreen | None:
        stack = reversed(self._app.screen_stack)
        return next((each for each in stack if isinstance(each, BenchScreen)), None)

    def _moved(self, measuring: Measuring) -> None:
        if (screen := self._bench_screen) is not None:
            screen.show_progress(measuring.progress)
            measuring.seen = not measuring.progress.running
        self.show_line()

    def show_line(self) -> None:
        """The line on the dashboard, while something is measured whose screen was left."""
        home = self._app.screen_stack[0]
        lines = home.query(BenchLine)
        if not self.running or self._bench_screen is not None:
            lines.remove()
        elif not lines:
            line = BenchLine(self._look, self._keymap.shows_benchmark, glyphs=self._glyphs)
            home.mount(line, after="#status")

    def _look(self) -> tuple[BenchProgress, float]:
        assert self.under_way is not None
        return self.under_way.progress, self._clock()

    def _tell(self, said: str) -> None:
        self._app.notify(said, severity="warning", markup=False)
