"""The console as an app: it starts the watch, passes its values to the screen, and knows the keys."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.theme import Theme
from textual.worker import Worker, WorkerState

from console.domain.errors import ConsoleError
from console.domain.gpu import NO_GPUS, HostSample, Sample
from console.domain.host_view import HostView
from console.domain.loghistory import HostSearch, LogSource
from console.domain.observation import Ended, ServerKey, Servers, Update
from console.domain.run_record import HostRecords
from console.ui.keymap import EVERYWHERE, FINISH, LOG, bindings
from console.ui.messages import Updated
from console.ui.screens.dashboard import Dashboard
from console.ui.screens.help import HelpScreen
from console.ui.widgets.meter import Glyphs

if TYPE_CHECKING:
    from console.domain.bench.benching import Bencher
    from console.domain.operating import Operator
    from console.ui.screens.bench import BenchScreen
    from console.ui.screens.bench_desk import BenchDesk
    from console.ui.screens.plan import PlanScreen
    from console.ui.screens.plan_desk import PlanDesk
    from console.ui.screens.profiles import ProfilesScreen
    from console.ui.widgets.log_pane import LogPane

Updates = Callable[[], AsyncGenerator[Update, None]]

INTERRUPTED = 130
LAST_WAIT_S = 3.0
ONLY_WATCHES = "this console only watches: it was opened without what changes a host"
MEASURES_NOTHING = "this console only watches: it was opened without what measures a host"
DASHBOARD_KEYS = frozenset({"zoom", "pane", "next_window"})
UNHANDLED_UPDATES = 32
"""Updates under way to the screen; more wait in the watch, and so on the host."""


class ConsoleApp(App[BaseException]):
    """Returns the error that ended it, if one did."""

    TITLE = "dsv4-console"
    CSS_PATH = Path("console.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(EVERYWHERE),
        Binding("ctrl+c", "interrupt", "interrupt", show=False, priority=True, id="interrupt"),
    ]

    def __init__(
        self,
        updates: Updates,
        *,
        themes: Sequence[Theme],
        theme: str,
        glyphs: Glyphs,
        keys: Mapping[str, str] | None = None,
        notices: Sequence[str] = (),
        native_colours: bool | None = None,
        source: LogSource | None = None,
        operator: Operator | None = None,
        bencher: Bencher | None = None,
    ) -> None:
        super().__init__(ansi_color=native_colours)
        self._operator = operator
        self._bencher = bencher
        self._bench_desk: BenchDesk | None = None
        self._desk: PlanDesk | None = None
        self._host = HostView(name="")
        self._sample = Sample(seq=0, host=HostSample(hostname="", time=0.0), gpu=NO_GPUS)
        self._servers = Servers(looked=False)
        self._interrupted: str | None = None
        self._source = source
        self._updates = updates
        self._notices = notices
        self._room = asyncio.Semaphore(UNHANDLED_UPDATES)
        self._glyphs = glyphs
        for each in themes:
            self.register_theme(each)
        self._themes = [each.name for each in themes]
        self.theme = theme
        self.set_keymap(dict(keys or {}))

    def get_default_screen(self) -> Dashboard:
        """The dashboard is where everything starts and `q` comes back to."""
        self.dashboard = Dashboard(self._glyphs)
        return self.dashboard

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for asked in (signal.SIGTERM, signal.SIGHUP):
            # The default would leave the terminal in our modes.
            loop.add_signal_handler(asked, self._end_by_signal, asked)
        # After the first paint, because the watch imports asyncssh, httpx and what they need.
        self.call_after_refresh(self._start_watch)

    def _end_by_signal(self, number: signal.Signals) -> None:
        code = 128 + number
        self.exit(return_code=code)
        # Where the terminal is gone for good, as after SIGHUP, the driver may wait for it for ever.
        last_resort = threading.Timer(LAST_WAIT_S, os._exit, [code])
        last_resort.daemon = True
        last_resort.start()

    def action_interrupt(self) -> None:
        """Leave at once."""
        self.exit(return_code=INTERRUPTED)

    def _start_watch(self) -> None:
        # What is there by now stays: a full collection over it would stop the screen for tens of
        # milliseconds.
        gc.freeze()
        for notice in self._notices:
            self.notify(notice, severity="warning", markup=False, timeout=15)
        self.run_worker(self._watch(), name="watch", group="watch", exclusive=True, exit_on_error=False)

    async def _watch(self) -> None:
        await self.dashboard.add_logs()
        async with aclosing(self._updates()) as updates:
            async for update in updates:
                await self._room.acquire()
                self.post_message(Updated(update))

    @on(Updated)
    async def _show(self, message: Updated) -> None:
        self._room.release()
        if isinstance(message.update, Ended):
            self.exit(message.update.error, return_code=message.update.error.exit_code)
            return
        if isinstance(message.update, HostRecords):
            self._tell_interrupted()
        if isinstance(message.update, HostView):
            self._host = message.update
            if self._desk is not None:
                self._desk.show_host(message.update)
        self._pass_to_benchmarks(message.update)
        await self.dashboard.show(message.update)

    def _tell_interrupted(self) -> None:
        """Once: that a plan's console has died, and what can be done."""
        said = self._operator.interrupted() if self._operator is not None else None
        own = self._desk is not None and self._desk.running
        if said is not None and said != self._interrupted and not own:
            self.notify(f"{said}. {FINISH}", severity="warning", timeout=15, markup=False)
        self._interrupted = said

    @property
    def desk(self) -> PlanDesk | None:
        """Where the host is changed; None, which is told, where this console can only watch."""
        if self._desk is None and self._operator is not None:
            from console.ui.screens.plan_desk import PlanDesk

            self._desk = PlanDesk(self, self._operator, self._glyphs)
            self._desk.show_host(self._host)
        if self._desk is None:
            self.notify(ONLY_WATCHES, severity="warning", markup=False)
        return self._desk

    def action_profiles(self) -> None:
        """Choose what is to run."""
        if (desk := self.desk) is not None:
            desk.open_profiles()

    def action_restart(self) -> None:
        """The plan of a restart of all that runs."""
        if (desk := self.desk) is not None:
            desk.restart()

    def action_stop(self) -> None:
        """The plan of an end of all that runs."""
        if (desk := self.desk) is not None:
            desk.stop()

    def action_toggle_readonly(self) -> None:
        """Allow no changes of the host, or allow them again."""
        if (desk := self.desk) is not None:
            desk.toggle_readonly()

    @property
    def bench_desk(self) -> BenchDesk | None:
        """Where the host is measured; None, which is told, where this console cannot."""
        if self._bench_desk is None and self._bencher is not None:
            from console.ui.screens.bench_desk import BenchDesk

            self._bench_desk = BenchDesk(self, self._bencher, self._glyphs, self._targets_of)
            for update in (self._host, self._sample, self._servers):
                self._bench_desk.show(update)
        if self._bench_desk is None:
            self.notify(MEASURES_NOTHING, severity="warning", markup=False)
        return self._bench_desk

    def _pass_to_benchmarks(self, update: Update) -> None:
        """Remembered for the desk, which is made when a key first asks for it."""
        if isinstance(update, Sample):
            self._sample = update
        elif isinstance(update, Servers):
            self._servers = update
        if self._bench_desk is not None:
            self._bench_desk.show(update)

    def _targets_of(self, profile: str) -> Mapping[int, float]:
        """Output tokens per second that a profile's file asks for, by concurrency."""
        entries = () if self._operator is None else self._operator.profiles()
        found = [entry.profile for entry in entries if entry.name == profile and entry.profile is not None]
        return found[0].bench.targets if found else {}

    def action_bench(self, concurrency: int) -> None:
        """The plan of a benchmark with so many requests at a time."""
        if (desk := self.bench_desk) is not None:
            desk.measure(concurrency)

    def action_bench_history(self) -> None:
        """What was measured, to be compared."""
        if (desk := self.bench_desk) is not None:
            desk.open_history()

    # Handlers by name, because these screens and the log panes are imported after the first paint.

    def on_profiles_screen_chosen(self, message: ProfilesScreen.Chosen) -> None:
        if (desk := self.desk) is not None:
            desk.switch(message.profile)

    def on_plan_screen_begun(self, message: PlanScreen.Begun) -> None:
        if (desk := self.desk) is not None:
            desk.begin(message.plan, message.consent)

    def on_plan_screen_left(self) -> None:
        if (desk := self.desk) is not None:
            desk.leave()

    def on_plan_screen_abort_wanted(self) -> None:
        if (desk := self.desk) is not None:
            desk.abort()

    def on_plan_screen_rollback_wanted(self, message: PlanScreen.RollbackWanted) -> None:
        if (desk := self.desk) is not None:
            desk.roll_back(message.profile)

    def on_bench_screen_begun(self, message: BenchScreen.Begun) -> None:
        if (desk := self.bench_desk) is not None:
            desk.begin(message.plan)

    def on_bench_screen_left(self) -> None:
        if (desk := self.bench_desk) is not None:
            desk.leave()

    def on_bench_screen_abort_wanted(self) -> None:
        if (desk := self.bench_desk) is not None:
            desk.abort()

    def on_log_pane_older_wanted(self, message: LogPane.OlderWanted) -> None:
        server = self.dashboard.server_of(message.pane)
        if self._source is not None and server is not None:
            self.run_worker(self._show_older(self._source, server, message), group="older")

    async def _show_older(self, source: LogSource, server: ServerKey, message: LogPane.OlderWanted) -> None:
        try:
            message.pane.show_older(await source.older(server, message.number))
        except ConsoleError as error:
            message.pane.older_failed(str(error))

    def on_log_pane_host_search_wanted(self, message: LogPane.HostSearchWanted) -> None:
        server = self.dashboard.server_of(message.pane)
        if self._source is not None and server is not None:
            from console.ui.screens.found import FoundScreen

            search = HostSearch(pattern=message.pattern)
            self.push_screen(FoundScreen(message.pane.label, search, self._source, server, self._glyphs))

    def on_log_pane_whole_line_wanted(self, message: LogPane.WholeLineWanted) -> None:
        server = self.dashboard.server_of(message.pane)
        if self._source is not None and server is not None:
            self.run_worker(self._save_line(self._source, server, message), group="whole line")

    async def _save_line(
        self, source: LogSource, server: ServerKey, message: LogPane.WholeLineWanted
    ) -> None:
        from console.ui.widgets.log_export import save_pieces, short_path, suggested_path

        path = suggested_path(f"{message.pane.label} line {message.number}", datetime.now())
        try:
            size = await save_pieces(path, source.cut_line(server, message.number))
        except (ConsoleError, OSError) as error:
            self.notify(str(error), severity="warning", markup=False)
        else:
            self.notify(f"saved {size / 1e6:.1f} MB to {short_path(path)}", timeout=6, markup=False)

    @on(Worker.StateChanged)
    def _watch_ended(self, event: Worker.StateChanged) -> None:
        """An error that no door translated is ours: leave, and let the command line show it."""
        error = event.worker.error
        if event.worker.group != "watch" or event.state != WorkerState.ERROR or error is None:
            return
        self.exit(error, return_code=error.exit_code if isinstance(error, ConsoleError) else 1)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key is in the palette too."""
        for key in EVERYWHERE:
            if not key.id.startswith("pane-"):
                yield SystemCommand(key.label.capitalize(), key.explained, self._runner(key.action, self))
        if (log := self.dashboard.front_log) is not None:
            for key in LOG:
                yield SystemCommand(f"Log: {key.label}", key.explained, self._runner(key.action, log))

    def _runner(self, action: str, target: DOMNode) -> Callable[[], object]:
        return lambda: self.run_worker(self.run_action(action, target), group="palette")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """On other screens the keys of the dashboard's panes mean nothing."""
        return action not in DASHBOARD_KEYS or len(self.screen_stack) == 1

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(HelpScreen())

    def action_back_or_quit(self) -> None:
        """One step back; from the dashboard, out."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        elif self.screen.maximized is not None:
            self.screen.minimize()
        elif self._desk is not None and self._desk.running:
            self._desk.ask_to_leave(self.exit)
        elif self._bench_desk is not None and self._bench_desk.running:
            self._bench_desk.ask_to_leave(self.exit)
        else:
            self.exit()

    def action_next_theme(self) -> None:
        """The theme after the current one."""
        index = self._themes.index(self.theme) + 1 if self.theme in self._themes else 0
        self.theme = self._themes[index % len(self._themes)]
        self.notify(f"theme {self.theme}", timeout=2, markup=False)

    def action_zoom(self) -> None:
        """The focused pane alone on the screen, and back."""
        self.dashboard.zoom()

    def action_pane(self, number: int) -> None:
        """Focus a pane by its number."""
        self.dashboard.focus_pane(number)

    def action_next_window(self) -> None:
        """Another stretch of time on the chart."""
        self.dashboard.next_window()
