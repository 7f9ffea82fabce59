"""Carries out a plan, step by step, and leaves the host in a state that can be told, however it ends.

A connection that breaks makes it wait and do the step again: every order names the processes or the run that
it means, so doing it twice does nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Literal

from console.domain.errors import ConnectionLost, HostError, HostRefused, Locked
from console.domain.plan import FREE_S, GONE_S, Plan, Step, StepKind, Target
from console.domain.plan_progress import PlanEvent, PlanResult, StepEvent
from console.domain.run_record import DeploymentRecord, RunRecord
from console.services.deployment_keeping import DeploymentKeeping
from console.services.host_control import HostControl
from console.services.step_failure import Aborted, StepFailed
from console.services.step_work import StepWork, in_words

ENDING: tuple[StepKind, ...] = ("drain", "stop", "gone", "free")
STARTING: tuple[StepKind, ...] = ("launch", "ready", "router")
ENGINE: tuple[StepKind, ...] = ("drain", "stop", "ready", "router")
"""Steps whose time is SGLang's."""
TELLING: tuple[StepKind, ...] = ("preflight", "launch", "prove", "verify")
"""Steps whose last word is what came of them; of others it is what was waited for."""
LOCK_AGAIN_S = 15.0
"""Our own agent of before a break holds the lock until it misses our beats."""
CLEAN_UP_S = 45.0
"""From SIGTERM to SIGKILL for what is stopped because it failed."""

_Failure = StepFailed | Aborted | HostRefused


