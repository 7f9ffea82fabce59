"""An experiment that measures two profiles in turn, A B B A …, and what came of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, Protocol

import msgspec

from console.domain.plan import Plan
from console.domain.plan_progress import PlanEvent

from .benching import BenchEvent
from .comparability import several
from .comparison import Comparison, in_words
from .result import BenchResult

Side = Literal["A", "B"]


class ABSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """A switch begins; the events of this plan follow."""

    plan: Plan
    side: Side | None
    """Which is to be measured then; None: the way back to what ran before."""
    number: int
    of: int


class ABFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found at one concurrency."""

    concurrency: int
    comparisons: tuple[Comparison, ...]
    """Of each metric that all results have; the first is of the output throughput."""
    obstacles: tuple[str, ...] = ()
    """Why the sides cannot be compared here, beside the settings that are the experiment: no verdict."""

    @property
    def answered(self) -> bool:
        """There is a verdict on the output throughput."""
        return not self.obstacles and bool(self.comparisons) and self.comparisons[0].verdict is not None


class ABResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end; the results have been told and kept before."""

    profile_a: str
    profile_b: str
    order: tuple[Side, ...]
    """As it was measured."""
    a: tuple[BenchResult, ...]
    """At each concurrency one for each repeat, without requests."""
    b: tuple[BenchResult, ...]
    findings: tuple[ABFinding, ...] = ()
    """One for each concurrency that both sides were measured at."""
    settings: int
    """How many settings differ between the profiles."""
    before: str | None = None
    """The profile that ran before."""
    runs_again: bool = False
    """It is up and proven once more, or never was taken down."""
    stopped: str | None = None
    """Why it ended before its time."""
    next: str | None = None

    @property
    def answered(self) -> bool:
        """There is a verdict at each concurrency, and what ran before runs again."""
        answered = bool(self.findings) and all(found.answered for found in self.findings)
        return self.stopped is None and answered and self.runs_again


ABEvent = ABSwitch | PlanEvent | BenchEvent | ABResult


class Experiment(Protocol):
    """An A/B under way."""

    def events(self) -> AsyncGenerator[ABEvent, None]:
        """Carry it out; the last event is an ABResult. Raises HostError when the host stays away."""
        ...

    def abort(self) -> str:
        """Ask it to end; what that will lead to, in a sentence."""
        ...


def order(repeats: int) -> tuple[Side, ...]:
    """A B B A A B …: each side as often, neither always first, so that a drift in time falls on both."""
    pairs: tuple[tuple[Side, Side], ...] = (("A", "B"), ("B", "A"))
    return tuple(side for number in range(repeats) for side in pairs[number % 2])


def switches(repeats: int) -> int:
    """How often the host is switched before the last measurement: none where a side follows itself."""
    sides = order(repeats)
    return sum(before != after for before, after in zip((None, *sides), sides, strict=False))


def settings_sentence(settings: int) -> str:
    """What may be said of the cause."""
    if settings == 0:
        return "no setting differs: this compares a profile with itself"
    if settings == 1:
        return "1 setting differs: the effect is its"
    return several(settings)


def in_short(result: ABResult) -> str:
    """What came of it: of each concurrency what its first metric, the output throughput, says."""
    sides = f"A = {result.profile_a}, B = {result.profile_b}"
    if result.stopped is not None:
        return f"{sides}; ended before its time: {result.stopped}"
    said = [_in_short(found) for found in result.findings]
    return "; ".join([sides, *(said or ["nothing to compare"]), settings_sentence(result.settings)])


def _in_short(found: ABFinding) -> str:
    if found.obstacles:
        return f"C={found.concurrency}: not comparable: {found.obstacles[0]}"
    told = in_words(found.comparisons[0]) if found.comparisons else "nothing to compare"
    return f"C={found.concurrency}: {told}"
