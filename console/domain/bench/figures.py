"""From the times of requests to the figures of a benchmark, by the formulas of sglang's client.

Source: sglang 0.5.23, benchmark/serving.py, calculate_metrics. Over the requests that succeeded, with n
output tokens by usage, D seconds from the first dispatch to the end of the last request:

    output throughput  sum of n / D             TTFT     first chunk with text - sent
    input throughput   sum of prompts / D       latency  ended - sent
    total throughput   their sum                TPOT     (latency - TTFT) / (n - 1), of requests with n > 1
    request throughput completed / D            ITL      gaps between chunks with text
    concurrency        sum of latencies / D

Two things differ on purpose. D ends with the last request: sglang's goes on over a question to the server.
The best second counts tokens: sglang's counts chunks, so that with several tokens a chunk its peak falls
below its mean. Failures are counted and enter no time. Spreads are those of spreads.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

import msgspec

from .load import RequestTiming
from .result import Figures
from .seconds import tokens_of, tokens_per_second
from .spreads import spread


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests that have ended so far say; cheap enough for every second."""

    completed: int
    failed: int
    output_throughput: float
    """Tokens of ended requests over the time since the first dispatch: low at first, while none has ended."""
    ttft_ms: float | None = None
    """Median; None: no request has ended well."""
    tpot_ms: float | None = None
    """Median."""


def figures(
    timings: Sequence[RequestTiming], duration: float | None = None, asked: int | None = None
) -> Figures:
    """Of the measured requests of one run.

    `duration` in seconds: without it (the generator was lost) the last end that was told. `asked`: output
    tokens wanted of each request; an answer that stopped at its length with fewer is counted as short.
    """
    done = [timing for timing in timings if timing.ok]
    seconds = duration if duration is not None else _last_end(timings)
    output, prompts = sum(map(tokens_of, done)), sum(timing.prompt_tokens or 0 for timing in done)
    latencies = [timing.latency for timing in done]
    each_second = tokens_per_second(done, seconds)
    return Figures(
        duration=seconds,
        completed=len(done),
        failed=len(timings) - len(done),
        failures=dict(Counter(timing.failure for timing in timings if timing.failure is not None)),
        total_input_tokens=prompts,
        total_output_tokens=output,
        request_throughput=_rate(len(done), seconds),
        input_throughput=_rate(prompts, seconds),
        output_throughput=_rate(output, seconds),
        total_throughput=_rate(prompts + output, seconds),
        concurrency=_rate(sum(latencies), seconds),
        ttft_ms=spread(ttfts_ms(done)),
        tpot_ms=spread(tpots_ms(done)),
        itl_ms=spread(itls_ms(done)),
        itl_is_per_chunk=output > sum(len(timing.chunks) for timing in done),
        e2e_latency_ms=spread(latency * 1000 for latency in latencies),
        max_output_tokens_per_s=max(*each_second, _rate(output, seconds)) if done else None,
        tokens_estimated=any(timing.completion_tokens is None for timing in done),
        per_second=each_second if done else (),
        short=sum(_is_short(timing, asked) for timing in done),
    )


def running(timings: Sequence[RequestTiming], elapsed: float) -> Running:
    """`elapsed`: seconds since the first dispatch."""
    done = [timing for timing in timings if timing.ok]
    ttfts, tpots = [*ttfts_ms(done)], [*tpots_ms(done)]
    return Running(
        completed=len(done),
        failed=len(timings) - len(done),
        output_throughput=_rate(sum(map(tokens_of, done)), elapsed),
        ttft_ms=median(ttfts) if ttfts else None,
        tpot_ms=median(tpots) if tpots else None,
    )


def ttfts_ms(timings: Sequence[RequestTiming]) -> Iterator[float]:
    """Of the requests that succeeded."""
    return (timing.ttft * 1000 for timing in timings if timing.ok and timing.ttft is not None)


def tpots_ms(timings: Sequence[RequestTiming]) -> Iterator[float]:
    """Of the requests that succeeded with more than one token."""
    return (tpot * 1000 for timing in timings if timing.ok and (tpot := tpot_of(timing)) is not None)


def itls_ms(timings: Sequence[RequestTiming]) -> Iterator[float]:
    """All gaps between chunks of the requests that succeeded."""
    return (
        (after - before) * 1000
        for timing in timings
        if timing.ok
        for before, after in pairwise(timing.chunks)
    )


def tpot_of(timing: RequestTiming) -> float | None:
    """Seconds for each token after the first; None: there is none."""
    tokens = tokens_of(timing)
    return (timing.latency - timing.ttft) / (tokens - 1) if timing.ttft is not None and tokens > 1 else None


def _is_short(timing: RequestTiming, asked: int | None) -> bool:
    return asked is not None and timing.finish_reason == "length" and tokens_of(timing) < asked


def _last_end(timings: Sequence[RequestTiming]) -> float:
    return max((timing.ended for timing in timings), default=0.0)


def _rate(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
