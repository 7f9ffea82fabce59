"""Makes plans from what stands on a host; changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from console.domain.errors import NotRunning
from console.domain.host_facts import Group
from console.domain.launch import Launch
from console.domain.plan import Plan, Target, restart_plan, stop_plan, switch_plan
from console.domain.profile import Limits, Profile
from console.domain.resume import resume_plan
from console.domain.run_record import Process
from console.domain.targets import ended_by, running_targets
from console.services.host_control import HostControl

CHOOSE = "choose a profile to switch to"

LaunchesOf = Callable[[Profile], Awaitable[tuple[Launch, ...]]]
"""What a profile launches on this host: flags are spelled as its SGLang wants them."""


class Planning:
    """Plans for one host."""

    def __init__(self, control: HostControl, launches_of: LaunchesOf) -> None:
        self._control = control
        self._launches_of = launches_of

    async def switch(self, profile: Profile) -> Plan:
        """From what runs to the profile; a neighbour's server that is not in the way is left alone."""
        wanted = await self._launches_of(profile)
        return switch_plan(profile, wanted, ended_by(await self._targets(), wanted), self._limits())

    async def restart(self) -> Plan:
        """The deployment anew, from its record. Raises NotRunning when there is none."""
        deployment = self._control.records().deployment
        if deployment is None or deployment.stage == "stopped":
            raise NotRunning("nothing runs here that was launched from a profile", next_step=CHOOSE)
        wanted = await self._launches_of(deployment.profile)
        return restart_plan(deployment.profile, wanted, ended_by(await self._targets(), wanted))

    async def stop(self) -> Plan:
        """End the deployment; where there is none, every server. Raises NotRunning when nothing runs."""
        targets = await self._targets()
        own = tuple(target for target in targets if not target.is_foreign)
        if not targets:
            raise NotRunning("no server runs on this host", next_step=CHOOSE)
        return stop_plan(own or targets, self._limits())

    async def resume(self, load: Callable[[str], Profile]) -> Plan:
        """Finish what a console that died had begun. Raises NotRunning when nothing was interrupted."""
        records = self._control.records()
        plan, deployment = records.plan, records.deployment
        if not records.interrupted or plan is None:
            raise NotRunning("no plan was interrupted on this host")
        if plan.verb == "stop":
            return await self.stop()
        if deployment is None or plan.profile != deployment.profile.name:
            return await self.switch(load(plan.profile or ""))
        alive = [run.name for run in records.of_deployment() if run.alive]
        if deployment.stage == "starting":
            wanted = await self._launches_of(deployment.profile)
            if (going_on := resume_plan(deployment.profile, wanted, alive)) is not None:
                return going_on
        return await self.switch(deployment.profile)

    def _limits(self) -> Limits | None:
        deployment = self._control.records().deployment
        return None if deployment is None else deployment.profile.limits

    async def _targets(self) -> tuple[Target, ...]:
        """Everything that runs, with the processes of each."""
        records, views = self._control.records(), self._control.servers()
        first = running_targets(records, views)
        groups = await self._control.look(first)
        found: dict[str | Process, Group] = {
            _key(target): group for target, group in zip(first, groups, strict=True)
        }
        return running_targets(records, views, found)


def _key(target: Target) -> str | Process:
    if target.run is not None:
        return target.run
    assert target.server is not None
    return target.server
