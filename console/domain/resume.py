"""A plan whose console died in the middle: where it stands, and what would finish it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from .launch import Launch
from .plan import Plan, Step, switch_plan
from .profile import Profile
from .run_record import HostRecords

BEGUN = ("launch", "ready", "router", "prove", "verify", "record")
VERBS = {"switch": "switch to", "restart": "restart", "stop": "stop", "resume": "go on with"}


def where_it_stands(records: HostRecords) -> str | None:
    """One sentence about a plan that nobody carries out any more; None when there is none."""
    plan = records.plan
    if plan is None or not records.interrupted:
        return None
    title = plan.steps[plan.step] if plan.step < len(plan.steps) else "its end"
    what = f"{VERBS[plan.verb]} {plan.profile or ''}".rstrip()
    return (
        f"{plan.by} began to {what} and is gone since step {plan.step + 1} of {len(plan.steps)}"
        f" ({title}); {_living([run.name for run in records.of_deployment() if run.alive])}"
    )


def _living(names: Sequence[str]) -> str:
    if not names:
        return "nothing of it lives"
    first, last = names[:-1], names[-1]
    return f"{', '.join(first)} and {last} live" if first else f"{last} lives"


def resume_plan(profile: Profile, launches: Sequence[Launch], alive: Collection[str]) -> Plan | None:
    """What is left to do of a start, given the names of its runs that live.

    None when a server is missing: half a deployment is not completed, it is made anew.
    """
    servers = {launch.name for launch in launches if launch.role != "router"}
    if not servers <= set(alive):
        return None
    whole = switch_plan(profile, launches, ())
    steps = [_left(step, alive) for step in whole.steps if step.kind in BEGUN]
    return msgspec.structs.replace(
        whole,
        verb="resume",
        steps=tuple(step for step in steps if step is not None),
        consequence=f"What was begun goes on: {profile.name} is waited for, proven and compared.",
    )


def _left(step: Step, alive: Collection[str]) -> Step | None:
    if step.kind != "launch":
        return step
    missing = tuple(launch for launch in step.launches if launch.name not in alive)
    return msgspec.structs.replace(step, launches=missing) if missing else None
