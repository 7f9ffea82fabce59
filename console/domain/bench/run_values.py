"""What one run says of a metric, and how sure its own requests make it.

A run is one result; throughput and mean ITL are a quotient of sums over its requests, TTFT, TPOT and E2E a
median over them. How far another sample of requests would have moved it, a bootstrap tells: blocks of as
many requests as were in flight together are drawn with replacement (requests of one batch wait for each
other, so single ones are not independent), the number in flight stays as it was, and throughput is
concurrency x tokens / latencies. At C=1, where requests follow each other, that is exactly tokens / sum of
latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import log, sqrt
from random import Random
from statistics import median, stdev
from typing import Literal, NamedTuple, get_args

from .figures import tpot_of
from .load import RequestTiming
from .result import BenchResult
from .seconds import tokens_of

Metric = Literal["output_throughput", "ttft", "tpot", "itl", "e2e"]
"""Mean output tokens per second; medians of TTFT, TPOT and latency in ms; mean of the gaps between chunks in
ms."""
METRICS: tuple[Metric, ...] = get_args(Metric)
RESAMPLES = 400
_BLOCKS = 4
"""Of fewer, a bootstrap says nothing."""


class Sampling(NamedTuple):
    """The standard error of a run's logarithm by its requests."""

    error: float
    df: float
    """Degrees of freedom: one less than the blocks."""


def value(result: BenchResult, metric: Metric) -> float | None:
    """Of the whole run; None: it has none."""
    figures = result.figures
    found = {
        "output_throughput": figures.output_throughput,
        "ttft": figures.ttft_ms.median,
        "tpot": figures.tpot_ms.median,
        "itl": figures.itl_ms.mean,
        "e2e": figures.e2e_latency_ms.median,
    }[metric]
    return found or None


def sampling(result: BenchResult, metric: Metric, rng: Random) -> Sampling | None:
    """None: its requests were not kept, or are too few."""
    samples = _samples(result.requests, metric)
    width = max(1, result.context.max_concurrency)
    blocks = [samples[at : at + width] for at in range(0, len(samples), width)]
    if len(blocks) < _BLOCKS:
        return None
    statistic = _ratio if metric in ("output_throughput", "itl") else _median
    drawn = [log(statistic([*chain(*rng.choices(blocks, k=len(blocks)))])) for _ in range(RESAMPLES)]
    # The spread of a resampled mean is too small by this factor (Efron and Tibshirani 1993, section 6.5).
    return Sampling(stdev(drawn) * sqrt(len(blocks) / (len(blocks) - 1)), len(blocks) - 1)


Sample = tuple[float, float]
"""What is summed above the line, and below; of a median, the value and 1."""


def _samples(timings: Sequence[RequestTiming], metric: Metric) -> list[Sample]:
    """Of the requests that succeeded, as they were sent."""
    made = _SAMPLE[metric]
    sent = sorted((timing for timing in timings if timing.ok), key=lambda timing: timing.sent)
    return [sample for timing in sent if (sample := made(timing)) is not None and min(sample) > 0]


def _throughput(timing: RequestTiming) -> Sample:
    return float(tokens_of(timing)), timing.latency


def _gaps(timing: RequestTiming) -> Sample | None:
    return (
        (timing.chunks[-1] - timing.chunks[0], len(timing.chunks) - 1.0) if len(timing.chunks) > 1 else None
    )


def _alone(seconds: float | None) -> Sample | None:
    return None if seconds is None else (seconds, 1.0)


_SAMPLE: dict[Metric, Callable[[RequestTiming], Sample | None]] = {
    "output_throughput": _throughput,
    "ttft": lambda timing: _alone(timing.ttft),
    "tpot": lambda timing: _alone(tpot_of(timing)),
    "itl": _gaps,
    "e2e": lambda timing: _alone(timing.latency),
}


def _ratio(samples: Sequence[Sample]) -> float:
    return sum(above for above, _ in samples) / sum(below for _, below in samples)


def _median(samples: Sequence[Sample]) -> float:
    return median(above for above, _ in samples)
