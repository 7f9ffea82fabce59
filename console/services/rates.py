"""The tokens a second of all servers together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from console.domain.metrics import Rates, from_batch_line
from console.domain.readiness import conclude
from console.domain.throughput import Throughput
from console.services.runs import Run

Number = TypeVar("Number", int, float)

STARTING = ("launching", "loading", "capturing graphs", "warming up")

SILENT_S = 15.0
"""Batch lines come only with work: a server that wrote none for this long is idle."""


def throughput(runs: Sequence[Run], at: float) -> Throughput:
    """The deployment's rates at `at` (monotonic seconds): generation where tokens are made, prompts where
    they are computed; prefill and decode of a pair are never added together.
    """
    servers = [run for run in runs if run.process.role != "router"]
    makers = [run for run in servers if run.process.role in ("single", "decode")]
    readers = [run for run in servers if run.process.role in ("single", "prefill")]
    known = [_rates_of(run, at) for run in makers]
    return Throughput(
        time=at,
        gen_tok_s=_sum([rates.gen_tok_s for rates in known]),
        prompt_tok_s=_sum([_rates_of(run, at).prompt_tok_s for run in readers]),
        running=_sum([run.figures.running for run in makers]),
        queued=_sum([run.figures.queued for run in servers]),
        source=next((rates.source for rates in known if rates.source), None),
        note=_note(servers),
    )


def _rates_of(run: Run, at: float) -> Rates:
    """The endpoint's rates; where there are none, the last batch lines of the log."""
    rates = run.figures.rates
    if rates.gap is not None or rates.gen_tok_s is not None or rates.prompt_tok_s is not None:
        return rates
    return _by_log(run, at) if run.evidence.alive and run.figures.metrics_note else rates


def _by_log(run: Run, at: float) -> Rates:
    def rate(kind: str) -> float | None:
        if kind not in run.batch_lines:
            return None
        text, seen_at = run.batch_lines[kind]
        said = from_batch_line(text)
        if at - seen_at > SILENT_S or said is None:
            return 0.0
        return said.gen_tok_s if kind == "Decode" else said.prompt_tok_s

    return Rates(gen_tok_s=rate("Decode"), prompt_tok_s=rate("Prefill"), source="log")


def _sum(values: Sequence[Number | None]) -> Number | None:
    """The sum; None when one of them is unknown, for a part is not the whole."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None


def _note(servers: Sequence[Run]) -> str | None:
    if not servers:
        return "no SGLang server found"
    if all(conclude(run.evidence).state in STARTING for run in servers):
        return "no readings yet: the servers are starting"
    return next((run.figures.metrics_note for run in servers if run.figures.metrics_note), None)
