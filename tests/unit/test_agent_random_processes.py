"""Whatever processes do, a run is never taken to hold somebody else's, nor to lack what shows its mark."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from console.agent.groups import ProcessTable
from console.agent.procfs import Stat
from console.agent.records import KnownRun, living_members

PIDS = range(10, 18)
"""Few, so that they come to be used again."""


@dataclass
class Process:
    start: int
    parent: int
    group: int
    session: int
    session_since: int
    run: str | None
    """To whom it truly belongs."""
    token: str | None
    """What its environment says; None once a title overwrote it."""


class Kernel(ProcessTable):
    """Gives out pids as Linux does: none that still names a process, a group or a session."""

    def __init__(self) -> None:
        super().__init__("/nowhere")
        self.processes: dict[int, Process] = {}
        self.ticks = 100

    def free_pid(self) -> int | None:
        used = {each for pid, one in self.processes.items() for each in (pid, one.group, one.session)}
        return next((pid for pid in PIDS if pid not in used), None)

    def pids(self) -> list[int]:
        return list(self.processes)

    def stat(self, pid: int) -> Stat | None:
        found = self.processes.get(pid)
        if found is None:
            return None
        return Stat("x", "S", found.parent, found.group, found.session, found.start)

    def token(self, pid: int) -> str | None:
        return self.processes[pid].token

    def uid(self, pid: int) -> int | None:
        return os.getuid()


class Host(RuleBasedStateMachine):
    """Runs and strangers fork, rename themselves, leave their session, and die."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Kernel()
        self.runs: dict[str, KnownRun] = {}

    def begin(self, run: str | None) -> int | None:
        pid = self.kernel.free_pid()
        if pid is not None:
            self.kernel.ticks += 1
            self.kernel.processes[pid] = Process(
                self.kernel.ticks, 1, pid, pid, self.kernel.ticks, run, run or ""
            )
        return pid

    def one(self, draw: int) -> int | None:
        pids = sorted(self.kernel.processes)
        return pids[draw % len(pids)] if pids else None

    @rule()
    def launch(self) -> None:
        run = f"r{len(self.runs)}"
        pid = self.begin(run)
        if pid is not None:
            record = {"id": run, "pid": pid, "start_ticks": self.kernel.ticks}
            self.runs[run] = KnownRun(record, ended=False)

    @rule()
    def log_in(self) -> None:
        self.begin(None)

    @rule(draw=st.integers(0, 99))
    def fork(self, draw: int) -> None:
        parent, pid = self.one(draw), self.kernel.free_pid()
        if parent is not None and pid is not None:
            self.kernel.ticks += 1
            of = self.kernel.processes[parent]
            self.kernel.processes[pid] = replace(of, start=self.kernel.ticks, parent=parent)

    @rule(draw=st.integers(0, 99))
    def rename(self, draw: int) -> None:
        pid = self.one(draw)
        if pid is not None:
            self.kernel.processes[pid].token = None

    @rule(draw=st.integers(0, 99))
    def leave_session(self, draw: int) -> None:
        pid = self.one(draw)
        if pid is not None and self.kernel.processes[pid].group != pid:
            self.kernel.ticks += 1
            found = self.kernel.processes[pid]
            found.group = found.session = pid
            found.session_since = self.kernel.ticks

    @rule(draw=st.integers(0, 99))
    def die(self, draw: int) -> None:
        pid = self.one(draw)
        if pid is not None:
            del self.kernel.processes[pid]
            for process in self.kernel.processes.values():
                process.parent = 1 if process.parent == pid else process.parent

    @invariant()
    def each_run_holds_its_own(self) -> None:
        for name, run in self.runs.items():
            run.look(self.kernel)
            found = set() if run.ended else {pid for pid, _ in living_members(self.kernel, run.record)}
            own = {pid for pid, process in self.kernel.processes.items() if process.run == name}
            assert found <= own, "somebody else's"
            assert {pid for pid in own if self.shows(pid, run)} <= found, "left out"

    def shows(self, pid: int, run: KnownRun) -> bool:
        """Whether anything still ties the process to its run."""
        process = self.kernel.processes[pid]
        return bool(process.token) or process.session_since == run.record["start_ticks"]


TestHost = Host.TestCase
TestHost.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
