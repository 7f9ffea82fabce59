"""Keeps on the host what a plan does to the deployment there, so that any console can go on from it."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence

import msgspec

from console.domain.launch import Launch
from console.domain.plan import Plan, Step, Target
from console.domain.plan_progress import PlanResult
from console.domain.run_record import (
    DeploymentRecord,
    DeploymentStage,
    PlanRecord,
    Proof,
    RunRecord,
    Verification,
)
from console.services.host_control import HostControl


class DeploymentKeeping:
    """The records of one plan: of itself, of the deployment it ends, and of the one it makes."""

    def __init__(
        self,
        control: HostControl,
        plan: Plan,
        deployment: DeploymentRecord | None,
        runs: Sequence[RunRecord],
    ) -> None:
        self._control = control
        self._plan = plan
        self._id = new_id(plan.verb if plan.profile is None else plan.profile.name, control.wall())
        self._record: PlanRecord | None = None
        self._goes_on = plan.verb == "resume"
        self.deployment = deployment
        """The deployment that stands on the host: at first the one before, then the new one."""
        self.runs: dict[str, RunRecord] = {run.name: run for run in runs}
        """What runs of the new deployment, by name."""
        self._launching: dict[str, Launch] = {}

    async def began(self) -> None:
        """The plan is under way."""
        plan = self._plan
        self._record = PlanRecord(
            id=self._id,
            verb=plan.verb,
            profile=plan.profile.name if plan.profile else None,
            by=self._control.by,
            begun_at=self._control.wall(),
            steps=tuple(step.title for step in plan.steps),
        )
        await self._control.keep(self._record)

    async def at(self, index: int) -> None:
        """The plan has come to this step."""
        assert self._record is not None
        self._record = msgspec.structs.replace(self._record, step=index)
        await self._control.keep(self._record)

    async def ending(self, step: Step) -> None:
        """Something is about to be stopped."""
        if self._ends_deployment(step) and self.deployment and self.deployment.stage != "stopping":
            await self._stage("stopping")

    async def ended(self, step: Step) -> None:
        """It is gone, and what it held is free."""
        if self._ends_deployment(step) and self.deployment is not None:
            # What was proven and compared has ended.
            self.deployment = msgspec.structs.replace(self.deployment, proof=None, verification=None)
            await self._stage("stopped")

    def _ends_deployment(self, step: Step) -> bool:
        runs = set(self.deployment.runs) if self.deployment else set()
        return any(target.run in runs for target in step.targets)

    async def launch(self, launch: Launch) -> RunRecord:
        """Launch one process of the new deployment, which is told of before it is there."""
        profile = self._plan.profile
        assert profile is not None
        if not self._launching and not self._goes_on:
            self.deployment = DeploymentRecord(
                id=self._id,
                profile=profile,
                runs=tuple(self._run_id(each) for each in self._plan.launches),
                by=self._control.by,
                begun_at=self._control.wall(),
            )
            await self._control.keep(self.deployment)
        assert self.deployment is not None
        self._launching[launch.name] = launch
        run = await self._control.launch(self._run_id(launch), self.deployment.id, profile.name, launch)
        self.runs[launch.name] = run
        return run

    def _run_id(self, launch: Launch) -> str:
        """Known before the launch, so that one whose answer was lost can still be found, and ended."""
        of = self.deployment.id if self._goes_on and self.deployment else self._id
        return f"{of}.{launch.name}"

    def launched(self) -> tuple[Target, ...]:
        """What this plan has launched, or was about to: the router first."""
        targets = [
            Target(
                name=f"{launch.name} :{launch.port}",
                role=launch.role,
                run=self._run_id(launch),
                pids=(self.runs[name].pid,) if name in self.runs else (),
                port=launch.port,
                ports=launch.ports,
                gpus=launch.gpus,
                sudo=launch.sudo,
            )
            for name, launch in self._launching.items()
        ]
        return tuple(sorted(targets, key=lambda target: target.role != "router"))

    async def proven(self, proof: Proof) -> None:
        """A real request went through, or did not."""
        await self._stage("starting" if proof.passed else "broken", proof=proof, note=_note(proof))

    async def verified(self, verification: Verification) -> None:
        """Its settings were compared."""
        await self._stage("starting", verification=verification)

    async def up(self) -> None:
        """Everything is as the profile wants it."""
        await self._stage("up")

    async def gone(self, note: str) -> None:
        """What was launched has been stopped again."""
        await self._stage("failed", note=note)

    async def finish(self, result: PlanResult) -> None:
        """The plan is over."""
        if self._record is not None:
            sentence = result.sentence
            await self._control.keep(msgspec.structs.replace(self._record, state=result.state, note=sentence))

    async def _stage(
        self,
        stage: DeploymentStage,
        *,
        note: str | None = None,
        proof: Proof | None = None,
        verification: Verification | None = None,
    ) -> None:
        if self.deployment is None:
            return
        self.deployment = msgspec.structs.replace(
            self.deployment,
            stage=stage,
            note=note,
            proof=proof or self.deployment.proof,
            verification=verification or self.deployment.verification,
        )
        await self._control.keep(self.deployment)


def _note(proof: Proof) -> str | None:
    return None if proof.passed else proof.sentence


def new_id(name: str, wall: float) -> str:
    """A name for a folder that sorts by time and is not given twice."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(wall))
    return f"{stamp}-{re.sub('[^A-Za-z0-9_-]', '_', name)[:30]}-{secrets.token_hex(2)}"
