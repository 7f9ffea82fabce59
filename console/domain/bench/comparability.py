"""What stands in the way of comparing two results: everything that differs beside the settings of the
profile.

The settings are what is compared, and no obstacle; but an effect belongs to one of them only where one
differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from .limited_sides import client_obstacles
from .result import BenchResult, Context

MOST_FAILED = 0.01
"""Of all requests: more of them make what is left a selection."""
MOST_CACHED = 0.1
"""Of the prompt tokens, where the cache was not wanted: short prompts may begin alike by chance."""
MOST_OTHERS = 0.05
"""Requests of others in flight, on average."""
CLOCK_TOLERANCE = 0.05
POWER_LIMIT_TOLERANCE_W = 1.0
_SAME: tuple[tuple[str, str], ...] = (
    ("host", "the host"),
    ("model", "the model"),
    ("input_tokens", "the number of input tokens"),
    ("output_tokens", "the number of output tokens"),
    ("max_concurrency", "the concurrency"),
    ("prompts", "the number of prompts"),
    ("cache", "the state of the cache"),
)
"""Fields of Context that must be alike."""


def obstacles(a: Sequence[BenchResult], b: Sequence[BenchResult]) -> tuple[str, ...]:
    """Between two sides of one or more repeats, one sentence each; none: they can be compared."""
    found = [
        sentence for name, side in (("A", a), ("B", b)) for each in side for sentence in _flaws(name, each)
    ]
    found += client_obstacles(a, b)
    found += [sentence for first, second in product(a, b) for sentence in _differences(first, second)]
    found += [f"within one side {sentence}" for side in (a, b) for sentence in _unlike_repeats(side)]
    return tuple(dict.fromkeys(found))


def differs(a: BenchResult, b: BenchResult) -> list[str]:
    """The same, between two results."""
    return list(obstacles((a,), (b,)))


def changed_settings(a: Context, b: Context) -> tuple[str, ...]:
    """As `flag mem-fraction-static: 0.85 → 0.9`; one that changes alike in several servers counts once."""
    before, after = _settings(a), _settings(b)
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    changes = {name: f"{before.get(name, 'not set')} → {after.get(name, 'not set')}" for name in names}
    return tuple(dict.fromkeys(f"{_without_server(name)}: {change}" for name, change in changes.items()))


def several_settings(a: Context, b: Context) -> str | None:
    """That the effect cannot be told apart; None: at most one setting differs."""
    count = len(changed_settings(a, b))
    return several(count) if count > 1 else None


def several(settings: int) -> str:
    """What is said of more than one."""
    return f"{settings} settings differ: the effect can't be given to one of them"


def had_others(context: Context) -> bool:
    """Requests of others ran meanwhile."""
    return context.other_load is not None and context.other_load > MOST_OTHERS


def was_cached(context: Context) -> bool:
    """A prefix cache served prompts that it was not meant to serve: the result is not that of the shape."""
    share = context.cached_share
    return context.cache != "warm" and share is not None and share > MOST_CACHED


def _settings(context: Context) -> dict[str, str]:
    version = context.versions.get("sglang")
    return context.settings | ({"sglang": version} if version else {})


def _without_server(name: str) -> str:
    """`decode flag x` as `flag x`; what is of the whole profile has one word."""
    return name.partition(" ")[2] or name


def _flaws(name: str, result: BenchResult) -> Iterator[str]:
    """What makes a result fit for no comparison."""
    context, figures = result.context, result.figures
    if result.partial:
        yield f"{name} is partial: {result.partial}"
    asked = figures.completed + figures.failed
    if figures.failed > MOST_FAILED * asked:
        yield f"{figures.failed} of {asked} requests of {name} failed"
    if figures.tokens_estimated:
        yield f"the tokens of {name} are estimated: some answer had no usage"
    if was_cached(context):
        yield f"a prefix cache served {context.cached_share:.0%} of the prompt tokens of {name}"
    if had_others(context):
        yield f"others had {context.other_load:.1f} requests in flight during {name}"
    if context.verified is False:
        yield f"the servers of {name} did not run as its profile asks"
    if figures.ttft_ms.median is not None and figures.ttft_ms.median <= 0:
        yield f"{name} has a TTFT of 0, which no server has"


def _differences(a: BenchResult, b: BenchResult) -> Iterator[str]:
    first, second = a.context, b.context
    for field, what in _SAME:
        before, after = getattr(first, field), getattr(second, field)
        if before != after:
            yield f"{what} differs: {_shown(before)} against {_shown(after)}"
    if first.demo is not second.demo:
        yield "one is of the demo, the other of a real host"
    if first.origin != second.origin:
        measured = [context.origin or "this console" for context in (first, second)]
        yield f"they were measured by different clients: {measured[0]} against {measured[1]}"
    if _place(a) != _place(b):
        yield f"the load came from different places: {_place(a)} against {_place(b)}"
    yield from _hardware(first, second)


def _hardware(a: Context, b: Context) -> Iterator[str]:
    limits = a.gpu.get("power_limit_w"), b.gpu.get("power_limit_w")
    if (
        limits[0] is not None
        and limits[1] is not None
        and abs(limits[0] - limits[1]) > POWER_LIMIT_TOLERANCE_W
    ):
        yield f"the power limit of the GPUs differs: {limits[0]:.0f} W against {limits[1]:.0f} W"
    clocks = a.gpu.get("clock_mhz"), b.gpu.get("clock_mhz")
    if clocks[0] is not None and clocks[1] is not None and _apart(clocks[0], clocks[1]) > CLOCK_TOLERANCE:
        yield f"the clocks of the GPUs differ: {clocks[0]:.0f} MHz against {clocks[1]:.0f} MHz on average"
    drivers = a.versions.get("driver"), b.versions.get("driver")
    if None not in drivers and drivers[0] != drivers[1]:
        yield f"the driver differs: {drivers[0]} against {drivers[1]}"


def _unlike_repeats(side: Sequence[BenchResult]) -> Iterator[str]:
    for result in side[1:]:
        yield from _differences(side[0], result)
        if changed_settings(side[0].context, result.context):
            yield "settings differ: these are no repeats"


def _place(result: BenchResult) -> str:
    """Without the round trip of the tunnel, which is never twice the same."""
    return result.client.where.partition(" (")[0]


def _apart(a: float, b: float) -> float:
    return abs(a - b) / max(a, b) if max(a, b) > 0 else 0.0


def _shown(value: object) -> str:
    return "not known" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
