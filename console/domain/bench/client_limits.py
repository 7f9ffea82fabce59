"""Why the load generator may have been what limited a result (case F13).

Thresholds: above 70 % of a core the generator's own work delays what it measures (one worker on an idle
machine: 10,000 chunks a second are 60 %, 15,000 to 20,000 its end). A loop lag of 1 ms at its 95th
percentile is as long as the gaps that a fast server makes. Below 85 % of the asked concurrency, while there
still were requests to send, the server was offered less than it was to be measured with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .load import LoadDone, RequestTiming

MOST_CPU_PCT = 70.0
MOST_LAG_P95_MS = 1.0
LEAST_IN_FLIGHT = 0.85
"""Of the concurrency that was asked for."""
LEAST_S = 0.1
"""From the first dispatch to the last, for a mean between them."""


def in_flight(timings: Sequence[RequestTiming]) -> float | None:
    """Mean number of requests between the first dispatch and the last: after it there was none to send.

    None: all were sent at once.
    """
    last = max((timing.sent for timing in timings), default=0.0)
    seconds = sum(min(timing.ended, last) - timing.sent for timing in timings)
    return seconds / last if last > LEAST_S else None


def client_limits(done: LoadDone, in_flight: float | None, concurrency: int) -> str | None:
    """All reasons in one sentence; None: the client was not the limit. `in_flight`: see there."""
    return "; ".join(_reasons(done, in_flight, concurrency)) or None


def offered_less(in_flight: float | None, concurrency: int) -> bool:
    """Too few requests were in flight for what was asked."""
    return in_flight is not None and in_flight < LEAST_IN_FLIGHT * concurrency


def _reasons(done: LoadDone, in_flight: float | None, concurrency: int) -> Iterator[str]:
    if done.cpu_pct > MOST_CPU_PCT:
        yield f"the busiest worker took {done.cpu_pct:.0f} % of a core, above {MOST_CPU_PCT:.0f} %"
    if done.lag_p95_ms > MOST_LAG_P95_MS:
        yield f"its loop lagged {done.lag_p95_ms:.1f} ms at p95, above {MOST_LAG_P95_MS:g} ms"
    if offered_less(in_flight, concurrency):
        yield f"only {in_flight:.1f} of {concurrency} requests were in flight on average"
