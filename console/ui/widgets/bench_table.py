"""Figures of results as tables: how latencies are spread, and one row for each concurrency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.domain.bench.result import BenchResult, Figures, Spread
from console.domain.bench.spreads import ENOUGH
from console.domain.bench.weaknesses import weaknesses

from .histogram import ms
from .lines import Span
from .meter import Glyphs, count, rate
from .paragraphs import Paragraph

COLUMNS = ("median", "mean", "p90", "p95", "p99", "max")
NAME_WIDTH = 10
N_WIDTH = 7
WIDTH = 7
RESULT_WIDTHS = (3, 8, 9, 9, 8, 10)
MEDIANS = "TTFT, TPOT and E2E are medians."


def spread_table(figures: Figures, glyphs: Glyphs) -> Iterator[Paragraph]:
    """TTFT, TPOT, ITL and E2E in ms, n beside each, and a word for what too few samples cannot tell."""
    titles = "".join(f"{name:>{WIDTH}}" for name in COLUMNS)
    yield Paragraph(head=(Span(f"{'ms':<{NAME_WIDTH}}{'n':>{N_WIDTH}}{titles}", "muted"),))
    spreads = named_spreads(figures)
    for name, spread in spreads:
        yield Paragraph(head=(Span(f"{name:<{NAME_WIDTH}}"), *_cells(spread, glyphs)))
    yield from _too_few(spreads)


def named_spreads(figures: Figures) -> tuple[tuple[str, Spread], ...]:
    """Each with its name."""
    return (
        ("TTFT", figures.ttft_ms),
        ("TPOT", figures.tpot_ms),
        (itl_name(per_chunk=figures.itl_is_per_chunk), figures.itl_ms),
        ("E2E", figures.e2e_latency_ms),
    )


def itl_name(*, per_chunk: bool) -> str:
    """A gap between chunks of several tokens is not one between tokens."""
    return "ITL/chunk" if per_chunk else "ITL"


def _cells(spread: Spread, glyphs: Glyphs) -> list[Span]:
    values = [(name, getattr(spread, name)) for name in COLUMNS]
    return [
        Span(f"{spread.n:>{N_WIDTH},}", "muted"),
        *(
            Span(f"{cell(value, glyphs):>{WIDTH}}", "strong" if name == "median" else "")
            for name, value in values
        ),
    ]


def cell(value: float | None, glyphs: Glyphs) -> str:
    """Milliseconds, or a dash for what too few samples cannot tell."""
    dash = "-" if glyphs.ascii_only else "\N{EN DASH}"
    return dash if value is None else ms(value)


def _too_few(spreads: Sequence[tuple[str, Spread]]) -> Iterator[Paragraph]:
    """`n=10 is too few for p95 of TTFT and TPOT.`: a percentile is told once some values lie above it."""
    fewest = min((spread.n for _, spread in spreads), default=0)
    untold = [f"p{percent}" for percent, enough in ENOUGH.items() if fewest < enough]
    if untold:
        said = f"n={fewest} is too few for {', '.join(untold)}."
        yield Paragraph(said, "muted")


def result_table(results: Sequence[BenchResult], glyphs: Glyphs) -> Iterator[Paragraph]:
    """One row for each result, in their order."""
    titles = ("C", "tok/s", "TTFT ms", "TPOT ms", "E2E ms", "requests")
    yield Paragraph(head=(Span(_row(titles), "muted"),))
    for result in results:
        head = (Span(f"{_row(_result_cells(result, glyphs))}  "),)
        yield Paragraph(_remark(result), "warning", head=head)
    yield Paragraph(MEDIANS, "muted")


def _result_cells(result: BenchResult, glyphs: Glyphs) -> tuple[str, ...]:
    figures = result.figures
    medians = [each.median for each in (figures.ttft_ms, figures.tpot_ms, figures.e2e_latency_ms)]
    return (
        str(result.context.max_concurrency),
        rate(figures.output_throughput),
        *(cell(median, glyphs) for median in medians),
        count(figures.completed),
    )


def _row(cells: Sequence[str]) -> str:
    return "".join(f"{text:>{width}}" for text, width in zip(cells, RESULT_WIDTHS, strict=True))


def _remark(result: BenchResult) -> str:
    said = [f"{result.figures.failed} failed"] if result.figures.failed else []
    said += weaknesses(result)
    return f"! {', '.join(said)}" if said else ""
