"""Output tokens of each second of a benchmark.

A request's tokens are known by its usage alone, and only at its end; when they came is known of its chunks.
Each of its chunks is therefore given the same share of its tokens. What all seconds hold is then exactly
what all requests held, also where a chunk carries several tokens (case F07).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, fsum

from .load import RequestTiming


def tokens_of(timing: RequestTiming) -> int:
    """By usage; without any, the number of its chunks, which is an estimate."""
    return len(timing.chunks) if timing.completion_tokens is None else timing.completion_tokens


def tokens_per_second(timings: Iterable[RequestTiming], duration: float) -> tuple[float, ...]:
    """In each second since the first dispatch; the last may be a part of one."""
    shares: list[list[float]] = [[] for _ in range(max(1, ceil(duration)))]
    for timing in timings:
        arrivals = timing.chunks or (timing.ended,)
        share = tokens_of(timing) / len(arrivals)
        for arrival in arrivals:
            shares[min(int(arrival), len(shares) - 1)].append(share)
    return tuple(fsum(second) for second in shares)


def tokens_per_chunk(timings: Sequence[RequestTiming]) -> float | None:
    """What a chunk held so far, to turn the chunks of a second into tokens; None: no request has ended."""
    chunks = sum(len(timing.chunks) for timing in timings if timing.ok)
    return sum(tokens_of(timing) for timing in timings if timing.ok) / chunks if chunks else None
