"""Results as lines of the JSONL that sglang's benchmark client writes, and such lines as results.

Source: sglang 0.5.23, benchmark/serving.py (the `result` of benchmark(), and what --output-details adds).
Others' tools read the fields of sglang; ours, everything, from the one key `dsv4`. Versions before 0.5.23
lack some of the fields, and a run without a limit of concurrency has null for it: of a line of sglang's only
what no figure can do without is required.
"""

from __future__ import annotations

import json
from itertools import pairwise
from math import isfinite
from typing import Any

import msgspec

from console.domain.errors import UsageError

from .result import BenchResult, Client, Context, Figures, Spread
from .seconds import tokens_of
from .spreads import ENOUGH

OURS = "dsv4"
_SPREADS = {"e2e_latency": "e2e_latency_ms", "ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms"}
"""The names of sglang and the fields of Figures."""
_STATISTICS = ("mean", "median", "std", "p90", "p95", "p99")


class _Line(msgspec.Struct, frozen=True):
    """What is read of a line of sglang's."""

    duration: float
    completed: int
    total_output_tokens: int
    total_input_tokens: int = 0
    backend: str = "sglang"
    dataset_name: str | None = None
    max_concurrency: int | None = None
    random_input_len: int | None = None
    random_output_len: int | None = None
    concurrency: float | None = None
    max_output_tokens_per_s: float | None = None
    tag: str | None = None
    errors: tuple[str, ...] = ()


def to_sglang(result: BenchResult, *, details: bool = False) -> dict[str, Any]:
    """One line, in values that JSON has: what is not known is null, and so is sglang's infinite request rate.

    `details`: also the lengths and times of each request, as of --output-details, in seconds.
    """
    context, figures = result.context, result.figures
    whole = result if details else msgspec.structs.replace(result, requests=())
    return {
        "tag": result.label or None,
        "backend": "sglang-oai",
        "dataset_name": "random",
        "request_rate": None,
        "max_concurrency": context.max_concurrency,
        "random_input_len": context.input_tokens,
        "random_output_len": context.output_tokens,
        "random_range_ratio": 1.0,
        "duration": figures.duration,
        "completed": figures.completed,
        "total_input_tokens": figures.total_input_tokens,
        "total_output_tokens": figures.total_output_tokens,
        "request_throughput": figures.request_throughput,
        "input_throughput": figures.input_throughput,
        "output_throughput": figures.output_throughput,
        "total_throughput": figures.total_throughput,
        **_statistics(figures),
        "concurrency": figures.concurrency,
        "accept_length": None,
        "max_output_tokens_per_s": figures.max_output_tokens_per_s,
        **(_details(result) if details else {}),
        OURS: msgspec.to_builtins(whole),
    }


def from_sglang(line: str | bytes, number: int, *, id: str, at: float, series: str) -> BenchResult:
    """A line of ours as it was; one of sglang's with what it tells, and the id, time and series given.

    A percentile of too few requests is left out, as everywhere. Raises UsageError with the line's number.
    """
    # Not msgspec's: sglang writes Infinity, which JSON has not.
    try:
        told = json.loads(line)
        if isinstance(told, dict) and OURS in told:
            return msgspec.convert(told[OURS], BenchResult)
        return _imported(told, msgspec.convert(told, _Line), id=id, at=at, series=series)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"line {number} is no benchmark result",
            cause=str(error),
            next_step="give the file that sglang's benchmark client wrote with --output-file, or an export",
        ) from error


def _statistics(figures: Figures) -> dict[str, float | None]:
    return {
        f"{statistic}_{name}_ms": getattr(getattr(figures, field), statistic)
        for name, field in _SPREADS.items()
        for statistic in _STATISTICS
    }


def _details(result: BenchResult) -> dict[str, Any]:
    """Of each request, failed ones with 0, 0.0 and [] as sglang has them."""
    requests = result.requests
    return {
        "input_lens": [each.prompt_tokens or 0 for each in requests],
        "output_lens": [tokens_of(each) if each.ok else 0 for each in requests],
        "ttfts": [(each.ttft or 0.0) if each.ok else 0.0 for each in requests],
        "itls": [[b - a for a, b in pairwise(each.chunks)] if each.ok else [] for each in requests],
        "errors": [each.reason or each.failure or "" for each in requests],
    }


