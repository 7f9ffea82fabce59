"""What a result stands against: the profile's target, its last and best results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from console.domain.bench.result import BenchResult

from .bench_result import Reference, ago

SHAPE = ("max_concurrency", "input_tokens", "output_tokens", "cache")


def references(result: BenchResult, before: Iterable[BenchResult], target: float | None) -> list[Reference]:
    """`before`: results of the same profile in any order; `target`: its output tok/s at this concurrency."""
    alike = sorted(_alike(result, before), key=lambda each: each.at)
    wanted = [] if target is None else [Reference("target", target, is_target=True)]
    return [*wanted, *_own(result, alike)]


def _alike(result: BenchResult, before: Iterable[BenchResult]) -> Iterator[BenchResult]:
    """Earlier whole results of the same shape and cache state."""
    for each in before:
        same = all(getattr(each.context, name) == getattr(result.context, name) for name in SHAPE)
        if same and each.partial is None and each.id != result.id and each.at <= result.at:
            yield each


def _own(result: BenchResult, alike: Sequence[BenchResult]) -> Iterator[Reference]:
    if not alike:
        return
    last, best = alike[-1], max(alike, key=_throughput)
    yield Reference("last", _throughput(last), ago(last.at, result.at))
    yield Reference("best so far", _throughput(best), ago(best.at, result.at))


def _throughput(result: BenchResult) -> float:
    return result.figures.output_throughput
