"""`dsv4-console bench compare A B`: side by side with intervals, and a verdict where there can be one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from console.cli.bench_history import print_lines, with_store
from console.cli.bench_json import comparison_objects
from console.cli.bench_report import columns, of_context
from console.domain.bench.comparability import changed_settings, obstacles, several_settings
from console.domain.bench.comparison import NO_VERDICT, Comparison, Side, compare, compare_all
from console.domain.bench.result import BenchResult
from console.domain.bench.run_values import Metric
from console.domain.errors import UsageError
from console.domain.secrets import BLOT, is_secret
from console.services.bench_store import BenchStore

DONE, NOT_COMPARABLE = 0, 1
NAMES: dict[Metric, str] = {
    "output_throughput": "output tok/s",
    "ttft": "median TTFT ms",
    "tpot": "median TPOT ms",
    "itl": "mean ITL ms",
    "e2e": "median E2E ms",
}
HEAD = ("", "A (95 %)", "B (95 %)", "B/A (95 %)", "smallest", "B is")
SHOWN_SETTINGS = 20


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides, each of one or more repeats."""

    a: tuple[BenchResult, ...]
    b: tuple[BenchResult, ...]
    obstacles: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()
    """None where there are obstacles that were not passed over."""


def compare_results(a: str, b: str, metrics: Sequence[Metric], *, anyway: bool, as_json: bool) -> int:
    """Print the comparison at each concurrency; returns the exit code. Raises ConsoleError."""

    async def both(store: BenchStore) -> tuple[tuple[BenchResult, ...], tuple[BenchResult, ...]]:
        return await store.find(a), await store.find(b)

    first, second = with_store(both)
    if {result.id for result in first} & {result.id for result in second}:
        raise UsageError("A and B are the same result", next_step="name two")
    pairs = [_compared(*sides, metrics, anyway=anyway) for sides in paired(first, second)]
    for pair in pairs:
        if as_json:
            sys.stdout.write(msgspec.json.encode(_object(pair)).decode() + "\n")
        else:
            print_lines(_lines(pair))
    refused = any(pair.obstacles for pair in pairs) and not anyway
    return NOT_COMPARABLE if refused else DONE


def paired(
    a: Sequence[BenchResult], b: Sequence[BenchResult]
) -> list[tuple[tuple[BenchResult, ...], tuple[BenchResult, ...]]]:
    """Both sides at each concurrency that they share; where there is none, all of them against all."""
    shared = sorted({_concurrency(result) for result in a} & {_concurrency(result) for result in b})
    if not shared:
        return [(tuple(a), tuple(b))]
    return [
        (
            tuple(result for result in a if _concurrency(result) == concurrency),
            tuple(result for result in b if _concurrency(result) == concurrency),
        )
        for concurrency in shared
    ]


def _concurrency(result: BenchResult) -> int:
    return result.context.max_concurrency


def _compared(
    a: tuple[BenchResult, ...], b: tuple[BenchResult, ...], metrics: Sequence[Metric], *, anyway: bool
) -> Pair:
    pair = Pair(a=a, b=b, obstacles=obstacles(a, b))
    if pair.obstacles and not anyway:
        return pair
    found = tuple(compare(a, b, metric) for metric in metrics) if metrics else compare_all(a, b)
    return msgspec.structs.replace(pair, comparisons=found)


def _object(pair: Pair) -> dict[str, Any]:
    return {
        "a": [result.id for result in pair.a],
        "b": [result.id for result in pair.b],
        "max_concurrency": _concurrency(pair.a[0]),
        "comparable": not pair.obstacles,
        "obstacles": pair.obstacles,
        "settings": _settings(pair),
        "comparisons": comparison_objects(pair.comparisons, verdict=not pair.obstacles),
    }


def _lines(pair: Pair) -> Iterator[str]:
    yield from _sides(pair)
    if pair.obstacles:
        yield "They cannot be compared:"
        yield from (f"  {obstacle}" for obstacle in pair.obstacles)
    if pair.comparisons:
        yield from comparison_lines(pair.comparisons, verdict=not pair.obstacles)
        yield from _causes(pair)
    elif pair.obstacles:
        yield "Next: --anyway shows them side by side, without a verdict."


def _sides(pair: Pair) -> Iterator[str]:
    for name, side in (("A", pair.a), ("B", pair.b)):
        ids = ", ".join(result.id for result in side)
        began = f"{datetime.fromtimestamp(side[0].at):%Y-%m-%d %H:%M}"
        yield f"{name}  C={_concurrency(side[0])}, {of_context(side[0].context)}, {began}  [{ids}]"


def _causes(pair: Pair) -> Iterator[str]:
    settings = _settings(pair)
    yield f"Settings that differ: {len(settings) or 'none that are known'}"
    yield from (f"  {setting}" for setting in settings[:SHOWN_SETTINGS])
    if len(settings) > SHOWN_SETTINGS:
        yield f"  … {len(settings) - SHOWN_SETTINGS} more"
    several = several_settings(pair.a[0].context, pair.b[0].context)
    yield from [f"{several}."] if several else []


def _settings(pair: Pair) -> list[str]:
    """That a key differs may be told, and not how."""
    changes = [each.partition(": ") for each in changed_settings(pair.a[0].context, pair.b[0].context)]
    return [f"{name}: {BLOT if is_secret(name) else change}" for name, _, change in changes]


def comparison_lines(comparisons: Sequence[Comparison], *, verdict: bool) -> Iterator[str]:
    """A row for each metric, and what the intervals rest on."""
    rows: list[tuple[str, ...]] = [HEAD if verdict else HEAD[:-1]]
    rows += [_row(each) if verdict else _row(each)[:-1] for each in comparisons]
    yield from columns(rows, right=range(1, 5))
    notes = dict.fromkeys(note for each in comparisons for note in each.notes)
    yield from (f"({note})" for note in notes)
    yield "(smallest: a difference below it could not have been shown by these data)"


def _row(found: Comparison) -> tuple[str, ...]:
    return (
        NAMES[found.metric],
        _side(found.a),
        _side(found.b),
        f"{found.ratio:.3f} ({found.low:.3f} - {found.high:.3f})",
        f"{found.smallest_pct:.1f} %",
        found.verdict or NO_VERDICT,
    )


def _side(side: Side) -> str:
    return f"{side.value:,.1f} ({side.low:,.1f} - {side.high:,.1f})"