def _imported(told: dict[str, Any], line: _Line, *, id: str, at: float, series: str) -> BenchResult:
    if line.duration <= 0:
        raise ValueError("its duration is not above 0")
    failed = sum(1 for error in line.errors if error)
    return BenchResult(
        id=id,
        at=at,
        series=series,
        label=line.tag or "",
        context=_context(line, line.completed + failed),
        figures=_figures(told, line, failed),
        client=Client(
            where="not known", name=line.backend, workers=1, cpu_pct=None, lag_p95_ms=None, lag_max_ms=None
        ),
    )


def _context(line: _Line, prompts: int) -> Context:
    each = max(line.completed, 1)
    return Context(
        host="not known",
        input_tokens=line.random_input_len or round(line.total_input_tokens / each),
        output_tokens=line.random_output_len or round(line.total_output_tokens / each),
        # Without a limit all are sent at once.
        max_concurrency=line.max_concurrency or prompts,
        prompts=prompts,
        seed=0,
        cache="not known",
        origin=f"sglang ({line.dataset_name or 'data not known'})",
    )


def _figures(told: dict[str, Any], line: _Line, failed: int) -> Figures:
    gaps = _gaps(told, line)
    tokens = line.total_input_tokens + line.total_output_tokens
    return Figures(
        duration=line.duration,
        completed=line.completed,
        failed=failed,
        failures={"error": failed} if failed else {},
        total_input_tokens=line.total_input_tokens,
        total_output_tokens=line.total_output_tokens,
        request_throughput=line.completed / line.duration,
        input_throughput=line.total_input_tokens / line.duration,
        output_throughput=line.total_output_tokens / line.duration,
        total_throughput=tokens / line.duration,
        concurrency=_concurrency(told, line),
        ttft_ms=_spread(told, "ttft", line.completed),
        tpot_ms=_spread(told, "tpot", line.completed),
        itl_ms=_spread(told, "itl", gaps),
        # Without the details the number of gaps is known to a per cent or so.
        itl_is_per_chunk=0 < gaps < 0.99 * (line.total_output_tokens - line.completed),
        e2e_latency_ms=_spread(told, "e2e_latency", line.completed),
        # sglang's counts chunks, and may lie below the mean.
        max_output_tokens_per_s=None,
    )


def _concurrency(told: dict[str, Any], line: _Line) -> float:
    """Mean number in flight; of a version that lacks it by its definition."""
    if line.concurrency is not None:
        return line.concurrency
    latency = _number(told, "mean_e2e_latency_ms")
    if latency is None:
        raise ValueError("it has neither `concurrency` nor `mean_e2e_latency_ms`")
    return line.completed * latency / 1000 / line.duration


def _gaps(told: dict[str, Any], line: _Line) -> int:
    """How many gaps between chunks there were: counted where itls are, else from what they sum up to.

    The gaps of a request fill the time from its first chunk to its last.
    """
    if isinstance(told.get("itls"), list):
        return sum(len(each) for each in msgspec.convert(told["itls"], list[list[float]]))
    latency, ttft, gap = (_number(told, f"mean_{name}_ms") for name in ("e2e_latency", "ttft", "itl"))
    if latency is None or ttft is None or not gap:
        return 0
    return max(round(line.completed * (latency - ttft) / gap), 0)


def _spread(told: dict[str, Any], name: str, n: int) -> Spread:
    """Empty, where nothing was measured: sglang writes 0 for that."""
    if not n or not _number(told, f"mean_{name}_ms"):
        return Spread(n=0)
    found = {statistic: _number(told, f"{statistic}_{name}_ms") for statistic in ("mean", "median", "std")}
    tails = {f"p{p}": _number(told, f"p{p}_{name}_ms") for p, least in ENOUGH.items() if n >= least}
    return Spread(n=n, **found, **tails)


def _number(told: dict[str, Any], field: str) -> float | None:
    """None also for the NaN of a run without any success."""
    found = msgspec.convert(told.get(field), float | None)
    return found if found is not None and isfinite(found) else None
