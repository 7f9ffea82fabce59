"""Results of benchmarks, one line each, with a mark that the keys move and the sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal, NamedTuple

from console.domain.bench.result import BenchResult
from console.domain.bench.weaknesses import weaknesses

from .bench_table import cell
from .lines import Line, Span, fit
from .marked_list import MarkedList
from .meter import UNICODE, Glyphs, rate
from .paragraphs import clean

Side = Literal["A", "B"]
NOTHING = "no result of that kind"
LONG_TIME = 110
"""Columns from which the year is shown."""
MOST_PROFILE = 20
NUMBERS = (("C", 4), ("tok/s", 8), ("TTFT ms", 8), ("TPOT ms", 8))


class BenchList(MarkedList[BenchResult]):
    """Shows them with the sides of a comparison that they are on."""

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(NOTHING, glyphs=glyphs, id=id)
        self._sides: Mapping[str, Side] = {}
        self._utc_offset_s: float | None = None

    def show(
        self,
        results: Sequence[BenchResult],
        sides: Mapping[str, Side],
        utc_offset_s: float | None = None,
        nothing: str = NOTHING,
    ) -> None:
        """Show these; `sides` by id. The mark stays on its result where that is there, else on its row."""
        self._sides, self._utc_offset_s, self.nothing = dict(sides), utc_offset_s, nothing
        self.take(results, otherwise=self._index)

    def identity(self, item: BenchResult) -> str:
        return item.id

    def table(self, items: Sequence[BenchResult], width: int) -> tuple[Line, Sequence[Line]]:
        columns = Columns(
            time="%Y-%m-%d %H:%M" if width >= LONG_TIME else "%m-%d %H:%M",
            profile=min(MOST_PROFILE, max(len(_profile(result)) for result in items)),
            utc_offset_s=self._utc_offset_s,
        )
        return _title(columns), [self._result(result, columns) for result in items]

    def _result(self, result: BenchResult, columns: Columns) -> Line:
        side = self._sides.get(result.id, " ")
        return (Span(f"{side} ", "strong"), *_row(result, columns, self.glyphs))


class Columns(NamedTuple):
    """How wide, and in what form, things are told."""

    time: str
    profile: int
    utc_offset_s: float | None


def _title(columns: Columns) -> Line:
    time = "measured".ljust(len(f"{datetime.fromtimestamp(0, UTC):{columns.time}}"))
    numbers = "".join(f"{name:>{width}}" for name, width in NUMBERS)
    return (Span(f"    {time} {'profile':<{columns.profile}}{numbers}  in/out cache", "muted"),)


def _row(result: BenchResult, columns: Columns, glyphs: Glyphs) -> Line:
    figures, context = result.figures, result.context
    numbers = (
        str(context.max_concurrency),
        rate(figures.output_throughput),
        cell(figures.ttft_ms.median, glyphs),
        cell(figures.tpot_ms.median, glyphs),
    )
    shown = "".join(f"{text:>{width}}" for text, (_, width) in zip(numbers, NUMBERS, strict=True))
    shape = f"  {context.input_tokens}/{context.output_tokens} {context.cache}"
    weak = [*weaknesses(result), *(["failures"] if figures.failed else [])]
    return (
        Span(f"{_time(result.at, columns)} ", "muted"),
        Span(fit(clean(_profile(result), glyphs), columns.profile, glyphs)),
        Span(shown, "strong"),
        # Before the shape, which may be cut off.
        *([Span(f"  ! {', '.join(weak)}", "warning")] if weak else []),
        Span(shape, "muted"),
        *([Span(f" {clean(result.label, glyphs)}", "muted")] if result.label else []),
    )


def _profile(result: BenchResult) -> str:
    return result.context.profile or "no profile"


def _time(at: float, columns: Columns) -> str:
    zone = timezone(timedelta(seconds=columns.utc_offset_s or 0.0))
    return f"{datetime.fromtimestamp(at, zone):{columns.time}}"


def found(result: BenchResult, wanted: str) -> bool:
    """Whether each word that was typed stands in what the line tells; `c=1` is no part of C=16."""
    context = result.context
    said = (
        f"{_profile(result)} {context.host} {context.cache} {result.label}"
        f" {context.input_tokens}/{context.output_tokens} {' '.join(weaknesses(result))} {result.id}"
    ).lower()
    concurrency = f"c={context.max_concurrency}"
    return all(word in ("c=", concurrency) or word in said for word in wanted.lower().split())
