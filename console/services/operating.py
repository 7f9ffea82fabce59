"""Changes a host on the operator's word: makes plans from what is there, and has them carried out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence

from console.domain.bench.ab import Experiment
from console.domain.errors import ConnectionLost, ProfileError, ReadOnly, UsageError
from console.domain.launch import Launch, launches
from console.domain.operating import LastResult, ProfileEntry
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult
from console.domain.preflight import Check, in_short, refused
from console.domain.profile import Profile
from console.domain.resume import where_it_stands
from console.domain.run_record import Process
from console.profiles import Profiles
from console.profiles.draft import nearest
from console.services.execution import PlanExecution
from console.services.journal import Journal
from console.services.planning import Planning
from console.services.recorded_ab import RecordedAB
from console.services.recorded_execution import RecordedExecution
from console.services.telemetry import HostWatch
from console.services.watched_host import WatchedHost, locked


class HostOperator:
    """See Operator. `host` names it in the journal; `readonly` is a reason that cannot be taken back."""

    def __init__(
        self,
        watch: HostWatch,
        *,
        host: str,
        by: str,
        python: str | None,
        profiles: Callable[[], Profiles],
        journal: Journal,
        readonly: str | None = None,
    ) -> None:
        self._watch = watch
        self._control = WatchedHost(watch, by)
        self._planning = Planning(self._control, self._launches)
        self._host = host
        self._python = python
        self._load = profiles
        self._journal = journal
        self._fixed = readonly
        self._chosen = False
        self._last: dict[str, LastResult] = {}
        self._own: RecordedExecution | None = None

    def refusal(self) -> str | None:
        """See Operator."""
        if self._fixed is not None:
            return f"read-only: {self._fixed}"
        if self._chosen:
            return "read-only: switched on in this console"
        try:
            self._watch.link  # noqa: B018 - raises while there is none
        except ConnectionLost as error:
            return str(error)
        lock = self._control.records().lock
        if self._own is not None and self._own.under_way:
            return f"this console is carrying out a plan: {self._own.title}"
        return None if lock is None else str(locked(lock))

    def set_readonly(self, on: bool) -> None:
        """See Operator. The agent is told as well, now and after every reconnect."""
        if self._fixed is not None:
            raise ReadOnly(f"read-only: {self._fixed}", next_step="leave that out to change this host")
        self._chosen = on
        self._watch.set_readonly(on)

    async def refresh(self) -> None:
        """Read again how the profiles did last."""
        self._last = await self._journal.last_results(self._host)

    def profiles(self) -> tuple[ProfileEntry, ...]:
        """See Operator."""
        loaded = self._load()
        running = self._running_profile()
        entries = [
            ProfileEntry(name=name, profile=profile, last=self._last.get(name), running=name == running)
            for name, profile in loaded.profiles.items()
        ]
        entries += [ProfileEntry(name=_name_of(error), error=str(error)) for error in loaded.errors]
        return tuple(sorted(entries, key=lambda entry: (not entry.running, entry.name)))

    def _running_profile(self) -> str | None:
        records = self._control.records()
        alive = any(run.alive for run in records.of_deployment())
        return records.deployment.profile.name if records.deployment and alive else None

    def interrupted(self) -> str | None:
        """See Operator."""
        return where_it_stands(self._control.records())

    async def switch_plan(self, profile: str) -> Plan:
        """See Operator."""
        return await self._planning.switch(self._profile(profile))

    async def restart_plan(self) -> Plan:
        """See Operator. One that was interrupted is finished instead."""
        if self._control.records().interrupted:
            return await self._planning.resume(self._profile)
        return await self._planning.restart()

    async def stop_plan(self) -> Plan:
        """See Operator."""
        return await self._planning.stop()

    def _profile(self, name: str) -> Profile:
        loaded = self._load()
        if name in loaded.profiles:
            return loaded.profiles[name]
        for error in loaded.errors:
            if _name_of(error) == name:
                raise error
        raise ProfileError(
            f"no profile {name!r} for this host", next_step=nearest(name, sorted(loaded.profiles))
        )

    async def _launches(self, profile: Profile) -> tuple[Launch, ...]:
        """What the profile launches here: flags are spelled as the host's SGLang wants them."""
        python = profile.python or self._python or self._watch.link.hello.python
        facts = await self._control.inspect(profile, python)
        found = facts.pythons.get(python)
        return launches(profile, python, None if found is None else found.packages.get("sglang"))

    async def check(self, plan: Plan) -> tuple[Check, ...]:
        """See Operator."""
        return await self._control.preflight(plan)

    async def note_refusal(self, plan: Plan, checks: Sequence[Check]) -> None:
        """Write down that a plan was not begun, for its preflight refused it."""
        action = await self._journal.begin(self._host, plan, self._control.by)
        said = f"{in_short(refused(checks)).rstrip('.')}; nothing was changed"
        await self._journal.end(action, PlanResult(state="failed", sentence=said))

    def recorded(self, experiment: Experiment) -> Experiment:
        """The same, written down."""
        return RecordedAB(experiment, self._journal, self._host, self._control.by)

    def execute(self, plan: Plan, consent: Collection[Process] = ()) -> RecordedExecution:
        """See Operator."""
        if (why := self.refusal()) is not None:
            raise ReadOnly(why)
        for target in plan.foreign:
            if target.server not in consent:
                raise UsageError(
                    f"{target.name}, pid {target.pids[0]} of {target.owner}, was not launched from here",
                    next_step="confirm that it may be ended",
                )
        self._own = RecordedExecution(
            functools.partial(self._begin, plan), plan, self._journal, self._host, self._control.by
        )
        return self._own

    def _begin(self, plan: Plan, fallback: str | None) -> PlanExecution:
        records = self._control.records()
        runs = records.of_deployment() if plan.verb == "resume" else ()
        before = records.deployment
        own = plan.profile.name if plan.profile else None
        if fallback is None and before is not None and before.stage == "up" and before.profile.name != own:
            fallback = before.profile.name
        return PlanExecution(
            self._control,
            plan,
            deployment=records.deployment,
            runs=[run for run in runs if run.alive],
            fallback=fallback,
        )


def _name_of(error: ProfileError) -> str:
    return error.where.rpartition("/")[2].removesuffix(".toml")
