"""What each step of a plan does on the host. Each can be begun again, as after a lost connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from console.domain.plan import GONE_S, Plan, Step
from console.domain.preflight import Check, in_short, refused
from console.domain.run_record import Verification
from console.services import starting
from console.services.deployment_keeping import DeploymentKeeping
from console.services.ending import end, see_free, see_gone
from console.services.host_control import HostControl
from console.services.step_failure import StepFailed


class StepWork:
    """The steps of one plan."""

    def __init__(self, control: HostControl, plan: Plan, keeping: DeploymentKeeping) -> None:
        self._control = control
        self._plan = plan
        self.keeping = keeping
        self.checks: tuple[Check, ...] = ()
        """Of the preflight."""
        self.touched = False
        """Whether anything on the host may be different from what it was."""

    def of(self, step: Step) -> AsyncGenerator[str, None]:
        """Do the step; yields how far it is. Raises StepFailed, HostError."""
        match step.kind:
            case "preflight":
                return self._preflight()
            case "drain" | "stop":
                return self._end(step)
            case "gone":
                return see_gone(self._control, step)
            case "free":
                return self._free(step)
            case "launch":
                return self._launch(step)
            case "ready":
                return self._ready(step)
            case "router":
                return self._router(step)
            case "prove":
                return self._prove(step)
            case "verify":
                return self._verify(step)
            case "record":
                return self._record()

    async def _preflight(self) -> AsyncGenerator[str, None]:
        self.checks = await self._control.preflight(self._plan)
        if found := refused(self.checks):
            raise StepFailed(in_short(found), found[0].next)
        warnings = sum(check.outcome == "warning" for check in self.checks)
        told = f", {warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else ""
        yield f"{len(self.checks)} checks{told}"

    async def _end(self, step: Step) -> AsyncGenerator[str, None]:
        self.touched = True
        await self.keeping.ending(step)
        async with aclosing(end(self._control, step.targets, step.limit_s - GONE_S)) as said:
            async for text in said:
                yield text

    async def _free(self, step: Step) -> AsyncGenerator[str, None]:
        async with aclosing(see_free(self._control, step)) as said:
            async for text in said:
                yield text
        await self.keeping.ended(step)

    async def _launch(self, step: Step) -> AsyncGenerator[str, None]:
        self.touched = True
        for position, launch in enumerate(step.launches):
            if position and step.launches[position - 1].role == "prefill":
                await starting.pause_after_prefill(self._control)
            run = await self.keeping.launch(launch)
            yield f"{launch.name} is pid {run.pid}, its log {run.log}"

    async def _ready(self, step: Step) -> AsyncGenerator[str, None]:
        assert self._plan.profile is not None
        runs = [self.keeping.runs[launch.name] for launch in step.launches]
        async with aclosing(starting.wait_ready(self._control, runs, self._plan.profile.limits)) as said:
            async for text in said:
                yield text

    async def _router(self, step: Step) -> AsyncGenerator[str, None]:
        assert self._plan.profile is not None
        run = self.keeping.runs["router"]
        workers = len(self._plan.profile.servers)
        async with aclosing(starting.wait_router(self._control, run, workers, step)) as said:
            async for text in said:
                yield text

    async def _prove(self, step: Step) -> AsyncGenerator[str, None]:
        assert self._plan.profile is not None
        proof = await self._control.prove(self._plan.profile, step.limit_s)
        await self.keeping.proven(proof)
        if not proof.passed:
            raise StepFailed(proof.sentence)
        yield proof.sentence

    async def _verify(self, step: Step) -> AsyncGenerator[str, None]:
        assert self._plan.profile is not None
        runs = [self.keeping.runs[launch.name] for launch in step.launches]
        verification = await self._control.verify(self._plan.profile, runs)
        await self.keeping.verified(verification)
        yield in_words(verification)

    async def _record(self) -> AsyncGenerator[str, None]:
        if self._plan.launches:
            for run in self.keeping.runs.values():
                await starting.refuse_ended(self._control, run)
            await self.keeping.up()
        yield "recorded"


def in_words(verification: Verification | None) -> str:
    """`verified, 41 settings`, or what differs."""
    if verification is None:
        return "not verified"
    if not verification.differences:
        return f"verified, {verification.checked} settings"
    first = verification.differences[0]
    actual = "not known" if first.actual is None else first.actual
    count = len(verification.differences)
    named = f"{first.server} {first.setting} {first.kind}: wanted {first.wanted}, it is {actual}"
    return f"{count} of {verification.checked} settings differ: {named}" + ("; …" if count > 1 else "")
