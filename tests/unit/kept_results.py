"""Benchmark results for the tests of their history and of the verbs."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from console.domain.bench.load import RequestTiming
from console.domain.bench.result import BenchResult, Client, Context, Figures, Spread

changed = msgspec.structs.replace

NOON = 1_793_620_800.0  # 2026-11-02 12:00:00 UTC
TOKENS = 64


def request(index: int, concurrency: int, step: float = 0.02) -> RequestTiming:
    """One of a wave of `concurrency`, with a chunk a token and some noise that is the same every time."""
    noise = random.Random(index)
    sent = (index // concurrency) * (0.2 + step * TOKENS)
    first = sent + 0.1 + noise.random() / 50
    chunks = tuple(first + step * number * (1 + noise.random() / 50) for number in range(TOKENS))
    return RequestTiming(
        index=index,
        sent=sent,
        chunks=chunks,
        ended=chunks[-1],
        prompt_tokens=1024,
        completion_tokens=TOKENS,
        finish_reason="length",
        status=200,
    )


def bench_result(
    id: str = "0123456789ab",
    *,
    concurrency: int = 16,
    rate: float = 1000.0,
    step: float = 0.02,
    at: float = NOON,
    series: str = "",
    context: dict[str, Any] | None = None,
    **fields: Any,
) -> BenchResult:
    """A result of 96 requests whose figures say `rate`; `context` are fields of its context."""
    requests = tuple(request(index, concurrency, step) for index in range(96))
    duration = 96 * TOKENS / rate
    spread = Spread(n=96, mean=100.0, median=99.5, std=4.0, p90=120.0, p95=130.0, p99=None, max=140.25)
    figures = Figures(
        duration=duration,
        completed=96,
        failed=0,
        total_input_tokens=96 * 1024,
        total_output_tokens=96 * TOKENS,
        request_throughput=96 / duration,
        input_throughput=96 * 1024 / duration,
        output_throughput=rate,
        total_throughput=96 * (1024 + TOKENS) / duration,
        concurrency=concurrency - 0.5,
        ttft_ms=spread,
        tpot_ms=changed(spread, median=step * 1000),
        itl_ms=changed(spread, n=96 * (TOKENS - 1)),
        itl_is_per_chunk=False,
        e2e_latency_ms=changed(spread, median=1400.0),
        per_second=(rate,) * 3,
    )
    known: dict[str, Any] = {
        "host": "ct200",
        "profile": "pd-ll",
        "settings": {"decode flag max-running-requests": "256", "all environment HF_TOKEN": "hf_abc"},
        "verified": True,
        "runs": ("prefill-1", "decode-1"),
        "versions": {"sglang": "0.5.23", "driver": "580.95"},
        "model": "dsv4",
        "input_tokens": 1024,
        "output_tokens": TOKENS,
        "max_concurrency": concurrency,
        "prompts": 96,
        "seed": 42,
        "gpu": {"sm_pct": 97.0, "power_w": 281.0, "dram_pct": 38.0, "energy_j": 7372.8},
        "server_tokens": 96 * TOKENS,
    }
    return BenchResult(
        id=id,
        at=at,
        series=series or f"s-{id}",
        context=Context(**known | (context or {})),
        figures=figures,
        client=Client(
            where="host", name="httpx 0.28.1", workers=1, cpu_pct=23.0, lag_p95_ms=0.3, lag_max_ms=1.5
        ),
        requests=requests,
        **fields,
    )
