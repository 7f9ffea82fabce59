"""Results as JSON, one object a line: fields as of sglang's benchmark client, and everything under `dsv4`."""

from __future__ import annotations

import msgspec

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
