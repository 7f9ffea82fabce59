"""The two desks of a console, where its host is changed and where it is measured.

They are made when a key first asks for them: their screens are no part of a first paint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual.app import App

from console.domain.observation import Update
from console.domain.run_record import HostRecords
from console.ui.keymap import Keymap
from console.ui.screens.last_seen import LastSeen
from console.ui.widgets.meter import Glyphs

if TYPE_CHECKING:
    from console.domain.bench.benching import Bencher
    from console.domain.operating import Operator
    from console.ui.screens.bench_desk import BenchDesk
    from console.ui.screens.journal import ReadJournal
    from console.ui.screens.plan_desk import PlanDesk

ONLY_WATCHES = "this console only watches: it was opened without what changes a host"
MEASURES_NOTHING = "this console only watches: it was opened without what measures a host"
KEEPS_NO_JOURNAL = "this console was opened without a journal"


class Desks:
    """Of the two, one at most has something under way: what is changed cannot be measured."""

    def __init__(
        self,
        app: App[BaseException],
        glyphs: Glyphs,
        keymap: Keymap,
        *,
        operator: Operator | None,
        bencher: Bencher | None,
        journal: ReadJournal | None,
    ) -> None:
        self._app, self._glyphs, self._keymap = app, glyphs, keymap
        self._operator, self._bencher, self._journal = operator, bencher, journal
        self._seen = LastSeen(app)
        self._plans: PlanDesk | None = None
        self._benchmarks: BenchDesk | None = None
        self._interrupted: str | None = None

    @property
    def plans(self) -> PlanDesk | None:
        """Where the host is changed; None, which is told, where this console can only watch."""
        if self._plans is None and self._operator is not None:
            from console.ui.screens.plan_desk import PlanDesk

            self._plans = PlanDesk(
                self._app, self._operator, self._seen, self._keymap, self._glyphs, busy=self._measuring
            )
        if self._plans is None:
            self._tell(ONLY_WATCHES)
        return self._plans

    @property
    def benchmarks(self) -> BenchDesk | None:
        """Where the host is measured; None, which is told, where this console cannot."""
        if self._benchmarks is None and self._bencher is not None:
            from console.ui.screens.bench_desk import BenchDesk
            from console.ui.screens.bench_standing import BenchStanding

            standing = BenchStanding(self._bencher, self._targets_of)
            self._benchmarks = BenchDesk(
                self._app,
                self._bencher,
                standing,
                self._seen,
                self._keymap,
                self._glyphs,
                busy=self._changing,
            )
        if self._benchmarks is None:
            self._tell(MEASURES_NOTHING)
        return self._benchmarks

    def open_journal(self) -> None:
        """What was done to the host, above the dashboard."""
        if self._journal is None:
            self._tell(KEEPS_NO_JOURNAL)
            return
        from console.ui.screens.journal import JournalScreen

        self.leave()
        self._app.push_screen(JournalScreen(self._journal, self._seen.host, self._glyphs))

    def show(self, update: Update) -> None:
        """One update of the watched host."""
        self._seen.show(update)
        if isinstance(update, HostRecords):
            self._tell_interrupted()

    def leave(self) -> None:
        """Close the screen that is on top; what it has begun goes on."""
        for desk in self._made():
            desk.leave()

    def abort(self) -> None:
        """End what is under way."""
        for desk in self._made():
            desk.abort()

    def ask_to_leave(self, leave: Callable[[], None]) -> None:
        """Before the console ends: ask first while something is under way."""
        busy = next((desk for desk in self._made() if desk.running), None)
        if busy is None:
            leave()
        else:
            busy.ask_to_leave(leave)

    def _made(self) -> list[PlanDesk | BenchDesk]:
        return [desk for desk in (self._plans, self._benchmarks) if desk is not None]

    def _changing(self) -> str | None:
        return None if self._plans is None else self._plans.goes_on

    def _measuring(self) -> str | None:
        return None if self._benchmarks is None else self._benchmarks.goes_on

    def _tell_interrupted(self) -> None:
        """Once: that a plan's console has died, and what can be done."""
        said = self._operator.interrupted() if self._operator is not None else None
        own = self._plans is not None and self._plans.running
        if said is not None and said != self._interrupted and not own:
            self._tell(f"{said}. {self._keymap.finish}", timeout=15)
        self._interrupted = said

    def _targets_of(self, profile: str) -> Mapping[int, float]:
        """Output tokens per second that a profile's file asks for, by concurrency."""
        entries = () if self._operator is None else self._operator.profiles()
        found = [entry.profile for entry in entries if entry.name == profile and entry.profile is not None]
        return found[0].bench.targets if found else {}

    def _tell(self, said: str, timeout: float | None = None) -> None:
        self._app.notify(said, severity="warning", timeout=timeout, markup=False)
