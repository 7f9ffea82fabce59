"""A model of a host under plans: processes that start, serve, die and resist, in a time that only waits pass.

It is a HostControl. Faults are armed to strike at the n-th order. It raises Misdeed at the moment when an
order would do what must never be done: signal a process of somebody else, put two deployments on one GPU.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from console.domain.errors import ConnectionLost, HostRefused, Locked
from console.domain.host_facts import GpuFact, GpuHolder, Group, Holders, PortFact, ProcessFact
from console.domain.launch import Launch
from console.domain.plan import Plan, Target
from console.domain.preflight import Check
from console.domain.profile import Profile
from console.domain.run_record import (
    DeploymentRecord,
    HostRecords,
    LockHolder,
    PlanRecord,
    Process,
    Proof,
    RunRecord,
    Verification,
)
from console.domain.server import LogPlace, Role, ServerProcess
from console.domain.server_view import ServerState, ServerView
from console.services.host_control import LastWords, RouterStanding, Signal, Signalled

START_S = 20.0
STOP_S = 3.0
LOCK_LEFT_S = 10.0
"""After a loss the old agent holds the lock for so long."""


class Misdeed(AssertionError):
    """Something that must never happen."""


class Killed(BaseException):
    """The console was killed: none of its code runs any more."""


class ModelProcess:
    """One process."""

    def __init__(self, pid: int, name: str, owner: str, started: float) -> None:
        self.pid, self.name, self.owner, self.started = pid, name, owner, started
        self.start_ticks = pid * 10
        self.run: str | None = None
        self.leader = pid
        self.role: Role | None = None
        self.port: int | None = None
        self.gpus: tuple[int, ...] = ()
        self.ends_at: float | None = None
        self.resists = False
        """Takes no SIGTERM."""
        self.stuck = False
        """Not even SIGKILL."""

    @property
    def identity(self) -> Process:
        return (self.pid, self.start_ticks)

    def fact(self) -> ProcessFact:
        return ProcessFact(
            pid=self.pid,
            start_ticks=self.start_ticks,
            name=self.name,
            state="D" if self.stuck else "S",
            user=self.owner,
            run=self.run,
            waits_in="uvm_spin_loop [nvidia_uvm]" if self.stuck else None,
        )


class ModelHost:
    """Eight GPUs, and whatever was launched on them. One object is the host; `console` gives a door to it."""

    def __init__(self, gpus: int = 8) -> None:
        self.time = 1000.0
        self.gpus = tuple(range(gpus))
        self.processes: dict[int, ModelProcess] = {}
        self.records: dict[str, RunRecord] = {}
        self.codes: dict[str, int] = {}
        self.deployment: DeploymentRecord | None = None
        self.plan: PlanRecord | None = None
        self.lock: LockHolder | None = None
        self.lock_ends_at: float | None = None
        self.consented: set[Process] = set()
        self.proof_passes = True
        self.fails_to_start: set[str] = set()
        self.orders = 0
        self.faults: dict[int, Callable[[ModelHost], None]] = {}
        self.connected = True
        self._pids = itertools.count(5000)

    def pass_time(self, seconds: float) -> None:
        """Let things happen."""
        self.time += seconds
        for process in list(self.processes.values()):
            if process.ends_at is not None and process.ends_at <= self.time:
                self.end(process, 0)
        if self.lock_ends_at is not None and self.lock_ends_at <= self.time:
            self.lock, self.lock_ends_at = None, None

    def add(self, name: str, owner: str = "ops") -> ModelProcess:
        """A new process."""
        process = ModelProcess(next(self._pids), name, owner, self.time)
        self.processes[process.pid] = process
        return process

    def foreign_server(self, port: int, gpus: tuple[int, ...], owner: str = "alice") -> ModelProcess:
        """Somebody else's server."""
        process = self.add("python3 -m sglang.launch_server", owner)
        process.role, process.port, process.gpus = "single", port, gpus
        return process

    def end(self, process: ModelProcess, code: int) -> None:
        """A process ends; a scheduler goes with its leader a moment later."""
        self.processes.pop(process.pid, None)
        if process.run is not None and process.pid == process.leader:
            self.codes.setdefault(process.run, code)
            for other in self.members(process.run):
                if not other.stuck and other.ends_at is None and not other.resists:
                    other.ends_at = self.time + 0.5

    def members(self, run: str) -> list[ModelProcess]:
        """The processes of a run."""
        return [process for process in self.processes.values() if process.run == run]

    def leaders(self, role: Role) -> list[ModelProcess]:
        """Our living first processes with this role."""
        return [
            process
            for process in self.processes.values()
            if process.role == role and process.run is not None and process.pid == process.leader
        ]

    def lose_connection(self) -> None:
        """The line breaks; the old agent keeps the lock until it misses the beats."""
        self.connected = False
        if self.lock is not None:
            self.lock_ends_at = self.time + LOCK_LEFT_S

    def is_ready(self, process: ModelProcess) -> bool:
        """Whether a server of ours has come up."""
        return self.time - process.started >= START_S

    def view_of(self, process: ModelProcess) -> ServerView:
        """What watching would tell of it."""
        state: ServerState = "ready" if self.is_ready(process) or process.run is None else "starting"
        assert process.role is not None
        if process.run and process.run.rpartition(".")[2] in self.fails_to_start and state == "ready":
            state = "failed"
        return ServerView(
            process=ServerProcess(
                pid=process.pid,
                start_ticks=process.start_ticks,
                start_time=process.started,
                role=process.role,
                port=process.port,
                user=process.owner,
                gpus=process.gpus,
                log=LogPlace(kind="file", path="/log"),
            ),
            state=state,
            phase="failed" if state == "failed" else "ready" if state == "ready" else "loading",
            reason="ran out of memory" if state == "failed" else None,
        )

    def all_records(self) -> HostRecords:
        """As the agent would send them."""
        runs = tuple(
            msgspec.structs.replace(
                record, alive=bool(self.members(record.id)), exit_code=self.codes.get(record.id)
            )
            for record in self.records.values()
        )
        return HostRecords(runs=runs, deployment=self.deployment, plan=self.plan, lock=self.lock)


