"""Results as JSON, one object a line: fields as of sglang's benchmark client, and everything under `dsv4`;
and what compares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from console.domain.bench.ab import ABFinding, ABResult
from console.domain.bench.comparison import Comparison
from console.domain.bench.jsonl import to_sglang
from console.domain.bench.result import BenchResult
from console.domain.secrets import BLOT, is_secret


def json_line(result: BenchResult, *, details: bool = False) -> str:
    """One line, without secrets; `details`: with the times of every request."""
    return msgspec.json.encode(to_sglang(without_secrets(result), details=details)).decode() + "\n"


def without_secrets(result: BenchResult) -> BenchResult:
    """The result as it may be shown."""
    settings = {name: BLOT if is_secret(name) else value for name, value in result.context.settings.items()}
    context = msgspec.structs.replace(result.context, settings=settings)
    return msgspec.structs.replace(result, context=context)


def comparison_objects(comparisons: Sequence[Comparison], *, verdict: bool) -> list[dict[str, Any]]:
    """Their fields; without a verdict it is null."""
    objects: list[dict[str, Any]] = [msgspec.to_builtins(each) for each in comparisons]
    return objects if verdict else [{**each, "verdict": None} for each in objects]


def ab_line(result: ABResult) -> str:
    """The end of an A/B on one line, without secrets, and without a verdict where there can be none."""
    sides = {name: tuple(map(without_secrets, getattr(result, name))) for name in ("a", "b")}
    shown: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(result, **sides))
    shown["findings"] = [_finding(found) for found in result.findings]
    return msgspec.json.encode({"ab": shown}).decode() + "\n"


def _finding(found: ABFinding) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(found)
    return {**shown, "comparisons": comparison_objects(found.comparisons, verdict=not found.obstacles)}
