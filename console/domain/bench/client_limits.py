"""Why the load generator may have been what limited a result (case F13).

Thresholds: above 70 % of a core the generator's own work delays what it measures (httpx on one core: 10,000
chunks a second at its end, and biased gaps from half of that). A loop lag of 1 ms at its 95th percentile is
as long as the gaps that a fast server makes. Below 85 % of the asked concurrency the server was offered less
than it was to be measured with; starting and running out cost a run of six rounds less than that.
"""

from __future__ import annotations

from collections.abc import Iterator

from .load import LoadDone

MOST_CPU_PCT = 70.0
MOST_LAG_P95_MS = 1.0
LEAST_IN_FLIGHT = 0.85
"""Of the concurrency that was asked for."""


def client_limits(done: LoadDone, in_flight: float, concurrency: int) -> str | None:
    """All reasons in one sentence; None: the client was not the limit.

    `in_flight`: mean number of requests.
    """
    return "; ".join(_reasons(done, in_flight, concurrency)) or None


def _reasons(done: LoadDone, in_flight: float, concurrency: int) -> Iterator[str]:
    if done.cpu_pct > MOST_CPU_PCT:
        yield f"the busiest worker took {done.cpu_pct:.0f} % of a core, above {MOST_CPU_PCT:.0f} %"
    if done.lag_p95_ms > MOST_LAG_P95_MS:
        yield f"its loop lagged {done.lag_p95_ms:.1f} ms at p95, above {MOST_LAG_P95_MS:g} ms"
    if in_flight < LEAST_IN_FLIGHT * concurrency:
        yield f"only {in_flight:.1f} of {concurrency} requests were in flight on average"
