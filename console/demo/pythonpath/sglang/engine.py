"""The simulated scheduler: what the server does, second by second.

The simulated users' requests are arithmetic (demohost.load); real ones are counted in and out, and get their
share of the same speed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from demohost.load import (
    CACHED_TOKENS,
    IDLE,
    MOST_PROMPT_TOK_S,
    MOST_RUNNING,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    Load,
    decode_tok_s,
    load_at,
)

from sglang import nccl
from sglang.memory import MemoryPlan
from sglang.metrics import Metrics
from sglang.server_args import ServerArgs

STREAMED = ("is_streaming", "true")
PREFILL_TOK_S = 9400.0
"""What prefill computes a second when it has nothing else to do."""
MB_PER_TOKEN = 0.07
"""KV cache of one token, as it is transferred."""
TRANSFER_GB_S = 12.3
_TIMES_WARMTH_S = 20.0
_LONGEST_STEP_S = 5.0


class Finished(NamedTuple):
    """One request that is done; times in seconds."""

    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    ttft_s: float
    latency_s: float


class Engine:
    """One server's work. `advance` brings it up to an instant; everything else is as of then."""

    def __init__(self, args: ServerArgs, plan: MemoryPlan, metrics: Metrics, now: float) -> None:
        self.metrics = metrics
        self.load: Load = IDLE
        self.real = 0
        """Real requests that it works on."""
        self.warmth = 0.0
        self.iterations = 0.0
        """Decode steps so far."""
        self.finished = 0
        """Requests of simulated users that are done."""
        self._args, self._plan = args, plan
        self._now = now
        self._fractions: dict[str, float] = {}
        self._random = random.Random(args.port)
        self._speed = nccl.decode_speed() if args.tp_size > 1 else 1.0

    @property
    def running(self) -> int:
        """Requests in the running batch."""
        return self.real + (0 if self._args.role == "prefill" else self.load.running)

    @property
    def queued(self) -> int:
        """Requests that wait for a place."""
        return self.load.queued

    @property
    def tok_s_each(self) -> float:
        """Tokens a second that one running request gets; that of a lone one when there is none."""
        running = max(1, self.running)
        return self._speed * decode_tok_s(running, self._args.accept_length) / running

    @property
    def used_tokens(self) -> int:
        """Tokens in the KV cache that running requests hold."""
        held = self.running * (PROMPT_TOKENS + OUTPUT_TOKENS // 2)
        if self._args.role == "prefill":
            held = round(self.load.swell * 3 * PROMPT_TOKENS)
        return min(self._plan.tokens, held)

    @property
    def usage(self) -> float:
        """Share of the KV cache in use."""
        return self.used_tokens / self._plan.tokens

    @property
    def intensity(self) -> float:
        """How hard the GPUs work, 0 to 1."""
        prefill = min(1.0, self.load.prompt_tok_s / MOST_PROMPT_TOK_S + 0.2 * self.real)
        decode = min(1.0, self.running / MOST_RUNNING)
        return {"prefill": prefill, "decode": decode, "single": max(prefill, decode)}[self._args.role]

    def advance(self, now: float, flowing: bool) -> None:
        """Do what was to do since the last time. Simulated users come only when requests can flow."""
        seconds = min(_LONGEST_STEP_S, max(0.0, now - self._now))
        self._now = now
        self.load = load_at(now) if flowing else IDLE
        self.warmth += (self.intensity - self.warmth) * min(1.0, seconds / _TIMES_WARMTH_S)
        if self._args.role != "decode":
            self._prefill(seconds)
        if self._args.role != "prefill":
            self._decode(seconds)
        elif self.load.prompt_tok_s:
            self._finish_each(self.load.prompt_tok_s * seconds / (PROMPT_TOKENS - CACHED_TOKENS))

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """One real request is being worked on."""
        self.real += 1
        try:
            yield
        finally:
            self.real -= 1

    def count_prefilled(self, computed: float, cached: float) -> None:
        """Prompt tokens that were computed, and that came from the prefix cache."""
        tokens = self.metrics.realtime_tokens
        tokens.add(self._whole("computed", computed), ("mode", "prefill_compute"))
        tokens.add(self._whole("cached", cached), ("mode", "prefill_cache"))

    def count_decoded(self, count: float) -> None:
        """Tokens that were generated."""
        self.metrics.realtime_tokens.add(self._whole("decoded", count), ("mode", "decode"))

    def finish(self, request: Finished) -> None:
        """A request is done: what SGLang counts only then."""
        metrics = self.metrics
        metrics.requests.add(1, STREAMED)
        metrics.prompt_tokens.add(request.prompt_tokens, STREAMED)
        metrics.generation_tokens.add(request.generated_tokens, STREAMED)
        metrics.prompt_lengths.observe(request.prompt_tokens)
        metrics.generation_lengths.observe(request.generated_tokens)
        metrics.e2e.observe(request.latency_s, STREAMED)
        if request.cached_tokens:
            metrics.cached_tokens.add(request.cached_tokens, ("cache_source", "device"))
        if self._args.role != "single":
            self._count_transfer(request.prompt_tokens)
        if self._args.role != "prefill":
            metrics.ttft.observe(request.ttft_s, STREAMED)
            if request.generated_tokens > 1:
                metrics.itl.observe((request.latency_s - request.ttft_s) / (request.generated_tokens - 1))

    def _prefill(self, seconds: float) -> None:
        computed = self.load.prompt_tok_s * seconds
        self.count_prefilled(computed, computed * CACHED_TOKENS / (PROMPT_TOKENS - CACHED_TOKENS))

    def _decode(self, seconds: float) -> None:
        if not self.running:
            return
        each = self.tok_s_each
        generated = each * self.load.running * seconds
        self.iterations += each / self._args.accept_length * seconds
        self.count_decoded(generated)
        self._finish_each(generated / OUTPUT_TOKENS)

    def _finish_each(self, share: float) -> None:
        for _ in range(self._whole("finished", share)):
            self.finished += 1
            self.finish(self._simulated_request())

    def _simulated_request(self) -> Finished:
        generated = 1 if self._args.role == "prefill" else round(self._random.gauss(OUTPUT_TOKENS, 90)) % 2000
        ttft = self._random.uniform(0.31, 0.62) + 0.35 * self.load.queued
        latency = ttft + generated / self.tok_s_each if generated > 1 else ttft
        self.metrics.queue_time.observe(0.3 * self.load.queued + self._random.uniform(0.0, 0.012))
        prompt = round(self._random.gauss(PROMPT_TOKENS, 1500))
        return Finished(max(300, prompt), CACHED_TOKENS, max(1, generated), ttft, latency)

    def _count_transfer(self, prompt_tokens: int) -> None:
        metrics, megabytes = self.metrics, prompt_tokens * MB_PER_TOKEN
        metrics.transfer_bootstrap.observe(self._random.uniform(0.8, 4.0))
        metrics.transfer_alloc.observe(self._random.uniform(0.4, 1.6) + 40.0 * self.load.queued)
        if self._args.role == "prefill":
            speed = TRANSFER_GB_S * self._random.uniform(0.8, 1.1)
            metrics.transfer_speed.observe(speed)
            metrics.transfer_total.observe(megabytes)
            metrics.transfer_latency.observe(megabytes / speed)

    def _whole(self, what: str, amount: float) -> int:
        """The whole part; the rest is kept for the next time."""
        amount += self._fractions.get(what, 0.0)
        self._fractions[what] = amount % 1.0
        return int(amount)
