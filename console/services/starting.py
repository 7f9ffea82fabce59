"""The steps of a plan that start servers and wait until they serve.

Each yields sentences on how far it is, and raises StepFailed when what it waits for does not come.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

from console.domain.plan import PREFILL_AHEAD_S, Step
from console.domain.profile import Limits
from console.domain.readiness import WORDLESS
from console.domain.run_record import RunRecord
from console.domain.server_view import ServerView
from console.services.host_control import HostControl
from console.services.step_failure import StepFailed

POLL_S = 0.25
LAST_WORDS_S = 2.0
"""That a process has ended is often known before its last lines, which say why."""
UNSEEN_S = 15.0
"""A process that was launched and is not seen as a server for so long never became one."""


async def pause_after_prefill(control: HostControl) -> None:
    """Give prefill its second, so that decode finds its bootstrap server."""
    end_at = control.now() + PREFILL_AHEAD_S
    while control.now() < end_at:
        await control.sleep(end_at - control.now())


async def wait_ready(
    control: HostControl, runs: Sequence[RunRecord], limits: Limits
) -> AsyncGenerator[str, None]:
    """Each run's own state machine must say ready."""
    begun = control.now()
    moved = begun
    told = ""
    while True:
        now = control.now()
        views = {run.name: control.view(run) for run in runs}
        for run in runs:
            await refuse_ended(control, run)
            _refuse_unseen(control, run, now - begun)
        if all(view is not None and view.state == "ready" for view in views.values()):
            return
        said = _how_far(views)
        if said != told and not _stalled(views):
            yield said
            told, moved = said, now
        if now - moved > limits.stall_s and _stalled(views):
            raise StepFailed(
                f"the start is stalled: {_how_far(views)}", "look at its log, then start it again"
            )
        if now - begun > limits.ceiling_s:
            raise StepFailed(
                f"not ready after {limits.ceiling_s:.0f} s: {said}",
                "look at its log, or raise limits.ceiling_s in the profile",
            )
        await control.sleep(POLL_S)


async def refuse_ended(control: HostControl, run: RunRecord) -> None:
    """Raises StepFailed for a run that failed or has no process any more, with the cause from its log."""
    if not _has_ended(control, run):
        return
    end_at = control.now() + LAST_WORDS_S
    while control.now() < end_at and _may_still_tell(control.view(run)):
        await control.sleep(POLL_S)
    raise await _end_of(control, run)


def _may_still_tell(view: ServerView | None) -> bool:
    """The process table is faster than the log: the end is seen before the last words are."""
    return view is not None and (view.phase != "failed" or WORDLESS in (view.reason or ""))


def _has_ended(control: HostControl, run: RunRecord) -> bool:
    view, record = control.view(run), _record_of(control, run)
    failed = view is not None and view.state in ("failed", "gone")
    return failed or (record is not None and not record.alive)


async def _end_of(control: HostControl, run: RunRecord) -> StepFailed:
    view, record = control.view(run), _record_of(control, run)
    if view is not None and view.state in ("failed", "gone"):
        return StepFailed(f"{run.name} failed: {view.reason or 'its process has ended'}", view.next)
    how = "" if record is None or record.exit_code is None else f" with {_exit_words(record.exit_code)}"
    words = await control.last_words(run)
    why = "" if words is None else f": {words.sentence}"
    return StepFailed(f"{run.name} ended{how}{why}", (words and words.next) or f"read its log: {run.log}")


def _record_of(control: HostControl, run: RunRecord) -> RunRecord | None:
    return next((each for each in control.records().runs if each.id == run.id), None)


def _refuse_unseen(control: HostControl, run: RunRecord, for_s: float) -> None:
    if control.view(run) is None and for_s > UNSEEN_S:
        raise StepFailed(f"{run.name} was launched and never became a server", f"read its log: {run.log}")


def _exit_words(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _stalled(views: Mapping[str, ServerView | None]) -> bool:
    return any(view is not None and view.phase == "stalled" for view in views.values())


def _how_far(views: Mapping[str, ServerView | None]) -> str:
    return "; ".join(f"{name}: {_state_words(view)}" for name, view in views.items())


def _state_words(view: ServerView | None) -> str:
    if view is None:
        return "launched"
    if view.phase == "warming up" and view.reason:
        return f"warming up, {view.reason}"
    return view.state if view.state == "ready" else view.reason or view.phase or view.state


async def wait_router(
    control: HostControl, run: RunRecord, workers: int, step: Step
) -> AsyncGenerator[str, None]:
    """The router says that it is ready, and has all its workers."""
    begun = control.now()
    told = ""
    while True:
        await refuse_ended(control, run)
        standing = await control.router(run.port)
        if standing.ready and standing.workers >= workers:
            return
        said = f"{standing.workers} of {workers} workers; {standing.sentence}".rstrip("; ")
        if said != told:
            yield said
            told = said
        if control.now() - begun > step.limit_s:
            raise StepFailed(f"the router does not serve: {said}", "read the router's log")
        await control.sleep(POLL_S)
