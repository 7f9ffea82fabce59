"""The console as an app: it starts the watch, passes its values to the screen, and knows the keys."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
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
from console.domain.loghistory import LogSource
from console.domain.observation import Ended, Update
from console.ui.keymap import EVERYWHERE, LOG, Keymap, bindings
from console.ui.messages import Updated
from console.ui.screens.dashboard import Dashboard
from console.ui.screens.desks import Desks
from console.ui.screens.help import HelpScreen
from console.ui.screens.log_desk import LogDesk
from console.ui.widgets.meter import Glyphs

if TYPE_CHECKING:
    from console.domain.bench.benching import Bencher
    from console.domain.operating import Operator
    from console.ui.screens.bench import BenchScreen
    from console.ui.screens.journal import ReadJournal
    from console.ui.screens.plan import PlanScreen
    from console.ui.screens.profiles import ProfilesScreen
    from console.ui.widgets.log_pane import LogPane

Updates = Callable[[], AsyncGenerator[Update, None]]

INTERRUPTED = 130
LAST_WAIT_S = 3.0
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
        journal: ReadJournal | None = None,
    ) -> None:
        super().__init__(ansi_color=native_colours)
        self._keys = Keymap(keys)
        self._desks = Desks(self, glyphs, self._keys, operator=operator, bencher=bencher, journal=journal)
        self._logs = None if source is None else LogDesk(self, source, glyphs)
        self._updates = updates
        self._notices = notices
        self._room = asyncio.Semaphore(UNHANDLED_UPDATES)
        self._glyphs = glyphs
        for each in themes:
            self.register_theme(each)
        self._themes = [each.name for each in themes]
        self.theme = theme
        self.set_keymap(self._keys.chosen)

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
        self._desks.show(message.update)
        await self.dashboard.show(message.update)

    def action_profiles(self) -> None:
        """Choose what is to run."""
        if (desk := self._desks.plans) is not None:
            desk.open_profiles()

    def action_restart(self) -> None:
        """The plan of a restart of all that runs."""
        if (desk := self._desks.plans) is not None:
            desk.restart()

    def action_stop(self) -> None:
        """The plan of an end of all that runs."""
        if (desk := self._desks.plans) is not None:
            desk.stop()

    def action_toggle_readonly(self) -> None:
        """Allow no changes of the host, or allow them again."""
        if (desk := self._desks.plans) is not None:
            desk.toggle_readonly()

    def action_bench(self, concurrency: int) -> None:
        """The plan of a benchmark with so many requests at a time."""
        if (desk := self._desks.benchmarks) is not None:
            desk.measure(concurrency)

    def action_bench_history(self) -> None:
        """What was measured, to be compared."""
        if (desk := self._desks.benchmarks) is not None:
            desk.open_history()

    def action_journal(self) -> None:
        """What was done to the host."""
        self._desks.open_journal()

    # Handlers by name, because these screens and the log panes are imported after the first paint.

    def on_profiles_screen_chosen(self, message: ProfilesScreen.Chosen) -> None:
        if (desk := self._desks.plans) is not None:
            desk.switch(message.profile)

    def on_plan_screen_begun(self, message: PlanScreen.Begun) -> None:
        if (desk := self._desks.plans) is not None:
            desk.begin(message.plan, message.consent)

    def on_plan_screen_rollback_wanted(self, message: PlanScreen.RollbackWanted) -> None:
        if (desk := self._desks.plans) is not None:
            desk.roll_back(message.profile)

    def on_bench_screen_begun(self, message: BenchScreen.Begun) -> None:
        if (desk := self._desks.benchmarks) is not None:
            desk.begin(message.plan, message.wanted)

    def on_proposal_screen_left(self) -> None:
        self._desks.leave()

    def on_proposal_screen_abort_wanted(self) -> None:
        self._desks.abort()

    def on_log_pane_older_wanted(self, message: LogPane.OlderWanted) -> None:
        if self._logs is not None and (server := self.dashboard.server_of(message.pane)) is not None:
            self._logs.show_older(message.pane, server, message.number)

    def on_log_pane_host_search_wanted(self, message: LogPane.HostSearchWanted) -> None:
        if self._logs is not None and (server := self.dashboard.server_of(message.pane)) is not None:
            self._logs.search(message.pane, server, message.pattern)

    def on_log_pane_whole_line_wanted(self, message: LogPane.WholeLineWanted) -> None:
        if self._logs is not None and (server := self.dashboard.server_of(message.pane)) is not None:
            self._logs.save_line(message.pane, server, message.number)

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
        self.push_screen(HelpScreen(self._keys))

    def action_back_or_quit(self) -> None:
        """One step back; from the dashboard, out."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        elif self.screen.maximized is not None:
            self.screen.minimize()
        else:
            self._desks.ask_to_leave(self.exit)

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
