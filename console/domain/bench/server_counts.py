"""What the servers' own counters say of a measurement: two scrapes of each server, before and after.

The first scrape is taken before the warm-up, the second after the last answer. A server that was restarted in
between has counted anew: it says nothing (case F01).
"""

from __future__ import annotations

from collections.abc import Mapping

from console.domain.metrics import Reading, rates

Move = tuple[Reading, Reading]
"""Of one server, before and after."""


def moves(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> list[Move]:
    """Of the servers that were read both times and ran all the while."""
    both = [(was, after[name]) for name, was in before.items() if name in after]
    return [move for move in both if rates(*move).gap is None and not _fell(*move)]


def server_tokens(found: list[Move], warmup: int) -> int | None:
    """Output tokens of requests that ended, less those of the warm-up; None: no server tells, or fewer
    than those.

    Of a pair both roles count a request; the one that generates counts more.
    """
    counts = [
        now.finished_tokens - (was.finished_tokens or 0.0)
        for was, now in found
        if now.finished_tokens is not None
    ]
    counted = round(max(counts)) - warmup if counts else -1
    return counted if counted >= 0 else None


def cached_share(found: list[Move]) -> float | None:
    """Of the prompt tokens meanwhile, those that came from a prefix cache, 0 to 1; None: no server tells."""
    cached = sum((now.cached_tokens or 0.0) - (was.cached_tokens or 0.0) for was, now in found)
    computed = sum((now.prompt_tokens or 0.0) - (was.prompt_tokens or 0.0) for was, now in found)
    return cached / (cached + computed) if computed > 0 else None


def other_load(counted: int | None, ours: int, concurrency: int) -> float | None:
    """Mean requests of others in flight, as if each made tokens as fast as one of ours; gauges cannot tell,
    as they are up to 30 s old.

    `ours`: output tokens of all requests of the measurement, those of failed ones too, which the servers may
    have counted.
    """
    return None if counted is None or ours == 0 else max(0, counted - ours) / ours * concurrency


def transfer_speed(found: list[Move]) -> float | None:
    """Mean GB/s over the KV transfers meanwhile; None: there were none, or no server tells."""
    for was, now in found:
        if now.transfer_speed_sum is not None and now.transfers is not None:
            count = now.transfers - (was.transfers or 0.0)
            if count > 0:
                return (now.transfer_speed_sum - (was.transfer_speed_sum or 0.0)) / count
    return None


def _fell(was: Reading, now: Reading) -> bool:
    fields = ("finished_tokens", "cached_tokens", "transfers")
    pairs = ((getattr(was, field), getattr(now, field)) for field in fields)
    return any(before is not None and after is not None and after < before for before, after in pairs)
