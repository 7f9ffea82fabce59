"""What is about to be measured, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator

from console.domain.bench.benching import BenchPlan

from .bench_shape import CACHE_WORDS, concurrencies, plan_words
from .lines import Span
from .paragraphs import Paragraph

WARNS = (Span("! ", "warning"),)


def bench_heading(plan: BenchPlan) -> Iterator[Paragraph]:
    """Target and load, what a request is, who else is served, and what is out of the ordinary."""
    yield Paragraph(f"Measure {plan.target} on {plan.host}", "strong")
    yield Paragraph(f"{plan_words(plan)}.")
    yield Paragraph(f"{_request(plan)}; {CACHE_WORDS[plan.ask.cache]}.", "muted")
    yield _others(plan.serving)
    for warning in plan.warnings:
        if not warning.startswith(f"{plan.serving} requests of others"):
            yield Paragraph(warning, "warning", head=WARNS)


def bench_title(plan: BenchPlan) -> str:
    """`benchmark of router :8000 of pd-ll at C=16`."""
    return f"benchmark of {plan.target} at {concurrencies(plan.ask.concurrency)}"


def _request(plan: BenchPlan) -> str:
    asked = plan.ask
    return f"Each sends {asked.input_tokens:,} tokens and gets {asked.output_tokens:,}"


def _others(serving: int | None) -> Paragraph:
    if serving is None:
        return Paragraph("Whether others are served now is not known.", "muted")
    if serving == 0:
        return Paragraph("Nobody else is served now.", "muted")
    who = "1 request of others is" if serving == 1 else f"{serving} requests of others are"
    said = f"{who} served now: they slow each other down, and the result will say so."
    return Paragraph(said, "warning", head=WARNS)
