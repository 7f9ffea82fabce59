"""What screens and verbs ask of whoever measures, and what they are told while it goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, Protocol

import msgspec

from .load import LoadRequests, LoadSecond
from .result import BenchResult

Cache = Literal["nonce", "flushed", "warm"]


class BenchAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured; None is left to the profile's [bench], else to BenchShape's defaults."""

    concurrency: tuple[int, ...] | None = None
    """One result for each, in this order."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompts: int | None = None
    """Requests at each concurrency. Default: see prompts_for()."""
    repeats: int = 1
    cache: Cache = "nonce"
    seed: int | None = None
    """Of the first measurement's prompts; the next have the next. None: one is drawn, for new prompts."""
    series: str = ""
    """Id that the results get in common; empty: a new one."""
    total_limit_s: float | None = None
    label: str = ""


class BenchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement that could begin."""

    ask: BenchAsk
    """With everything filled in."""
    host: str
    target: str
    """As `router :8000 of pd-ll`."""
    url: str
    model: str
    profile: str | None = None
    serving: int | None = None
    """Requests of others that are served at this moment; None: not known."""
    seconds: float | None = None
    """About how long it takes, by what is known of the target; None: nothing is."""
    warnings: tuple[str, ...] = ()


class BenchPhase(msgspec.Struct, frozen=True, kw_only=True):
    """What goes on."""

    text: str
    concurrency: int | None = None
    number: int = 1
    of: int = 1
    """Which of the results of this plan it is for."""


class BenchStopped(msgspec.Struct, frozen=True, kw_only=True):
    """It cannot go on; what was measured before has been told and is kept."""

    reason: str
    next: str | None = None


BenchEvent = BenchPhase | LoadSecond | LoadRequests | BenchResult | BenchStopped


class BenchRun(Protocol):
    """A measurement under way."""

    def events(self) -> AsyncGenerator[BenchEvent, None]:
        """Measure; one BenchResult for each concurrency and repeat, already kept. Raises HostError."""
        ...

    def abort(self) -> str:
        """Cut it: what was measured is kept as partial. Says so."""
        ...


class Bencher(Protocol):
    """Measures one host, and keeps the results of all."""

    def refusal(self) -> str | None:
        """Why nothing can be measured now; None: it can."""
        ...

    async def plan(self, ask: BenchAsk) -> BenchPlan:
        """Raises NotRunning when nothing is ready to be measured, UsageError for a shape that cannot be."""
        ...

    def run(self, plan: BenchPlan) -> BenchRun:
        """Begin. Raises ReadOnly."""
        ...

    async def history(
        self, *, host: str | None = None, profile: str | None = None, limit: int = 100
    ) -> tuple[BenchResult, ...]:
        """The newest results first, without their requests."""
        ...

    async def result(self, id: str) -> BenchResult:
        """One result with its requests; `id` may be the beginning of one. Raises UsageError."""
        ...

    async def delete(self, id: str) -> None:
        """Forget a result. Raises UsageError."""
        ...


def prompts_for(concurrency: int) -> int:
    """Requests at one concurrency: enough for a median at C=1, and several rounds above."""
    return max(10, 6 * concurrency)
