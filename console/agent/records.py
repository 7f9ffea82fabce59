"""What the state folder holds and which of its runs live, looked at again and again at little cost."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from .groups import ProcessTable, RunMembers, stats
from .hostlock import Holder, HostLock
from .runs import FOLDER, Record, RunFolders, identity
from .statefolder import Mark, StateFolder, Unreadable

SETTLED_NS = 1_000_000_000
"""A folder that was changed so lately may change again without showing it: file times are coarse."""
RECORD_COMES_NS = 60 * SETTLED_NS
"""A folder without a record is looked at again for so long: the disk of who launches may be slow."""
KEPT = ("deployment", "plan")
"""The records that the console writes: NAME.json."""


class Kept(NamedTuple):
    """A record of the console's, as it was read last."""

    mark: Mark | None = None
    content: dict[str, Any] | None = None
    problem: str | None = None


class KnownRun:
    """A run and what is known of its processes. One that has ended does not come back."""

    def __init__(self, record: Record, ended: bool) -> None:
        self.record = record
        self.ended = ended
        self.living = [(record["pid"], record["start_ticks"])]
        """Processes of it that lived when last looked for; the first process alone while it lives."""

    def look(self, table: ProcessTable) -> None:
        """See whether it still lives. Only when nothing known of it does are all processes looked through."""
        if self.ended:
            return
        self.living = [
            (pid, start) for pid, start in self.living if table.is_same(pid, start) and table.lives(pid)
        ] or living_members(table, self.record)
        self.ended = not self.living


def living_members(table: ProcessTable, record: Record) -> list[tuple[int, int]]:
    """Identities of the processes of a run that are no zombies."""
    members = stats(table, RunMembers(table, identity(record)).all())
    return [(pid, stat.start_ticks) for pid, stat in members if table.lives(pid)]


class Records:
    """The contents of the frame `records`."""

    def __init__(
        self, state: StateFolder, folders: RunFolders, lock: HostLock, boot_id: str | None, proc: str
    ) -> None:
        self._state = state
        self._folders = folders
        self._lock = lock
        self._boot_id = boot_id
        self._proc = proc
        self._runs: dict[str, KnownRun] = {}
        self._damaged: dict[str, str] = {}
        self._mark: Mark | None = None
        self._kept = {name: Kept() for name in KEPT}

    def look(self) -> dict[str, Any]:
        """The fields of console.domain.run_record.HostRecords, as of now."""
        table = ProcessTable(self._proc)
        self._look_for_runs()
        for run in self._runs.values():
            run.look(table)
        for name in KEPT:
            self._read_again(name)
        return {
            "runs": [self.described(run) for run in self._shown()],
            "deployment": self._kept["deployment"].content,
            "plan": self._kept["plan"].content,
            "lock": self._holder(),
            "note": self._note(),
        }

    def described(self, run: KnownRun) -> Record:
        """The fields of console.domain.run_record.RunRecord."""
        code = self._folders.exit_code(run.record["id"])
        return dict(run.record, alive=not run.ended, exit_code=code)

    def of(self, run: str) -> Record | None:
        """One run, as `look` last saw it."""
        return self.described(self._runs[run]) if run in self._runs else None

    def members(self, table: ProcessTable, run: str) -> list[int]:
        """The processes of a run, its first one first; of one that ended, none may be looked for.

        Its pids come to be others' in time, and at the next boot.
        """
        known = self._runs.get(run)
        if known is not None and known.ended:
            return []
        return RunMembers(table, self._folders.identity(run)).all()

    def living(self) -> list[KnownRun]:
        """Those that lived when last looked."""
        return [run for run in self._runs.values() if not run.ended]

    def of_deployment(self) -> tuple[str, ...]:
        """Ids of the runs of the deployment."""
        runs = (self._kept["deployment"].content or {}).get("runs")
        return tuple(str(run) for run in runs) if isinstance(runs, list) else ()

    def _shown(self) -> list[KnownRun]:
        named = self.of_deployment()
        return [run for name, run in sorted(self._runs.items()) if not run.ended or name in named]

    def _holder(self) -> Holder | None:
        return self._lock.holder()

    def _note(self) -> str | None:
        problems = [self._state.problem(), *(kept.problem for kept in self._kept.values())]
        return next((problem for problem in [*problems, *self._damaged.values()] if problem), None)

    def _look_for_runs(self) -> None:
        """Take notice of folders that came and went, also of one whose record is written a moment later."""
        mark = self._state.mark(FOLDER)
        if mark is not None and mark == self._mark:
            return
        names = set(self._folders.ids())
        for gone in [name for name in self._runs if name not in names]:
            del self._runs[gone]
        self._damaged = {}
        waited_for = [name for name in names if name not in self._runs and not self._read(name)]
        settled = mark is None or time.time_ns() - mark.mtime_ns > SETTLED_NS
        self._mark = mark if settled and not waited_for else None

    def _read(self, name: str) -> bool:
        """Read the record of a run; False when it is not there yet."""
        try:
            record = self._folders.record(name)
        except Unreadable as problem:
            self._damaged[name] = str(problem)
            return True
        if record is None:
            return not self._is_fresh(name)
        self._runs[name] = KnownRun(record, self._is_of_another_boot(record))
        return True

    def _is_fresh(self, name: str) -> bool:
        mark = self._state.mark(FOLDER, name)
        return mark is not None and time.time_ns() - mark.mtime_ns <= RECORD_COMES_NS

    def _is_of_another_boot(self, record: Record) -> bool:
        booted = record["boot_id"]
        return booted is not None and self._boot_id is not None and booted != self._boot_id

    def _read_again(self, name: str) -> None:
        """Read a record of the console's when it was replaced."""
        file = name + ".json"
        mark = self._state.mark(file)
        if mark == self._kept[name].mark:
            return
        try:
            self._kept[name] = Kept(mark, self._state.read(file))
        except Unreadable as problem:
            self._kept[name] = Kept(mark, None, str(problem))
