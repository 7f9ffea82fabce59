"""The journal: everything done to hosts from this machine, kept over the end of the console.

It only remembers: whatever is wrong with its file is said once, and what was to be written is done all the
same. The event loop never waits for the disk, nor for another console.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import platformdirs

from console.domain.errors import ConsoleError
from console.domain.journal_entry import JournalEntry, JournalStep, Mark, MarkKind, StepState
from console.domain.operating import LastResult
from console.domain.plan import Plan
from console.domain.plan_progress import EventKind, PlanResult, StepEvent
from console.domain.profile import Profile
from console.services.journal_file import JournalFile, JournalUnusable

ActionId = str
T = TypeVar("T")

STATES: dict[EventKind, StepState] = {
    "began": "running",
    "said": "running",
    "done": "done",
    "failed": "failed",
    "skipped": "skipped",
}


def journal_path() -> Path:
    """Where the journal is kept."""
    return platformdirs.user_data_path("dsv4-console") / "journal.db"


class Journal:
    """Writes and reads the journal; no method raises anything for what is wrong with the file."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        tell: Callable[[ConsoleError], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`tell` is called once, with what is wrong with the file."""
        self._file = JournalFile(path or journal_path())
        self._tell = tell
        self._clock = clock
        self._actions: dict[ActionId, _Action] = {}
        self.trouble: ConsoleError | None = None
        """What went wrong first, if anything did."""

    async def begin(self, host: str, plan: Plan, by: str, commands: Sequence[str] = ()) -> ActionId:
        """An action begins."""
        entry = JournalEntry(
            id=secrets.token_hex(6),
            host=host,
            verb=plan.verb,
            profile=None if plan.profile is None else plan.profile.name,
            by=by,
            begun_at=self._clock(),
            commands=tuple(commands),
        )
        action = self._actions[entry.id] = _Action(entry, plan)
        action.is_written = await self._write(lambda: self._file.add_action(entry))
        await self.mark(host, f"{entry.verb} {entry.profile or ''}".rstrip(), "action")
        return entry.id

    async def step(self, action: ActionId, event: StepEvent) -> None:
        """News of a step of it."""
        known = self._actions[action]
        if known.is_written:
            # Where the file fails, the steps that follow are not to wait for it each.
            known.is_written = await self._write(lambda: self._file.put_step(action, known.step(event)))

    async def end(self, action: ActionId, result: PlanResult) -> None:
        """An action has ended."""
        known = self._actions.pop(action)
        entry = known.ended(result, self._clock())
        profile = known.profile(result)
        await self._write(lambda: self._file.end_action(entry, profile))
        await self.mark(entry.host, _end_word(entry), "result")

    async def note(self, entry: JournalEntry) -> None:
        """Write an action that has no plan of its own, when it begins and again when it has ended."""
        await self._write(lambda: self._file.end_action(entry, None))

    async def mark(self, host: str, text: str, kind: MarkKind = "note") -> None:
        """Leave a mark at this moment."""
        mark = Mark(at=self._clock(), text=text, kind=kind)
        await self._write(lambda: self._file.add_mark(host, mark))

    async def marks(self, host: str, since: float) -> tuple[Mark, ...]:
        """The marks of a host from `since` on (seconds since the epoch), oldest first."""
        return await self._done(lambda: self._file.marks(host, since)) or ()

    async def entries(
        self, host: str | None = None, limit: int = 50, verb: str | None = None
    ) -> tuple[JournalEntry, ...]:
        """The newest actions, the newest first."""
        return await self._done(lambda: self._file.entries(host, limit, verb)) or ()

    async def last_results(self, host: str) -> dict[str, LastResult]:
        """How each profile did when it was last to be launched on a host, by its name."""
        launches = await self._done(lambda: self._file.last_launches(host)) or ()
        return {entry.profile: _last_result(entry) for entry in launches if entry.profile is not None}

    async def last_verified(self, host: str, other_than: str | None = None) -> Profile | None:
        """The profile that was last launched on a host and verified, as it was launched."""
        profiles = await self._done(lambda: self._file.verified_profiles(host)) or ()
        return next((profile for profile in profiles if profile.name != other_than), None)

    async def close(self) -> None:
        """Close the file; the journal can be used again."""
        await asyncio.to_thread(self._file.close)

    async def _write(self, write: Callable[[], None]) -> bool:
        """Whether it was written."""

        def written() -> bool:
            write()
            return True

        return await self._done(written) or False

    async def _done(self, work: Callable[[], T]) -> T | None:
        """What comes of it; None where the file cannot be used, which is told the first time."""
        try:
            return await asyncio.to_thread(work)
        except JournalUnusable as error:
            if self.trouble is None:
                self.trouble = error
                if self._tell is not None:
                    self._tell(error)
            return None


class _Action:
    """An action under way."""

    def __init__(self, entry: JournalEntry, plan: Plan) -> None:
        self._entry = entry
        self._plan = plan
        self.is_written = False

    def step(self, event: StepEvent) -> JournalStep:
        """One step of it as the journal keeps it."""
        planned = self._plan.steps[event.index : event.index + 1]
        return JournalStep(
            index=event.index,
            title=event.title or "".join(step.title for step in planned),
            state=STATES[event.kind],
            seconds=event.seconds,
            text=event.text,
        )

    def ended(self, result: PlanResult, now: float) -> JournalEntry:
        """The whole of it."""
        profile = self.profile(result)
        return msgspec.structs.replace(
            self._entry,
            profile=None if profile is None else profile.name,
            ended_at=now,
            state=result.state,
            sentence=result.sentence,
            seconds=result.seconds,
            verified=None if self._entry.verb == "stop" else _is_verified(result),
        )

    def profile(self, result: PlanResult) -> Profile | None:
        """What it led to, or for a stop what it ended."""
        if self._plan.profile is not None:
            return self._plan.profile
        return None if result.deployment is None else result.deployment.profile


def _is_verified(result: PlanResult) -> bool:
    deployment = result.deployment
    if result.state != "done" or deployment is None:
        return False
    proven = deployment.proof is not None and deployment.proof.passed
    return proven and deployment.verification is not None and deployment.verification.verified


def _end_word(entry: JournalEntry) -> str:
    if entry.state != "done":
        return entry.state
    return {None: "stopped", True: "verified", False: "not verified"}[entry.verified]


def _last_result(entry: JournalEntry) -> LastResult:
    return LastResult(
        at=entry.ended_at or entry.begun_at, sentence=_told(entry), verified=bool(entry.verified)
    )


def _told(entry: JournalEntry) -> str:
    """`verified after 38 s`, `failed: flags of decode refused`."""
    if entry.verified:
        return f"verified after {entry.seconds or 0.0:.0f} s"
    return entry.sentence if entry.state == "done" else f"{entry.state}: {entry.sentence}"
