"""What a benchmark looks like over its time: chunks or tokens a second, and how TTFT and ITL are spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from console.domain.bench.figures import itls_ms, ttfts_ms
from console.domain.bench.load import RequestTiming
from console.domain.bench.result import BenchResult
from console.domain.bench.seconds import tokens_per_chunk
from console.domain.series import Columns, Point, decimate

from .bench_progress import BenchProgress
from .bench_scatter import scatter
from .bench_table import itl_name
from .histogram import histogram_lines
from .line_view import LineView
from .lines import Line, Span, fit_line, spread
from .meter import Glyphs
from .throughput_chart import LABEL_WIDTH, curve

LEAST_CURVE = 4
"""Rows of a curve below which there is none."""
MOST_BINS = 10
SHORTEST_S = 10
"""Seconds that the time axis has at least."""
GAP = 2


class Charted(NamedTuple):
    """What is drawn of one load, or of several."""

    per_second: tuple[float, ...] = ()
    unit: str = "tok/s"
    requests: tuple[RequestTiming, ...] = ()
    itl_is_per_chunk: bool = False
    several: tuple[BenchResult, ...] = ()
    """Results at several concurrencies: throughput against latency is drawn instead."""


def of_progress(progress: BenchProgress) -> Charted:
    """What is known while it goes on."""
    held = tokens_per_chunk(progress.requests)
    rates = tuple(second.chunks * (held or 1.0) for second in progress.seconds)
    # What chunks hold is told by the usage of requests that have ended.
    unit = "chunks/s" if held is None else "tok/s"
    return Charted(rates, unit, progress.requests, held is None or held > 1)


def of_result(result: BenchResult) -> Charted:
    """What one result holds."""
    figures = result.figures
    # The last second is a part of one, and would look like a fall.
    return Charted(figures.per_second[:-1], "tok/s", result.requests, figures.itl_is_per_chunk)


class BenchCharts(LineView, can_focus=False):
    """Draws into the room that there is: the histograms first, the curve where some is left."""

    DEFAULT_CSS = """
    BenchCharts { overflow: hidden hidden; }
    """

    _charted = Charted()

    def show(self, charted: Charted) -> None:
        """Draw this instead."""
        if charted != self._charted:
            self._charted = charted
            self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        if self._charted.several:
            return scatter(self._charted.several, width, height, self.glyphs)
        below = min(MOST_BINS + 1, height if height < 2 * LEAST_CURVE else height // 2)
        above = height - below
        drawn = self._curve(width, above) if above > LEAST_CURVE else []
        return [*drawn, *self._histograms(width, below if drawn else height)]

    def _curve(self, width: int, height: int) -> list[Line]:
        values, unit = self._charted.per_second, self._charted.unit
        if not values:
            return [fit_line((Span(f"{unit} over time: nothing measured yet", "muted"),), width, self.glyphs)]
        columns = Columns(0.0, float(max(SHORTEST_S, len(values) - 1)), max(width - LABEL_WIDTH - 1, 1))
        points = [Point(float(second), value) for second, value in enumerate(values)]
        title = fit_line((Span(unit, "strong"), Span(" in each second", "muted")), width, self.glyphs)
        drawn = curve(decimate(points, columns), columns, width, height - 3, "role-decode", self.glyphs)
        return [title, *drawn, _time_axis(columns, width, self.glyphs), ()]

    def _histograms(self, width: int, height: int) -> list[Line]:
        requests = self._charted.requests
        titles = ("TTFT", itl_name(per_chunk=self._charted.itl_is_per_chunk))
        values = ([*ttfts_ms(requests)], [*itls_ms(requests)])
        rows = min(height, MOST_BINS + 1)
        half = (width - GAP) // 2
        left, right = (
            histogram_lines(title, each, tone, half, rows, self.glyphs)
            for title, each, tone in zip(titles, values, ("role-prefill", "role-decode"), strict=True)
        )
        return [(*one, Span(" " * GAP), *other) for one, other in zip(left, right, strict=True)]


def _time_axis(columns: Columns, width: int, glyphs: Glyphs) -> Line:
    left = (Span(" " * LABEL_WIDTH), Span("0 s", "muted"))
    return spread(left, (Span(f"{columns.end:.0f} s", "muted"),), width, glyphs)