class PlanExecution:
    """One plan on its way; `events` may be taken once."""

    def __init__(
        self,
        control: HostControl,
        plan: Plan,
        *,
        deployment: DeploymentRecord | None = None,
        runs: Sequence[RunRecord] = (),
        fallback: str | None = None,
    ) -> None:
        """`deployment` stands on the host now; with `runs` of it a resumed plan goes on; `fallback` is the
        profile that can be gone back to when this fails."""
        self._control = control
        self._plan = plan
        self._work = StepWork(control, plan, DeploymentKeeping(control, plan, deployment, runs))
        self._fallback = fallback
        self._aborted = asyncio.Event()
        self._kind: StepKind = "preflight"
        self._engine_s = 0.0

    def abort(self) -> str:
        """See Execution."""
        self._aborted.set()
        if self._kind in ENDING:
            return "what is being stopped will be stopped to its end; nothing will be launched"
        if self._kind in STARTING:
            return "what was launched will be stopped again; nothing will run"
        if self._kind == "preflight":
            return "nothing was changed"
        return "the servers go on running, not proven or not verified"

    async def events(self) -> AsyncGenerator[PlanEvent, None]:
        """See Execution. Raises Locked, and HostError when the host stays away."""
        begun = self._control.now()
        await self._control.lock(self._plan.title)
        try:
            await self._persistently(self._work.keeping.began)
            failure: _Failure | None = None
            try:
                async with aclosing(self._steps()) as steps:
                    async for event in steps:
                        yield event
            except (StepFailed, Aborted, HostRefused) as reason:
                failure = reason
            left = ""
            if failure is not None and self._kind in STARTING:
                async with aclosing(self._clean_up(failure)) as cleaning:
                    async for event in cleaning:
                        yield event
                        left = event.text if event.kind == "failed" else ""
            result = self._result(failure, left, self._control.now() - begun)
            await self._persistently(lambda: self._work.keeping.finish(result))
        finally:
            # Where this does not end in order, the plan stays recorded as under way, and nobody's.
            with contextlib.suppress(HostError):
                await self._control.unlock()
        yield result

    async def _steps(self) -> AsyncGenerator[StepEvent, None]:
        for index, step in enumerate(self._plan.steps):
            if self._aborted.is_set() and step.kind not in ENDING:
                raise Aborted
            self._kind = step.kind
            await self._persistently(functools.partial(self._work.keeping.at, index))
            async with aclosing(self._one_step(index, step)) as events:
                async for event in events:
                    yield event

    async def _one_step(self, index: int, step: Step) -> AsyncGenerator[StepEvent, None]:
        begun = self._control.now()
        yield StepEvent(index=index, kind="began")
        last = ""
        try:
            async with aclosing(self._again_after_loss(step)) as said:
                while (text := await self._next(said, step.kind)) is not None:
                    last = text
                    yield StepEvent(index=index, kind="said", text=text, seconds=self._control.now() - begun)
        except (StepFailed, Aborted, HostRefused) as failure:
            yield StepEvent(
                index=index, kind="failed", text=_words(failure), seconds=self._control.now() - begun
            )
            raise
        seconds = self._control.now() - begun
        self._engine_s += seconds if step.kind in ENGINE else self._request_s(step)
        outcome = last if step.kind in TELLING else ""
        yield StepEvent(index=index, kind="done", text=outcome, seconds=seconds)

    def _request_s(self, step: Step) -> float:
        """Of a proof, what the servers took to answer its request."""
        deployment = self._work.keeping.deployment
        proof = deployment.proof if deployment is not None and step.kind == "prove" else None
        return proof.seconds or 0.0 if proof is not None else 0.0

    async def _next(self, said: AsyncGenerator[str, None], kind: StepKind) -> str | None:
        """The next sentence; None at the end. Raises Aborted at once, but where something is being ended."""
        getting = asyncio.ensure_future(anext(said, None))
        if kind in ENDING:
            return await getting
        aborting = asyncio.ensure_future(self._aborted.wait())
        try:
            await asyncio.wait({getting, aborting}, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
            raise Aborted
        finally:
            for task in (getting, aborting):
                task.cancel()
            await asyncio.gather(getting, aborting, return_exceptions=True)

    async def _again_after_loss(self, step: Step) -> AsyncGenerator[str, None]:
        while True:
            try:
                async with aclosing(self._work.of(step)) as said:
                    async for text in said:
                        yield text
                return
            except ConnectionLost as error:
                yield f"{error}"
                await self._come_back()
                yield "connected again"

    async def _persistently(self, do: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do something on the host, over however many connections it takes."""
        while True:
            try:
                return await do()
            except ConnectionLost:
                await self._come_back()

    async def _come_back(self) -> None:
        await self._control.reconnected()
        end_at = self._control.now() + LOCK_AGAIN_S
        while True:
            try:
                return await self._control.lock(self._plan.title)
            except Locked:
                if self._control.now() > end_at:
                    raise
                await self._control.sleep(0.5)
            except ConnectionLost:
                await self._control.reconnected()

    async def _clean_up(self, failure: _Failure) -> AsyncGenerator[StepEvent, None]:
        """Nothing half is left: what was launched is stopped again."""
        targets = self._work.keeping.launched()
        index = len(self._plan.steps)
        begun = self._control.now()
        names = ", ".join(target.name for target in targets)
        yield StepEvent(index=index, kind="began", title=f"clean up: stop {names}")
        self._kind = "stop"
        try:
            for step in _cleaning(targets):
                async with aclosing(self._again_after_loss(step)) as said:
                    async for text in said:
                        seconds = self._control.now() - begun
                        yield StepEvent(index=index, kind="said", text=text, seconds=seconds)
        except (StepFailed, HostRefused) as worse:
            yield StepEvent(
                index=index, kind="failed", text=_words(worse), seconds=self._control.now() - begun
            )
            return
        await self._persistently(lambda: self._work.keeping.gone(_words(failure)))
        yield StepEvent(index=index, kind="done", seconds=self._control.now() - begun)

    def _result(self, failure: _Failure | None, left: str, seconds: float) -> PlanResult:
        state: Literal["done", "failed", "aborted"] = "done"
        if failure is not None:
            state = "aborted" if isinstance(failure, Aborted) else "failed"
        return PlanResult(
            state=state,
            sentence=self._outcome(failure, left),
            next=failure.next_step if isinstance(failure, StepFailed | HostRefused) else None,
            checks=self._work.checks,
            deployment=self._work.keeping.deployment,
            rollback=self._fallback if failure is not None and self._work.touched else None,
            seconds=seconds,
            overhead_s=max(0.0, seconds - self._engine_s) if failure is None else None,
        )

    def _outcome(self, failure: _Failure | None, left: str) -> str:
        if failure is None:
            return self._success()
        said = _words(failure).rstrip(".")
        if not self._work.touched:
            return f"{said}; nothing was changed"
        if left:
            return f"{said}; and what was launched could not be stopped: {left}"
        if self._work.keeping.launched() and self._kind == "stop":
            return f"{said}; what was launched has been stopped again, nothing of it runs"
        if self._kind in ENDING and not isinstance(failure, Aborted):
            return f"{said}; nothing new was launched"
        if self._kind in ("prove", "verify", "record"):
            return f"{said}; the servers go on running and are not called ready"
        return f"{said}; what ran before has been stopped, and nothing was launched"

    def _success(self) -> str:
        deployment = self._work.keeping.deployment
        if not self._plan.launches or deployment is None:
            return "stopped: no process lives, ports and GPUs are free"
        proof, verification = deployment.proof, deployment.verification
        took = "" if proof is None or proof.seconds is None else f" in {proof.seconds:.1f} s"
        return f"{deployment.profile.name} is up: proven{took}; {in_words(verification)}"


def _cleaning(targets: tuple[Target, ...]) -> tuple[Step, Step]:
    """End them; and see what they held free, for whoever goes back to another profile launches on it."""
    stop = Step(kind="stop", title="", waits_for="", limit_s=CLEAN_UP_S + GONE_S, targets=targets)
    ports = tuple(port for target in targets for port in target.ports)
    gpus = tuple(gpu for target in targets for gpu in target.gpus)
    free = Step(kind="free", title="", waits_for="", limit_s=FREE_S, targets=targets, ports=ports, gpus=gpus)
    return stop, free


def _words(failure: _Failure) -> str:
    return "aborted" if isinstance(failure, Aborted) else failure.sentence
