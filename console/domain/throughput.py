"""How fast a deployment works at one instant."""

from __future__ import annotations

import msgspec


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Rates over the last scrape interval, summed over the servers that do the work.

    None is unreachable or unreadable; 0 is idle.
    """

    time: float
    """Seconds, on a clock that only goes forward; the chart's right edge."""
    gen_tok_s: float | None = None
    prompt_tok_s: float | None = None
    running: int | None = None
    queued: int | None = None
    source: str | None = None
    """Where the generation rate comes from: `counters`, `gauge` or `log`."""
    note: str | None = None
    """One sentence why there are no rates, when there are none."""
