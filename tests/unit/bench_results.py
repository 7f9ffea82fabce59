"""Results and requests for the tests of benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from console.domain.bench.figures import figures
from console.domain.bench.load import RequestTiming
from console.domain.bench.result import BenchResult, Client, Context

CONTEXT = Context(
    host="ct200",
    model="/m",
    input_tokens=128,
    output_tokens=32,
    max_concurrency=1,
    prompts=12,
    seed=1,
    settings={"decode flag mem-fraction-static": "0.85", "decode NCCL_PROTO": "LL"},
)
CLIENT = Client(where="host", name="httpx", workers=1, cpu_pct=5.0, lag_p95_ms=0.2, lag_max_ms=0.9)


def request(
    index: int, sent: float, *, first: float = 0.1, gap: float = 0.01, tokens: int = 32, **changes: Any
) -> RequestTiming:
    """One token a chunk: the first after `first` seconds, each further one after `gap`."""
    chunks = tuple(sent + first + gap * at for at in range(tokens))
    timing = RequestTiming(
        index=index,
        sent=sent,
        chunks=chunks,
        ended=chunks[-1] + 0.001,
        prompt_tokens=128,
        completion_tokens=tokens,
        finish_reason="length",
        status=200,
    )
    return msgspec.structs.replace(timing, **changes)


def in_turn(count: int, **shape: Any) -> tuple[RequestTiming, ...]:
    """One after the other, as at C=1."""
    made: list[RequestTiming] = []
    for index in range(count):
        made.append(request(index, made[-1].ended if made else 0.0, **shape))
    return tuple(made)


def result(requests: Sequence[RequestTiming] = (), *, kept: bool = True, **changes: Any) -> BenchResult:
    """Fields of a result or of its context."""
    timings = tuple(requests or in_turn(12))
    context = {name: changes.pop(name) for name in Context.__struct_fields__ if name in changes}
    made = BenchResult(
        id="r1",
        at=1000.0,
        series="s1",
        context=msgspec.structs.replace(CONTEXT, **context),
        figures=figures(timings),
        client=CLIENT,
        requests=timings if kept else (),
    )
    return msgspec.structs.replace(made, **changes)


def with_throughput(rate: float, **changes: Any) -> BenchResult:
    """Of which only the throughput matters; its requests are not kept."""
    made = result(kept=False, **changes)
    return msgspec.structs.replace(
        made, figures=msgspec.structs.replace(made.figures, output_throughput=rate)
    )