class ModelControl:
    """One console's hands on a ModelHost."""

    def __init__(self, host: ModelHost, by: str = "ops@laptop") -> None:
        self.host = host
        self._by = by
        self._holds_lock = False
        self.dies_at: int | None = None
        """The order with which this console is killed."""
        self._dead = False

    @property
    def by(self) -> str:
        return self._by

    def now(self) -> float:
        return self.host.time

    def wall(self) -> float:
        return 1_795_999_493.0 + self.host.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.host.pass_time(seconds)

    async def reconnected(self) -> None:
        await self.sleep(2.0)
        self.host.connected = True
        self._holds_lock = False

    def records(self) -> HostRecords:
        return self.host.all_records()

    def servers(self) -> tuple[ServerView, ...]:
        return tuple(self.host.view_of(each) for each in self.host.processes.values() if each.role)

    def view(self, run: RunRecord) -> ServerView | None:
        process = self.host.processes.get(run.pid)
        return None if process is None else self.host.view_of(process)

    async def preflight(self, plan: Plan) -> tuple[Check, ...]:
        await self._order()
        ending = {target.run for target in plan.targets if target.run}
        pids = {pid for target in plan.targets for pid in target.pids}
        return tuple(
            Check(subject=f"GPU {gpu}", outcome="refused", sentence=f"GPU {gpu} is held by pid {each.pid}")
            for each in self.host.processes.values()
            for gpu in each.gpus
            if plan.profile and gpu in plan.profile.gpus and each.pid not in pids and each.run not in ending
        )

    async def holders(self, ports: Sequence[int]) -> Holders:
        await self._order()
        host = self.host
        return Holders(
            ports=tuple(
                PortFact(port=each.port, holder=each.fact())
                for each in host.processes.values()
                if each.port in ports and each.port is not None
            ),
            gpus=tuple(
                GpuFact(
                    index=gpu,
                    mem_used_mib=sum(80_000.0 for each in host.processes.values() if gpu in each.gpus),
                    mem_total_mib=97_887.0,
                    holders=tuple(
                        GpuHolder(process=each.fact(), mem_mib=80_000.0)
                        for each in host.processes.values()
                        if gpu in each.gpus
                    ),
                )
                for gpu in host.gpus
            ),
        )

    async def look(self, targets: Sequence[Target]) -> tuple[Group, ...]:
        await self._order()
        return tuple(
            Group(members=tuple(process.fact() for process in self._meant(target))) for target in targets
        )

    def _meant(self, target: Target) -> list[ModelProcess]:
        if target.run is not None:
            return self.host.members(target.run)
        found = [each for each in self.host.processes.values() if each.identity == target.server]
        return [other for each in found for other in self.host.processes.values() if other.leader == each.pid]

    async def signal(self, targets: Sequence[Target], signal: Signal) -> Signalled:
        await self._order(changes=True)
        done = []
        for process in [each for target in targets for each in self._meant(target)]:
            if process.run is None and process.identity not in self.host.consented:
                raise Misdeed(f"signalled pid {process.pid} of {process.owner}")
            done.append(process.pid)
            if signal == "KILL" and not process.stuck:
                self.host.end(process, -9)
            if signal == "TERM" and not process.stuck and not process.resists and process.ends_at is None:
                process.ends_at = self.host.time + STOP_S
        return Signalled(signalled=tuple(done))

    async def lock(self, what: str) -> None:
        await self._order()
        host = self.host
        if host.lock is not None and not self._holds_lock:
            raise Locked(f"{host.lock.by} holds the lock")
        host.lock = LockHolder(by=self._by, what=what, since=host.time, pid=1)
        self._holds_lock = True

    async def unlock(self) -> None:
        await self._order()
        if self._holds_lock:
            self.host.lock, self._holds_lock = None, False

    async def launch(self, run: str, deployment: str, profile: str, launch: Launch) -> RunRecord:
        await self._order(changes=True)
        host = self.host
        if run in host.records:
            return host.records[run]
        for other in host.processes.values():
            shared = set(other.gpus) & set(launch.gpus)
            if shared and other.run is not None and not other.run.startswith(f"{deployment}."):
                raise Misdeed(f"{run} was launched on GPU {shared}, which pid {other.pid} holds")
        leader = host.add(f"python3 -m sglang.launch_server {launch.name}")
        leader.run, leader.role, leader.port = run, launch.role, launch.port
        scheduler = host.add("sglang::scheduler_TP0")
        scheduler.run, scheduler.leader, scheduler.gpus = run, leader.pid, launch.gpus
        record = RunRecord(
            id=run,
            deployment=deployment,
            profile=profile,
            name=launch.name,
            role=launch.role,
            pid=leader.pid,
            start_ticks=leader.start_ticks,
            launched_at=self.wall(),
            by=self._by,
            argv=launch.argv,
            gpus=launch.gpus,
            port=launch.port,
            ports=launch.ports,
            log=f"/runs/{run}/{launch.name}.log",
        )
        host.records[run] = record
        return record

    async def last_words(self, run: RunRecord) -> LastWords | None:
        await self._order()
        return None

    async def keep(self, record: DeploymentRecord | PlanRecord) -> None:
        await self._order(changes=True)
        if isinstance(record, PlanRecord):
            self.host.plan = record
        else:
            self.host.deployment = record

    async def router(self, port: int) -> RouterStanding:
        await self._order()
        up = [each for role in ("single", "prefill", "decode") for each in self.host.leaders(role)]  # type: ignore[arg-type]
        ready = [each for each in up if self.host.is_ready(each)]
        return RouterStanding(ready=bool(ready), workers=len(ready), sentence="")

    async def prove(self, profile: Profile, limit_s: float) -> Proof:
        await self._order()
        roles = {server.role for server in profile.servers}
        alive = all(any(self.host.is_ready(each) for each in self.host.leaders(role)) for role in roles) and (
            profile.router is None or bool(self.host.leaders("router"))
        )
        passed = self.host.proof_passes and alive
        await self.sleep(1.0 if passed else limit_s)
        return Proof(
            passed=passed, at=self.wall(), seconds=1.0, sentence="16 tokens" if passed else "no token came"
        )

    async def verify(self, profile: Profile, runs: Sequence[RunRecord]) -> Verification:
        await self._order()
        return Verification(at=self.wall(), checked=12)

    async def _order(self, *, changes: bool = False) -> None:
        """One order goes to the host: time passes, and the fault armed for it strikes."""
        await asyncio.sleep(0)
        host = self.host
        host.orders += 1
        if self._dead or host.orders == self.dies_at:
            self._dead = True
            if self._holds_lock and host.lock_ends_at is None:
                host.lock_ends_at = host.time + LOCK_LEFT_S
            raise Killed
        host.pass_time(0.01)
        if not host.connected:
            raise ConnectionLost("the connection is lost")
        fault = host.faults.pop(host.orders, None)
        if fault is not None:
            fault(host)
            if not host.connected:
                raise ConnectionLost("the connection is lost")
        if changes and not self._holds_lock:
            raise HostRefused("without the lock nothing is changed")


def living_runs(host: ModelHost) -> set[str]:
    """Ids of runs of which a process lives."""
    return {process.run for process in host.processes.values() if process.run is not None}


def consent(host: ModelHost, processes: Iterable[Process]) -> Collection[Process]:
    """The operator says yes to the end of these."""
    host.consented |= set(processes)
    return host.consented
