"""Where benchmarks are asked for, begun and followed."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from textual.app import App

from console.domain.bench.benching import BenchAsk, Bencher, BenchEvent, BenchPlan
from console.domain.errors import ConsoleError
from console.domain.ownership import gpu_owners
from console.ui.keymap import Keymap
from console.ui.screens.bench import BenchScreen
from console.ui.screens.bench_history import BenchHistoryScreen
from console.ui.screens.bench_standing import BenchStanding
from console.ui.screens.desk import Desk, UnderWay
from console.ui.screens.last_seen import LastSeen
from console.ui.widgets.bench_gpus import gpu_paragraphs
from console.ui.widgets.bench_heading import bench_title
from console.ui.widgets.bench_line import BenchLine
from console.ui.widgets.bench_progress import BenchProgress
from console.ui.widgets.meter import Glyphs, rate
from console.ui.widgets.paragraphs import Paragraph


class BenchDesk(Desk[BenchEvent, BenchProgress]):
    """Opens the screens of benchmarks, and makes one measurement at a time."""

    SCREEN = BenchScreen
    OWN = (BenchScreen, BenchHistoryScreen)
    LINE = BenchLine

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
    ) -> None:
        """`busy` tells what else goes on in this console, during which nothing may be measured."""
        super().__init__(app, seen, glyphs, back=keymap.shows_benchmark, refusal=bencher.refusal, busy=busy)
        self._bencher, self._standing = bencher, standing

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
        # Another may have begun on its screen meanwhile: that is what is shown.
        if self._return():
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
        )

    def _gpus(self) -> list[Paragraph]:
        report = self._seen.report
        processes = [view.process for view in self._seen.servers.views if view.state != "gone"]
        return gpu_paragraphs(report, gpu_owners(report, processes), self._glyphs)

    def open_history(self) -> None:
        """All results."""
        if isinstance(self._app.screen, BenchHistoryScreen):
            return
        self._close_own()
        self._app.push_screen(BenchHistoryScreen(self._bencher, self._seen.host, self._glyphs))
        self._show_line()

    def begin(self, plan: BenchPlan, wanted: BenchAsk) -> None:
        """Measure it, on the screen that shows it; `wanted` is what it was planned by."""
        self._start(lambda: self._begun(plan, wanted))

    def _begun(self, plan: BenchPlan, wanted: BenchAsk) -> UnderWay[BenchEvent, BenchProgress]:
        run = self._bencher.run(plan)
        progress = BenchProgress(plan, time.monotonic())
        screen = partial(self._screen, plan, wanted)
        return UnderWay(bench_title(plan), run.events(), run.abort, progress, screen)

    def after(self, progress: BenchProgress, event: BenchEvent) -> BenchProgress:
        return progress.after(event)

    def outcome(self, progress: BenchProgress) -> tuple[str, bool]:
        stopped = progress.error or (None if progress.stopped is None else progress.stopped.reason)
        figures = ", ".join(
            f"{rate(each.figures.output_throughput)} tok/s at C={each.context.max_concurrency}"
            for each in progress.results
        )
        said = "; ".join(filter(None, (stopped, figures))) or "nothing was measured"
        return said, not stopped and bool(figures)

    def line(self, under_way: UnderWay[BenchEvent, BenchProgress]) -> BenchLine:
        return BenchLine(lambda: (under_way.progress, time.monotonic()), self._back, glyphs=self._glyphs)

    def ask_to_leave(self, leave: Callable[[], None]) -> None:
        """Before the console ends while something is measured."""
        said = "The benchmark ends with the console: what was measured is kept, marked partial."
        self._ask_to_leave("Leave during a benchmark?", said, leave)
