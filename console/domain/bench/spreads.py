"""How values are spread, by one rule everywhere, and what too few of them cannot tell (case F12).

A percentile interpolates linearly between the two values next to it, as numpy's default does and sglang's
client with it. It is given only where at least one value in expectation lies above it: p90 from 10 values,
p95 from 20, p99 from 100. The standard deviation is that of the population.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev

from .result import Spread

ENOUGH = {90: 10, 95: 20, 99: 100}
"""How many values a percentile needs."""


def spread(values: Iterable[float]) -> Spread:
    """Of values in any order; of none, only that there are none."""
    ordered = sorted(values)
    if not ordered:
        return Spread(n=0)
    return Spread(
        n=len(ordered),
        mean=fmean(ordered),
        median=percentile(ordered, 50),
        std=pstdev(ordered),
        p90=_told(ordered, 90),
        p95=_told(ordered, 95),
        p99=_told(ordered, 99),
        max=ordered[-1],
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of at least one value, ascending."""
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def tail(spread: Spread) -> tuple[str, float] | None:
    """The farthest percentile that is known, with its name; of too few values their `max`."""
    for name in ("p99", "p95", "p90", "max"):
        value: float | None = getattr(spread, name)
        if value is not None:
            return name, value
    return None


def _told(ordered: Sequence[float], percent: int) -> float | None:
    return percentile(ordered, percent) if len(ordered) >= ENOUGH[percent] else None
