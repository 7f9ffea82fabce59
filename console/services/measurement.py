"""One benchmark at one concurrency: the load, what servers and GPUs said meanwhile, and the result."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from math import ceil

from console.domain.bench.benching import BenchAsk, BenchEvent, BenchPhase, prompts_for
from console.domain.bench.client_limits import client_limits, in_flight, offered_less
from console.domain.bench.ending import partial
from console.domain.bench.figures import figures
from console.domain.bench.load import (
    LoadBegun,
    LoadDone,
    LoadEvent,
    LoadRequests,
    LoadSecond,
    LoadSpec,
    RequestTiming,
)
from console.domain.bench.prompts import Calibration, prompts
from console.domain.bench.result import BenchResult, Client, Context
from console.domain.bench.seconds import tokens_of
from console.domain.bench.server_counts import (
    Move,
    cached_share,
    moves,
    other_load,
    server_tokens,
    transfer_speed,
)
from console.domain.errors import ConnectionLost, ConsoleError, HostError
from console.domain.metrics import Reading, parse_reading
from console.services.bench_load import load
from console.services.bench_store import BenchStore
from console.services.bench_target import BenchTarget, settings_of
from console.services.gpu_means import GpuMeans
from console.services.telemetry import HostWatch

KEEP_EVERY_S = 3.0
"""A console that is killed loses no more than that."""
STREAMS_A_WORKER = 16
MOST_WORKERS = 4
UNDER_WAY = "the console ended while it measured"
"""Kept with what is measured so far, until the end."""

Counters = dict[str, Reading]


class Measurement:
    """Takes one measurement; `events` may be taken once."""

    def __init__(
        self,
        watch: HostWatch,
        target: BenchTarget,
        ask: BenchAsk,
        concurrency: int,
        *,
        seed: int,
        series: str,
        host: str,
        demo: bool,
        store: BenchStore,
    ) -> None:
        self._watch = watch
        self._target = target
        self._ask = ask
        self._concurrency = concurrency
        self._seed = seed
        self._series = series
        self._host = host
        self._demo = demo
        self._store = store
        self._id = secrets.token_hex(6)
        self._at = time.time()
        self._timings: list[RequestTiming] = []
        self._begun: LoadBegun | None = None
        self._warmed = 0
        """Requests of the warm-up that were answered."""
        self._seconds: list[LoadSecond] = []
        self._gpus = GpuMeans(target.gpus)
        self._kept_at = 0.0

    async def events(self, stop: asyncio.Event, calibration: Calibration) -> AsyncGenerator[BenchEvent, None]:
        """Everything until the result, which is the last event and kept. Raises HostError after it.

        Raises ConsoleError before it where caches cannot be emptied.
        """
        spec = self._spec(calibration)
        if self._ask.cache == "flushed":
            yield self._phase("emptying the prefix caches")
            await self._flush()
        yield self._phase(f"warming up with {len(spec.warmup)} requests")
        before = await self._counters()
        done: LoadDone | None = None
        lost: HostError | None = None
        try:
            loading = load(self._watch.link, spec, self._target.python, stop)
            async with aclosing(loading) as told:
                async for event in told:
                    if isinstance(event, LoadSecond | LoadRequests):
                        yield event
                    done = await self._take(event) or done
        except HostError as error:
            lost = error
        after = await self._counters_after(lost)
        why = partial(done, None if lost is None else lost.sentence, self._timings, self._concurrency)
        result = await asyncio.to_thread(self._result, done, before, after, why)
        await self._store.add(result)
        yield result
        if lost is not None:
            raise lost

    def _spec(self, calibration: Calibration) -> LoadSpec:
        ask, concurrency = self._ask, self._concurrency
        count = ask.prompts or prompts_for(concurrency)
        rng = random.Random(self._seed)
        length = ask.input_tokens or 1
        texts = prompts(count + concurrency, length, rng, calibration, warm=ask.cache == "warm")
        return LoadSpec(
            url=self._target.url,
            model=self._target.profile.model if self._target.profile else "default",
            prompts=texts[concurrency:],
            warmup=texts[:concurrency],
            output_tokens=ask.output_tokens or 2,
            concurrency=concurrency,
            workers=workers_for(concurrency),
            total_limit_s=ask.total_limit_s,
            api_key=self._target.api_key,
        )

    def _phase(self, text: str) -> BenchPhase:
        return BenchPhase(text=text, concurrency=self._concurrency)

    async def _flush(self) -> None:
        for name, port in self._target.servers.items():
            if not await self._watch.client.flush(port):
                raise ConsoleError(
                    f"{name} has not emptied its prefix cache",
                    cause="it does so only while it serves nobody",
                    next_step="measure again when nobody is served, or with the cache `nonce`",
                )

    async def _take(self, event: LoadEvent) -> LoadDone | None:
        match event:
            case LoadBegun():
                self._begun = event
            case LoadSecond(second=-1):
                self._warmed = event.done - event.failed
            case LoadSecond():
                self._seconds.append(event)
                self._gpus.take(self._watch.sample)
            case LoadRequests():
                self._timings += event.items
                await self._keep()
            case LoadDone():
                return event
        return None

    async def _keep(self) -> None:
        now = time.monotonic()
        if now - self._kept_at >= KEEP_EVERY_S:
            self._kept_at = now
            # Figures of a hundred thousand chunks take a tenth of a second, which a screen would stand still.
            await self._store.add(await asyncio.to_thread(self._result, None, {}, {}, UNDER_WAY))

    async def _counters(self) -> Counters:
        found: Counters = {}
        for name, port in self._target.servers.items():
            page = await self._watch.client.metrics(port)
            if page.text is not None:
                found[name] = parse_reading(page.text, time.monotonic())
        return found

    async def _counters_after(self, lost: HostError | None) -> Counters:
        """Nothing where the connection is lost: what was measured is kept without them."""
        if isinstance(lost, ConnectionLost):
            return {}
        try:
            return await self._counters()
        except ConnectionLost:
            return {}

    def _result(
        self, done: LoadDone | None, before: Counters, after: Counters, partial: str | None
    ) -> BenchResult:
        duration = done.duration_s if done else max((each.ended for each in self._timings), default=0.0)
        found = figures(self._timings, duration, self._ask.output_tokens)
        return BenchResult(
            id=self._id,
            at=self._at,
            series=self._series,
            label=self._ask.label,
            context=self._context(moves(before, after), duration, found.total_output_tokens),
            figures=found,
            client=self._client(done),
            partial=partial,
            requests=tuple(self._timings),
        )

    def _client(self, done: LoadDone | None) -> Client:
        cpu = done.cpu_pct if done else max((each.cpu_pct for each in self._seconds), default=0.0)
        lag = done.lag_max_ms if done else max((each.lag_ms for each in self._seconds), default=0.0)
        return Client(
            where="host",
            name=self._begun.client if self._begun else "n/a",
            workers=workers_for(self._concurrency),
            cpu_pct=cpu,
            lag_p95_ms=done.lag_p95_ms if done else lag,
            lag_max_ms=lag,
            limited=self._limits(done),
            offered_less=done is not None and offered_less(in_flight(self._timings), self._concurrency),
        )

    def _limits(self, done: LoadDone | None) -> str | None:
        if done is None:
            return None
        return client_limits(done, in_flight(self._timings), self._concurrency)

    def _context(self, moved: list[Move], duration: float, tokens: int) -> Context:
        target, ask = self._target, self._ask
        counted = server_tokens(moved, self._warmed * (ask.output_tokens or 0))
        ours = sum(map(tokens_of, self._timings))
        sample = self._watch.sample
        versions = {"sglang": target.version, "driver": sample.gpu.driver if sample else None}
        return Context(
            host=self._host,
            demo=self._demo,
            profile=target.profile.name if target.profile else None,
            settings=settings_of(target.profile) if target.profile else {},
            verified=target.verified,
            runs=target.runs,
            versions={name: version for name, version in versions.items() if version},
            model=target.profile.model if target.profile else None,
            input_tokens=ask.input_tokens or 0,
            output_tokens=ask.output_tokens or 0,
            max_concurrency=self._concurrency,
            prompts=ask.prompts or prompts_for(self._concurrency),
            seed=self._seed,
            cache=ask.cache,
            other_load=other_load(counted, ours, self._concurrency),
            gpu=self._gpus.means(duration, tokens),
            kv_transfer_gb_s=transfer_speed(moved),
            cached_share=cached_share(moved),
            server_tokens=counted,
        )


def workers_for(concurrency: int) -> int:
    """Processes of the generator: each is half a core at about 5,000 tokens a second, which 16 fast streams
    make; four are more than a server makes, however many streams it has."""
    return min(MOST_WORKERS, ceil(concurrency / STREAMS_A_WORKER))
