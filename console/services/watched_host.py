"""A watched host under the hands of this console: the HostControl of real hosts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing

import msgspec

from console.domain.command_line import SERVER_MODULE
from console.domain.errors import ConnectionLost, Locked
from console.domain.host_facts import FlagChecks, Group, Holders, HostFacts
from console.domain.launch import Launch
from console.domain.loghistory import HostSearch
from console.domain.plan import Plan, Target
from console.domain.preflight import Check, judge, paths_of
from console.domain.profile import Profile
from console.domain.run_record import (
    DeploymentRecord,
    HostRecords,
    LockHolder,
    PlanRecord,
    Proof,
    RunRecord,
    Verification,
)
from console.domain.server_view import ServerView
from console.services.host_control import LastWords, RouterStanding, Signal, Signalled
from console.services.last_words import last_words
from console.services.proving import prove
from console.services.telemetry import HostWatch
from console.services.verifying import Sources, verify

RECONNECT_LIMIT_S = 300.0
"""A plan waits so long for its host to come back, then gives up; what it did stays recorded there."""


class _Locked(msgspec.Struct):
    held: bool
    holder: LockHolder | None = None


class _Environment(msgspec.Struct):
    environment: dict[str, str] | None = None


class _Groups(msgspec.Struct):
    groups: tuple[Group, ...]


class WatchedHost:
    """See HostControl. `by` is user@machine of this console."""

    def __init__(self, watch: HostWatch, by: str) -> None:
        self._watch = watch
        self._by = by

    @property
    def by(self) -> str:
        """See HostControl."""
        return self._by

    def now(self) -> float:
        """See HostControl."""
        return time.monotonic()

    def wall(self) -> float:
        """See HostControl."""
        return time.time() + self._watch.skew_s

    async def sleep(self, seconds: float) -> None:
        """See HostControl."""
        await self._watch.change(seconds)

    async def reconnected(self) -> None:
        """See HostControl."""
        end_at = self.now() + RECONNECT_LIMIT_S
        while True:
            try:
                await self._watch.link.obey("beat")
                return
            except ConnectionLost:
                if self.now() > end_at:
                    raise
                await asyncio.sleep(0.25)

    def records(self) -> HostRecords:
        """See HostControl."""
        return self._watch.records

    def servers(self) -> tuple[ServerView, ...]:
        """See HostControl."""
        return tuple(view for view in self._watch.server_views() if view.is_present)

    def view(self, run: RunRecord) -> ServerView | None:
        """See HostControl. With sudo the first process is sudo's, and the server is in its session."""
        for view in self._watch.server_views():
            if view.process.key == run.process or (run.sudo and view.process.sid == run.pid):
                return view
        return None

    async def inspect(self, profile: Profile, python: str, *, sudo: bool = False) -> HostFacts:
        """What is installed and what there is room for; `sudo`: also whether it asks for a password."""
        return await self._watch.link.value(
            HostFacts,
            "inspect",
            paths=paths_of(profile),
            pythons=[python],
            disks=[],
            sudo=sudo or profile.sudo,
        )

    async def preflight(self, plan: Plan) -> tuple[Check, ...]:
        """See HostControl. A plan that goes on has no such step: what it needs, its own servers hold."""
        if plan.profile is None or all(step.kind != "preflight" for step in plan.steps):
            return ()
        link, launches = self._watch.link, plan.launches
        python = launches[0].argv[0]
        facts, holders, flags = await asyncio.gather(
            self.inspect(plan.profile, python, sudo=any(target.sudo for target in plan.targets)),
            self.holders([port for launch in launches for port in launch.ports]),
            link.value(
                FlagChecks,
                "check_flags",
                python=python,
                environment=_servers_environment(launches),
                lines=[launch.argv[1:] for launch in launches],
            ),
        )
        return judge(plan.profile, launches, facts, holders, flags, plan.targets, now=self.wall())

    async def holders(self, ports: Sequence[int]) -> Holders:
        """See HostControl."""
        return await self._watch.link.value(Holders, "holders", ports=sorted(set(ports)))

    async def look(self, targets: Sequence[Target]) -> tuple[Group, ...]:
        """See HostControl."""
        runs = [target for target in targets if target.run is not None]
        others = [target for target in targets if target.run is None]
        answer = await self._watch.link.value(
            _Groups,
            "look",
            runs=[target.run for target in runs],
            servers=[target.server for target in others],
        )
        found = dict(zip([*runs, *others], answer.groups, strict=True))
        return tuple(found[target] for target in targets)

    async def signal(self, targets: Sequence[Target], signal: Signal) -> Signalled:
        """See HostControl."""
        others = [target for target in targets if target.run is None]
        groups = await self.look(others)
        processes = [member.process for group in groups for member in group.living]
        return await self._watch.link.value(
            Signalled,
            "signal",
            runs=[target.run for target in targets if target.run is not None],
            processes=processes,
            signal=signal,
        )

    async def lock(self, what: str) -> None:
        """See HostControl."""
        answer = await self._watch.link.value(_Locked, "lock", by=self._by, what=what)
        if not answer.held:
            raise locked(answer.holder)

    async def unlock(self) -> None:
        """See HostControl."""
        await self._watch.link.obey("unlock")

    async def launch(self, run: str, deployment: str, profile: str, launch: Launch) -> RunRecord:
        """See HostControl."""
        asked = {
            "id": run,
            "deployment": deployment,
            "profile": profile,
            "name": launch.name,
            "role": launch.role,
            "argv": launch.argv,
            "environment": launch.environment,
            "gpus": launch.gpus,
            "port": launch.port,
            "ports": launch.ports,
            "by": self._by,
            "sudo": launch.sudo,
        }
        return await self._watch.link.value(RunRecord, "launch", run=asked)

    async def last_words(self, run: RunRecord) -> LastWords | None:
        """See HostControl."""
        return await last_words(self._watch.link, run)

    async def keep(self, record: DeploymentRecord | PlanRecord) -> None:
        """See HostControl."""
        name = "plan" if isinstance(record, PlanRecord) else "deployment"
        await self._watch.link.obey("write", name=name, content=msgspec.to_builtins(record, str_keys=True))

    async def router(self, port: int) -> RouterStanding:
        """See HostControl."""
        client = self._watch.client
        readiness = await client.readiness(port)
        workers = await client.workers(port)
        if workers is None:
            return RouterStanding(ready=False, sentence=readiness.note or "it does not tell its workers")
        healthy = workers.prefill + workers.decode + workers.regular - len(workers.unhealthy)
        return RouterStanding(
            ready=readiness.state == "green", workers=healthy, sentence=readiness.note or workers.summary
        )

    async def prove(self, profile: Profile, limit_s: float) -> Proof:
        """See HostControl."""
        link = self._watch.link
        proof = await prove(self._watch.client, profile, self.wall, limit_s)
        if not proof.passed and self._watch.link is not link:
            raise ConnectionLost("the connection was lost during the proof")
        return proof

    async def verify(self, profile: Profile, runs: Sequence[RunRecord]) -> Verification:
        """See HostControl."""
        versions = [view.process.version for view in map(self.view, runs) if view is not None]
        sources = Sources(self._watch.client.server_info, self._environment, self._log_has)
        return await verify(sources, profile, runs, versions[0] if versions else None, self.wall)

    async def _environment(self, run: RunRecord, names: Sequence[str]) -> Mapping[str, str] | None:
        answer = await self._watch.link.value(_Environment, "environment", run=run.id, names=names)
        return answer.environment

    async def _log_has(self, run: RunRecord, pattern: str) -> bool | None:
        """Whether its log has a line that fits, searched on the host; None when it cannot be searched."""
        view = self.view(run)
        if view is None:
            return None
        wanted = HostSearch(pattern=pattern, max_matches=1)
        async with aclosing(self._watch.logs.search(view.process.key, wanted)) as found:
            async for matches in found:
                if matches.matches:
                    return True
                if matches.done:
                    return False if matches.complete else None
        return None


def _servers_environment(launches: Sequence[Launch]) -> dict[str, str]:
    """SGLang's parser may look at the environment, as for the kind of device."""
    servers = [launch for launch in launches if SERVER_MODULE in launch.argv]
    return servers[0].environment if servers else {}


def locked(holder: LockHolder | None) -> Locked:
    """The error that names who changes the host."""
    if holder is None:
        return Locked("another console is changing this host", next_step="try again when it is done")
    at = time.strftime("%H:%M:%S", time.localtime(holder.since))
    return Locked(
        f"{holder.by} is changing this host since {at}: {holder.what}", next_step="try again when it is done"
    )
