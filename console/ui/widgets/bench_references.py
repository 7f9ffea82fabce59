"""What a result stands against: the profile's target, and its last and best results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from console.domain.bench.comparability import obstacles
from console.domain.bench.comparison import NO_VERDICT, Comparison
from console.domain.bench.result import BenchResult
from console.domain.bench.targets import standing

from .bench_result import Reference, ago


def worth_reading(result: BenchResult, before: Sequence[BenchResult]) -> list[str]:
    """Ids of the last and of the best of the earlier results that can be compared; `before` in any order."""
    alike = [each for each in before if each.at < result.at and not obstacles((each,), (result,))]
    chosen = [max(alike, key=key, default=None) for key in (_time, _throughput)]
    return list(dict.fromkeys(each.id for each in chosen if each is not None))


def not_comparable(result: BenchResult, before: Sequence[BenchResult]) -> Iterator[Reference]:
    """Why the last one at this concurrency is not what the result stands against; none there can be."""
    concurrency = result.context.max_concurrency
    alike = [each for each in before if each.at < result.at and each.context.max_concurrency == concurrency]
    if (last := max(alike, key=_time, default=None)) is not None:
        first, *others = obstacles((last,), (result,))
        more = f"; {len(others)} more: c compares them" if others else ""
        yield Reference("last", None, f"{ago(last.at, result.at)}, cannot be compared (as A): {first}{more}")


def references(
    result: BenchResult, before: Sequence[BenchResult], targets: Mapping[int, float]
) -> list[Reference]:
    """`before` with their requests, so that a difference can be judged; `targets` in tok/s by concurrency.

    Hundreds of resamples: tens of milliseconds.
    """
    target = targets.get(result.context.max_concurrency)
    found = [] if target is None else [Reference("target", target, is_target=True)]
    if result.figures.completed:
        stands = standing(result, targets, before)
        found += _own("last", stands.last, max(before, key=_time, default=None), result)
        found += _own("best so far", stands.best, max(before, key=_throughput, default=None), result)
    return found


def _own(
    label: str, comparison: Comparison | None, other: BenchResult | None, result: BenchResult
) -> Iterator[Reference]:
    if comparison is not None and other is not None:
        said = f"{comparison.verdict or NO_VERDICT}, {ago(other.at, result.at)}"
        yield Reference(label, _throughput(other), said)


def _time(result: BenchResult) -> float:
    return result.at


def _throughput(result: BenchResult) -> float:
    return result.figures.output_throughput
