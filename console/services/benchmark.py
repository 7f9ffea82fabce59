"""Benchmarks of a watched host: from what was asked to results that are kept."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from console.domain.bench.benching import (
    BenchAsk,
    BenchEvent,
    BenchPhase,
    BenchPlan,
    BenchStopped,
    prompts_for,
)
from console.domain.bench.prompts import Calibration
from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError, ReadOnly, UsageError
from console.domain.server_view import ServerView
from console.services.bench_load import calibrate_on
from console.services.bench_store import BenchStore
from console.services.bench_target import BenchTarget, drawn_seed, find_target
from console.services.measurement import Measurement
from console.services.telemetry import HostWatch

MOST_CONCURRENCY = 1024
MOST_PROMPTS = 100_000
SETTLE_S = 12.0
FREE_TOKENS_S = 50.0
"""Output tokens a second of one request, where nothing is known: only to say about how long it takes."""


class Benchmarks:
    """See Bencher."""

    def __init__(
        self,
        watch: HostWatch,
        *,
        host: str,
        demo: bool,
        store: BenchStore,
        refusal: Callable[[], str | None],
    ) -> None:
        self._watch = watch
        self._host = host
        self._demo = demo
        self._store = store
        self._refusal = refusal

    def refusal(self) -> str | None:
        """See Bencher."""
        return self._refusal()

    async def plan(self, ask: BenchAsk) -> BenchPlan:
        """See Bencher."""
        await self._settled()
        target = self._target()
        filled = filled_in(ask, target)
        serving = target.serving
        warnings = []
        if target.profile is not None and target.verified is not True:
            warnings.append("the settings of what runs are not verified against its profile")
        return BenchPlan(
            ask=filled,
            host=self._host,
            target=target.name,
            url=target.url,
            model=target.profile.model if target.profile else "default",
            profile=target.profile.name if target.profile else None,
            serving=serving,
            seconds=await self._seconds(filled, target),
            warnings=tuple(warnings),
        )

    async def _settled(self) -> None:
        """A console that has just connected has not asked the servers yet."""
        end_at = time.monotonic() + SETTLE_S
        while any(_unasked(view) for view in self._watch.server_views()) and time.monotonic() < end_at:
            await self._watch.change(0.5)

    async def _seconds(self, ask: BenchAsk, target: BenchTarget) -> float:
        """By the profile's last results, else its targets, else a guess that grows with the concurrency."""
        name = target.profile.name if target.profile else None
        known = {
            result.context.max_concurrency: result.figures.output_throughput
            for result in reversed(await self._store.history(host=self._host, profile=name))
            if result.figures.output_throughput
        }
        total = 0.0
        for concurrency in ask.concurrency or ():
            guess = target.shape.targets.get(concurrency) or FREE_TOKENS_S * concurrency**0.75
            tokens = ((ask.prompts or prompts_for(concurrency)) + concurrency) * (ask.output_tokens or 0)
            total += tokens / (known.get(concurrency) or guess)
        return total * ask.repeats

    def run(self, plan: BenchPlan) -> BenchmarkRun:
        """See Bencher."""
        if (why := self.refusal()) is not None:
            raise ReadOnly(why)
        return BenchmarkRun(self._watch, plan, self._store, host=self._host, demo=self._demo)

    def _target(self) -> BenchTarget:
        return find_target(self._watch.server_views(), self._watch.records)

    async def history(
        self, *, host: str | None = None, profile: str | None = None, limit: int = 100
    ) -> tuple[BenchResult, ...]:
        """See Bencher."""
        return await self._store.history(host=host, profile=profile, limit=limit)

    async def result(self, id: str) -> BenchResult:
        """See Bencher."""
        return await self._store.result(id)

    async def delete(self, id: str) -> None:
        """See Bencher."""
        await self._store.delete(id)


def _unasked(view: ServerView) -> bool:
    return view.state == "starting" and view.is_present and view.reason is None and view.health_note is None


def filled_in(ask: BenchAsk, target: BenchTarget) -> BenchAsk:
    """What was asked with what the profile says of it. Raises UsageError for what cannot be measured."""
    shape = target.shape
    filled = msgspec.structs.replace(
        ask,
        concurrency=ask.concurrency or shape.concurrency,
        input_tokens=ask.input_tokens or shape.input_tokens,
        output_tokens=ask.output_tokens or shape.output_tokens,
        # Another one each time: a second run must not find its prompts in the cache.
        seed=drawn_seed() if ask.seed is None else ask.seed,
    )
    for concurrency in filled.concurrency or ():
        if not 1 <= concurrency <= MOST_CONCURRENCY:
            raise UsageError(f"concurrency must be from 1 to {MOST_CONCURRENCY}, not {concurrency}")
    if filled.prompts is not None and not 1 <= filled.prompts <= MOST_PROMPTS:
        raise UsageError(f"prompts must be from 1 to {MOST_PROMPTS}, not {filled.prompts}")
    if (filled.output_tokens or 0) < 2:
        raise UsageError("a request of one token has no time per output token", next_step="ask for 2 or more")
    return filled


class BenchmarkRun:
    """See BenchRun."""

    def __init__(
        self, watch: HostWatch, plan: BenchPlan, store: BenchStore, *, host: str, demo: bool
    ) -> None:
        self._watch = watch
        self._plan = plan
        self._store = store
        self._host = host
        self._demo = demo
        self._stop = asyncio.Event()
        self.under_way = False
        """From the first event to the last."""

    def abort(self) -> str:
        """See BenchRun."""
        self._stop.set()
        return "what was measured is kept, marked partial"

    async def events(self) -> AsyncGenerator[BenchEvent, None]:
        """See BenchRun."""
        self.under_way = True
        try:
            async with aclosing(self._measured()) as events:
                async for event in events:
                    yield event
        finally:
            self.under_way = False

    async def _measured(self) -> AsyncGenerator[BenchEvent, None]:
        ask = self._plan.ask
        series = ask.series or secrets.token_hex(4)
        wanted = [each for _ in range(ask.repeats) for each in ask.concurrency or ()]
        try:
            yield BenchPhase(text="finding out how many tokens the words of prompts are", of=len(wanted))
            target = self._target()
            calibration = await calibrate_on(self._watch.client, target.port, target.api_key)
            for number, concurrency in enumerate(wanted, 1):
                if self._stop.is_set():
                    return
                measuring = self._measure(concurrency, number, len(wanted), series, calibration)
                async with aclosing(measuring) as events:
                    async for event in events:
                        yield event
        except ConsoleError as error:
            yield BenchStopped(reason=error.sentence, next=error.next_step or None)

    def _target(self) -> BenchTarget:
        return find_target(self._watch.server_views(), self._watch.records)

    async def _measure(
        self, concurrency: int, number: int, of: int, series: str, calibration: Calibration
    ) -> AsyncGenerator[BenchEvent, None]:
        measurement = Measurement(
            self._watch,
            self._target(),
            self._plan.ask,
            concurrency,
            seed=(self._plan.ask.seed or 0) + number - 1,
            series=series,
            host=self._host,
            demo=self._demo,
            store=self._store,
        )
        async with aclosing(measurement.events(self._stop, calibration)) as events:
            async for event in events:
                yield (
                    msgspec.structs.replace(event, number=number, of=of)
                    if isinstance(event, BenchPhase)
                    else event
                )
