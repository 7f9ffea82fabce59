"""A plan: ordered steps as data, made from a profile and what was observed. Pure; shown before it runs.

The service that executes it does nothing that is not in its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from .launch import Launch
from .profile import Limits, Profile
from .steps import (
    FREE_S,
    GONE_S,
    PREFILL_AHEAD_S,
    Step,
    StepKind,
    Target,
    ended_names,
    ending_steps,
    log_of,
    preflight_step,
    record_step,
    starting_steps,
)

__all__ = [
    "FREE_S",
    "GONE_S",
    "PREFILL_AHEAD_S",
    "Plan",
    "Step",
    "StepKind",
    "Target",
    "Verb",
    "log_of",
    "restart_plan",
    "stop_plan",
    "switch_plan",
]

Verb = Literal["switch", "restart", "stop", "resume"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole change of the host."""

    verb: Verb
    profile: Profile | None = None
    """What it leads to; None for a stop."""
    steps: tuple[Step, ...]
    targets: tuple[Target, ...] = ()
    """Everything that it ends."""
    launches: tuple[Launch, ...] = ()
    """Everything that it starts."""
    consequence: str
    """One sentence: what is interrupted, for how long about."""

    @property
    def title(self) -> str:
        """`switch to pd-ll`, `restart pd-ll`, `stop decode :30001`."""
        name = self.profile.name if self.profile else ""
        if self.verb == "stop":
            return f"stop {', '.join(target.name for target in self.targets)}"
        words = {"switch": "switch to", "restart": "restart", "resume": "go on with"}
        return f"{words[self.verb]} {name}"

    @property
    def foreign(self) -> tuple[Target, ...]:
        """What it ends that the console did not start."""
        return tuple(target for target in self.targets if target.is_foreign)


def switch_plan(
    profile: Profile, launches: Sequence[Launch], running: Sequence[Target], limits: Limits | None = None
) -> Plan:
    """From what runs to the profile; `limits` are those of the profile that runs, where it is known."""
    return _change("switch", profile, launches, running, limits or Limits())


def restart_plan(profile: Profile, launches: Sequence[Launch], running: Sequence[Target]) -> Plan:
    """The same deployment anew, all of its roles: there is no restart of half a pair."""
    return _change("restart", profile, launches, running, profile.limits)


def stop_plan(running: Sequence[Target], limits: Limits | None = None) -> Plan:
    """End what runs; `limits` are those of its profile, where it is known."""
    known = limits or Limits()
    grace = known.drain_s if any(target.role == "router" for target in running) else known.stop_s
    return Plan(
        verb="stop",
        steps=(*ending_steps(running, known), record_step("the deployment is recorded as stopped")),
        targets=tuple(running),
        consequence=f"{ended_names(running)} will end; requests not done after {grace:.0f} s are cut off.",
    )


def _change(
    verb: Verb, profile: Profile, launches: Sequence[Launch], running: Sequence[Target], limits: Limits
) -> Plan:
    ending, starting = ending_steps(running, limits), starting_steps(profile, launches)
    if running:
        consequence = f"{ended_names(running)} will end; nothing is served until {profile.name} is proven."
    else:
        consequence = f"Nothing runs now that would be ended; {profile.name} will be launched."
    return Plan(
        verb=verb,
        profile=profile,
        steps=(preflight_step(profile, launches), *ending, *starting),
        targets=tuple(running),
        launches=tuple(launches),
        consequence=consequence,
    )
