"""Whether B is faster than A: intervals, a verdict, and what these data could not have shown.

Results of one side are repeats of it. Runs of the same settings differ by 1 to 3 % for reasons that no
request of one of them shows (clocks, placement, the order of batches), so it is runs that are compared:

- The unit is the logarithm of one run's metric; a ratio is a difference of logarithms.
- Two or more repeats: their mean, and its error by their own spread. That spread holds what requests add,
  too.
- One repeat: its error by a block bootstrap over its requests (run_values.py), and on top of that
  ASSUMED_NOISE between runs, which one run cannot show. An interval over requests alone would call A faster
  than A.
- The ratio B/A has a 95 % interval by Welch's t, its degrees of freedom by Welch and Satterthwaite. A
  bootstrap over three repeats instead is too sure: it draws from three values only, and finds a difference
  between A and A in one trial of five (measured, 2 % noise).

A difference is shown when the interval leaves out 1. Each metric has its own 5 % of error: of five compared
metrics one will mislead in up to a fifth of the comparisons, so decide beforehand which one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log, sqrt
from random import Random
from statistics import fmean, variance
from typing import Literal, NamedTuple

import msgspec

from console.domain.errors import ConsoleError

from .limited_sides import faster_though_limited, limit_notes, limited_sides
from .result import BenchResult
from .run_values import METRICS, Metric, sampling, value
from .student import quantile

Verdict = Literal["faster", "slower", "no difference shown"]
"""Of B, against A."""
NO_VERDICT = "no verdict"
ASSUMED_NOISE = 0.03
"""Standard deviation between runs, relative, where there is one run only."""
FINEST = 0.001
"""The same, at least: repeats that agree better do so by chance, or by rounding."""
_TWO_SIDED_95 = 0.975


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison."""

    repeats: int
    value: float
    """Of one run its metric, of several their geometric mean."""
    low: float
    """The 95 % interval."""
    high: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of B against that of A."""

    metric: Metric
    a: Side
    b: Side
    ratio: float
    """B / A."""
    low: float
    """The 95 % interval of the ratio."""
    high: float
    verdict: Verdict | None
    """None: the client may have been what made the difference, or what hid one (limited_sides.py)."""
    smallest_pct: float
    """Half the interval's width, in % of A: a measured difference below it could not have been shown.
    A true one of just this size would have been shown in about half of such experiments."""
    notes: tuple[str, ...] = ()
    """What the interval rests on where it does not rest on repeats, and what limited a side."""


class _Estimate(NamedTuple):
    mean: float
    """Of logarithms."""
    terms: tuple[tuple[float, float], ...]
    """What its variance is the sum of, each with its degrees of freedom."""


def compare(a: Sequence[BenchResult], b: Sequence[BenchResult], metric: Metric, seed: int = 0) -> Comparison:
    """Whether they may be compared at all, obstacles() of comparability.py says.

    Raises ConsoleError when a side has no value for this metric.
    """
    rng = Random(seed)
    first, second = _estimate("A", a, metric, rng), _estimate("B", b, metric, rng)
    difference = second.mean - first.mean
    half = _half_width(first.terms + second.terms)
    verdict = _verdict(difference, half, metric)
    stands = not limited_sides(a, b) or _in_spite_of_limits(a, b, metric, verdict)
    return Comparison(
        metric=metric,
        a=_side(a, first),
        b=_side(b, second),
        ratio=exp(difference),
        low=exp(difference - half),
        high=exp(difference + half),
        verdict=verdict if stands else None,
        smallest_pct=100 * (exp(half) - 1),
        notes=(*_notes("A", a), *_notes("B", b), *limit_notes(a, b)),
    )


def compare_all(a: Sequence[BenchResult], b: Sequence[BenchResult], seed: int = 0) -> tuple[Comparison, ...]:
    """Of every metric that both sides have."""
    both = [*a, *b]
    shared = [metric for metric in METRICS if all(value(result, metric) is not None for result in both)]
    return tuple(compare(a, b, metric, seed) for metric in shared)


def in_words(found: Comparison) -> str:
    """As `B is faster: +8.9 % (95 %: +6.2 to +11.7 %)`."""
    change = f"{_change(found.ratio)} % (95 %: {_change(found.low)} to {_change(found.high)} %)"
    if found.verdict is None:
        return f"{NO_VERDICT}: {change}; the client may have been the limit"
    if found.verdict != "no difference shown":
        return f"B is {found.verdict}: {change}"
    return f"no difference shown: {change}; only differences above {found.smallest_pct:.1f} % could have been"


def _estimate(name: str, results: Sequence[BenchResult], metric: Metric, rng: Random) -> _Estimate:
    values = [found for result in results if (found := value(result, metric)) is not None]
    if not values or len(values) < len(results):
        raise ConsoleError(
            f"{name} cannot be compared",
            cause=f"a result of it has no {metric}: no request succeeded that would tell",
            next_step="measure it again",
        )
    logs = [log(each) for each in values]
    if len(logs) > 1:
        between = max(variance(logs), FINEST**2)
        return _Estimate(fmean(logs), ((between / len(logs), len(logs) - 1),))
    within = sampling(results[0], metric, rng)
    terms = ((ASSUMED_NOISE**2, inf),) + (((within.error**2, within.df),) if within else ())
    return _Estimate(logs[0], terms)


def _half_width(terms: Sequence[tuple[float, float]]) -> float:
    """Of the 95 % interval; degrees of freedom by Welch and Satterthwaite."""
    total = sum(term for term, _ in terms)
    spent = sum(term**2 / df for term, df in terms)
    return quantile(_TWO_SIDED_95, total**2 / spent if spent else inf) * sqrt(total)


def _side(results: Sequence[BenchResult], estimate: _Estimate) -> Side:
    half = _half_width(estimate.terms)
    mean = estimate.mean
    return Side(repeats=len(results), value=exp(mean), low=exp(mean - half), high=exp(mean + half))


def _verdict(difference: float, half: float, metric: Metric) -> Verdict:
    if abs(difference) <= half:
        return "no difference shown"
    more_is_faster = metric == "output_throughput"
    return "faster" if (difference > 0) is more_is_faster else "slower"


def _in_spite_of_limits(
    a: Sequence[BenchResult], b: Sequence[BenchResult], metric: Metric, verdict: Verdict
) -> bool:
    shown = metric == "output_throughput" and verdict != "no difference shown"
    return shown and faster_though_limited(a, b) is not None


def _notes(name: str, results: Sequence[BenchResult]) -> list[str]:
    if len(results) > 1:
        return []
    assumed = f"{name} is one run: {ASSUMED_NOISE:.0%} between runs is assumed, not measured"
    return [assumed] if results[0].requests else [f"{assumed}; its requests were not kept"]


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}"
