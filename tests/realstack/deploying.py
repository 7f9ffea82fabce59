"""A host of real SGLang servers for tests that change it: a real sshd, state and profiles of its own.

with RealHost(folder) as host:
    async with host.console() as console:
        result = await console.carry_out(await console.operator.switch_plan("pair"))
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from console.cli.operator import profile_folders
from console.domain.deployment import Deployment, observed
from console.domain.host_view import HostView
from console.domain.observation import Ended, Servers, Update
from console.domain.plan import Plan, StepKind
from console.domain.plan_progress import PlanResult, StepEvent
from console.domain.run_record import HostRecords, RunRecord
from console.profiles import load_profiles
from console.remote.ssh import SshHost
from console.services.journal import Journal
from console.services.operating import HostOperator
from console.services.telemetry import AgentOptions, HostWatch, Identity
from tests.integration.sshd import SshServer
from tests.realstack.processes import living
from tests.realstack.stack import HOME, Ports, fetch

PATIENCE_S = 30.0

SINGLE = """
extends = "cpu-single"
[variables]
DSV4_REALSTACK = "{home}"
[servers.single]
port = {ports.single}
nccl_port = {ports.single_nccl}
"""
PAIR = """
extends = "cpu-pd"
[variables]
DSV4_REALSTACK = "{home}"
[servers.prefill]
port = {ports.prefill}
nccl_port = {ports.prefill_nccl}
bootstrap_port = {ports.bootstrap}
[servers.decode]
port = {ports.decode}
nccl_port = {ports.decode_nccl}
[router]
port = {ports.router}
metrics_port = {ports.router_metrics}
"""
FEW = """
extends = "pair"
[flags]
max-running-requests = 7
"""
PROFILES = {"single": SINGLE, "pair": PAIR, "pair-few": FEW}


class RealHost:
    """`gpu-box`: where the profiles `single`, `pair` and `pair-few` can be launched.

    What was launched is ended on exit, by the records of the runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.state = folder / "state"
        self.ports = Ports.free()
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> RealHost:
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self._patch.setenv("HOME", str(self.home))
        for name in ("SSH_AUTH_SOCK", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            self._patch.delenv(name, raising=False)
        profiles = profile_folders().user
        assert profiles is not None
        profiles.mkdir(parents=True)
        for name, text in PROFILES.items():
            (profiles / f"{name}.toml").write_text(text.format(home=HOME, ports=self.ports))
        self.server = SshServer(self.folder / "sshd", self.home, {"SetEnv": f"DSV4_AGENT_STATE={self.state}"})
        self.server.trust()
        self.server.add_alias("gpu-box")
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.stop()
        self._patch.undo()

    def processes(self, runs: Collection[str] | None = None) -> list[int]:
        """Those that live in the sessions of these runs, or of all that were ever launched here."""
        sessions = {
            (record["pid"], record["start_ticks"])
            for record in map(_json, self.state.glob("runs/*/run.json"))
            if (runs is None or record["id"] in runs)
            and record["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        }
        return [
            process.pid
            for process in living()
            if any(process.sid == pid and process.start_ticks >= start for pid, start in sessions)
        ]

    @asynccontextmanager
    async def console(
        self, name: str = "tester@console", *, readonly: bool = False
    ) -> AsyncIterator[Console]:
        """A console of `name`, connected; what runs on the host and is recorded there has been told."""
        watch = HostWatch(
            Identity(name="gpu-box", readonly=readonly),
            lambda: SshHost("gpu-box"),
            AgentOptions(interval=1.0, readonly=readonly),
        )
        operator = HostOperator(
            watch,
            host="gpu-box",
            by=name,
            python=None,
            profiles=lambda: load_profiles(profile_folders()),
            journal=Journal(self.folder / "journal.db"),
            readonly="--readonly was given" if readonly else None,
        )
        async with aclosing(watch.updates()) as updates:
            console = Console(self, watch, operator)
            # As for a screen: a watch whose updates are not taken stands still.
            following = asyncio.create_task(console.follow(updates))
            try:
                await console.until(console.has_looked, "its servers and records to be told")
                yield console
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    @contextmanager
    def verb(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """`dsv4-console --host gpu-box WORDS` in a process of its own, killed at the end."""
        with (self.folder / "verb.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "console", "--host", "gpu-box", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def complete(self, port: int, max_tokens: int = 8, timeout_s: float = 30.0) -> int:
        """One real request of the test's own, not the console's; tokens made. Raises OSError."""
        asked = {
            "model": "default",
            "prompt": f"a request of the test's own {time.time_ns()}",
            "max_tokens": max_tokens,
            "ignore_eos": True,
        }
        answer = json.loads(fetch(f"http://127.0.0.1:{port}/v1/completions", timeout_s, asked))
        tokens: int = answer["usage"]["completion_tokens"]
        return tokens

    def setting(self, port: int, name: str) -> object:
        """What the server on a port says of a setting."""
        return json.loads(fetch(f"http://127.0.0.1:{port}/server_info", 30.0))[name]

    @contextmanager
    def load(self, patience_s: float = 5.0) -> Iterator[Load]:
        """A client that sends one request after the other through the router, whatever becomes of them.

        A request is cut after `patience_s`. That may end a thread of prefill's for good, if decode stands
        still meanwhile.
        """
        load = Load(self, patience_s)
        load.start()
        try:
            yield load
        finally:
            load.over.set()
            load.join()


class Load(threading.Thread):
    """See RealHost.load."""

    def __init__(self, host: RealHost, patience_s: float) -> None:
        super().__init__()
        self._host = host
        self._patience_s = patience_s
        self.over = threading.Event()
        self.answered = 0
        self.failed = 0

    def run(self) -> None:
        """Until it is over."""
        while not self.over.is_set():
            try:
                self._host.complete(self._host.ports.router, max_tokens=32, timeout_s=self._patience_s)
                self.answered += 1
            except OSError:
                self.failed += 1
                self.over.wait(0.1)


class Console:
    """One console that is connected to the host."""

    def __init__(self, host: RealHost, watch: HostWatch, operator: HostOperator) -> None:
        self.host = host
        self.watch = watch
        self.operator = operator
        self._told: set[type[Update]] = set()
        self._connection: HostView | Ended | None = None
        """The last news of it: why nothing else came."""

    async def follow(self, updates: AsyncIterator[Update]) -> None:
        """Take what the watch yields, for ever."""
        async for update in updates:
            self._told.add(type(update))
            if isinstance(update, HostView | Ended):
                self._connection = update

    def has_looked(self) -> bool:
        """Whether every run that lives is seen as a server."""
        records = self.watch.records
        seen = {view.process.key for view in self.watch.server_views()}
        alive = {run.process for run in records.runs if run.alive}
        return {HostRecords, Servers} <= self._told and alive <= seen

    def seen(self) -> Deployment:
        """What the console makes of the host at this moment."""
        return observed(self.watch.server_views(), self.watch.records)

    def runs(self) -> dict[str, RunRecord]:
        """The runs of the deployment, by name."""
        return {run.name: run for run in self.watch.records.of_deployment()}

    async def until(self, condition: Callable[[], object], what: str, limit_s: float = PATIENCE_S) -> float:
        """Wait for it; how long that took, in seconds. AssertionError when it does not come."""
        begun = time.monotonic()
        while not condition():
            waited = time.monotonic() - begun
            assert waited < limit_s, f"not within {limit_s:g} s: {what}; {self.seen()}; {self._connection}"
            await self.watch.change(0.1)
        return time.monotonic() - begun

    async def until_state(self, *states: str, limit_s: float = PATIENCE_S) -> float:
        """Wait until the deployment is in one of the states; how long that took, in seconds."""
        return await self.until(lambda: self.seen().state in states, " or ".join(states), limit_s)

    async def carry_out(
        self, plan: Plan, *, after: dict[StepKind, Callable[[], object]] | None = None
    ) -> PlanResult:
        """To its end. `after` is called when the last step of a kind is done, and before the next begins."""
        last = {step.kind: index for index, step in enumerate(plan.steps)}
        result: PlanResult | None = None
        async with aclosing(self.operator.execute(plan).events()) as events:
            async for event in events:
                if isinstance(event, PlanResult):
                    result = event
                elif isinstance(event, StepEvent) and event.kind == "done":
                    for kind, call in (after or {}).items():
                        if event.index == last[kind]:
                            await asyncio.to_thread(call)
        assert result is not None
        return result


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found
