"""What makes a result less than it seems, in a word each: for lists."""

from __future__ import annotations

from collections.abc import Iterator

from .comparability import had_others, was_cached
from .result import BenchResult


def weaknesses(result: BenchResult) -> tuple[str, ...]:
    """As `partial`, `client`; none: its figures can be taken as they are."""
    return tuple(_words(result))


def _words(result: BenchResult) -> Iterator[str]:
    if result.partial is not None:
        yield "partial"
    if result.client.limited is not None:
        yield "client"
    if result.figures.tokens_estimated:
        yield "estimated"
    if was_cached(result.context):
        yield "cached"
    if had_others(result.context):
        yield "others"
