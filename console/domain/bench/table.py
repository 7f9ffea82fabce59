"""Results as rows of a table, for spreadsheets: one row a result, the same columns always, in the same order.

Columns that sglang's client knows have its names. What is not known is an empty cell.
"""

from __future__ import annotations

from .jsonl import to_sglang
from .result import BenchResult

_OURS_BEFORE = ("id", "at", "host", "demo", "profile", "series", "label")
_SGLANGS = (
    "max_concurrency",
    "random_input_len",
    "random_output_len",
    "duration",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "input_throughput",
    "output_throughput",
    "total_throughput",
    "concurrency",
    "max_output_tokens_per_s",
    *(
        f"{statistic}_{name}_ms"
        for name in ("ttft", "tpot", "itl", "e2e_latency")
        for statistic in ("mean", "median", "std", "p90", "p95", "p99")
    ),
)
_OURS_AFTER = (
    "failed",
    "short",
    "itl_is_per_chunk",
    "tokens_estimated",
    "cache",
    "verified",
    "partial",
    "limited",
)
COLUMNS = _OURS_BEFORE + _SGLANGS + _OURS_AFTER

Cell = str | int | float


def row(result: BenchResult) -> tuple[Cell, ...]:
    """In the order of COLUMNS; `at` in seconds since the epoch, yes and no as 1 and 0."""
    context, figures = result.context, result.figures
    cells = {
        **to_sglang(result),
        "id": result.id,
        "at": result.at,
        "host": context.host,
        "demo": context.demo,
        "profile": context.profile,
        "series": result.series,
        "label": result.label,
        "failed": figures.failed,
        "short": figures.short,
        "itl_is_per_chunk": figures.itl_is_per_chunk,
        "tokens_estimated": figures.tokens_estimated,
        "cache": context.cache,
        "verified": context.verified,
        "partial": result.partial,
        "limited": result.client.limited,
    }
    return tuple(_cell(cells[column]) for column in COLUMNS)


def _cell(value: object) -> Cell:
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, str | int | float) else str(value)
