"""What must hold on the host before a plan touches anything, judged from facts. Pure.

`judge` asks nothing of the host: `paths_of` says which paths must have been looked for, `all_ports` of the
launches which ports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from console.domain.host_facts import FlagChecks, Holders, HostFacts
from console.domain.launch import Launch
from console.domain.plan import Target
from console.domain.profile import Profile
from console.domain.profile_problems import problems

from .check import Check, Outcome, ok, refusal, warning
from .holders import check_gpus, check_ports, check_restarts
from .machine import check_machine
from .paths import check_paths, paths_of
from .software import check_flags, check_python

__all__ = ["Check", "Outcome", "in_short", "judge", "paths_of", "refused"]


def refused(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Those that forbid the plan."""
    return tuple(check for check in checks if check.outcome == "refused")


def in_short(refusals: Sequence[Check]) -> str:
    """The first of those that forbid the plan, and how many more there are."""
    more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
    return refusals[0].told + more


def judge(
    profile: Profile,
    launches: Sequence[Launch],
    facts: HostFacts,
    holders: Holders,
    flags: FlagChecks,
    ending: Sequence[Target],
    *,
    now: float | None = None,
) -> tuple[Check, ...]:
    """Everything that was looked at, what is well included.

    `ending` are the servers that the plan ends first: what they hold now will be free. `flags` answers for
    the launches in their order. `now` is seconds since the epoch on the host's clock, for the age of holders.
    """
    software = tuple(check_python(profile, launches[0].argv[0], facts))
    # Where there is no SGLang, its parser has nothing to say.
    parsed = () if refused(software) else check_flags(launches, flags)
    return (
        *_agreement(profile),
        *software,
        *parsed,
        *check_paths(profile, facts),
        *check_gpus(profile, facts, holders, ending, now),
        *check_ports(profile, launches, holders, ending, now),
        *check_machine(profile, facts, ending),
        *check_restarts(holders, ending),
        *_of_others(facts.user, ending),
    )


def _agreement(profile: Profile) -> Iterator[Check]:
    """Case D08: settings that only the first request would compare."""
    found = problems(profile)
    yield from (refusal("profile", problem, f"correct {profile.file}") for problem in found)
    if not found:
        agreed = ", and both roles agree" if profile.kind == "pd" else ""
        yield ok("profile", f"{profile.name} contradicts itself nowhere{agreed}")
    if profile.known_failure:
        yield warning("profile", f"experimental: {profile.known_failure}")


def _of_others(user: str, ending: Sequence[Target]) -> Iterator[Check]:
    for target in ending:
        if not target.is_foreign:
            continue
        whose = f" of user {target.owner}" if target.owner else ""
        sentence = f"was not launched by the console: pid {', '.join(map(str, target.pids))}{whose}"
        if target.owner in (None, user) or user == "root" or target.sudo:
            yield warning(target.name, sentence, "it is ended only after a confirmation of its own")
        else:
            yield refusal(
                target.name,
                f"{sentence}, whose processes {user} may not end",
                f"ask {target.owner} to end it, or take other GPUs and ports",
            )
