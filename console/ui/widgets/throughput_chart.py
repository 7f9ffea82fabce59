"""Tokens a second over time: generation large, prompts below it on a scale of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from textual.reactive import reactive
from textual.strip import Strip

from console.domain.series import Columns, Reading, Series, decimate, maxima
from console.domain.throughput import Throughput

from .chart_marks import Marks, over_curve, ticked
from .line_view import LineView
from .lines import Line, Span, fit_line, joined, spread, width_of
from .meter import NA, UNICODE, Glyphs, rate, sparkline

CAPACITY = 2000
"""Readings kept: a quarter of an hour at two a second."""

BREAK_S = 5.0
"""No line is drawn between readings further apart than this."""

REDRAW_S = 0.95
"""Least time between two drawings of the curves: a little under the usual second, so that none is missed."""

CHART_HEIGHT = 8
"""Below this there are sparklines."""

TWO_CHARTS_HEIGHT = 11
"""Below this there is no curve for prompts, only their number."""

TIME_AXIS_ROWS = 2

LABEL_WIDTH = 7
"""Cells for the numbers of the vertical axis, wide enough for `150,000`."""

STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)

TO_ASCII = str.maketrans("┤│└┬─", "||+--")


class ThroughputChart(LineView):
    """Remembers what it was shown and draws the last `window_s` seconds of it, at most once a second."""

    DEFAULT_CSS = """
    ThroughputChart { overflow: hidden hidden; }
    """

    window_s: reactive[float] = reactive(300.0)

    note: reactive[str | None] = reactive(None)
    """Why there are no numbers, when the caller knows."""

    def __init__(
        self, *, glyphs: Glyphs = UNICODE, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(glyphs=glyphs, id=id, classes=classes)
        self._gen = Series(CAPACITY)
        self._prompt = Series(CAPACITY)
        self._marks = Marks()
        self._latest: Throughput | None = None
        self._curves: list[Line] = []
        self._curves_for: object = None
        self._curves_at = -math.inf
        self._pending = True

    def update_throughput(self, reading: Throughput) -> None:
        """Add a reading; one that holds None where a server could not be reached shows as a gap."""
        self._gen.append(reading.time, reading.gen_tok_s)
        self._prompt.append(reading.time, reading.prompt_tok_s)
        self._latest = reading
        self.redraw()

    def add_mark(self, time: float, text: str) -> None:
        """Mark a moment with a word or two; `time` is on the clock of the readings (Throughput.time)."""
        self._marks.add(time, text)
        self._curves_for = None
        self.redraw()

    def redraw(self) -> None:
        # The work is left to `render_line`, which is called only while the widget can be seen.
        self._pending = True
        self.refresh()

    def render_line(self, y: int) -> Strip:
        if self._pending:
            self._pending = False
            self._lines = tuple(self._toned(*self.size))
        return super().render_line(y)

    def watch_window_s(self) -> None:
        self.redraw()

    def watch_note(self) -> None:
        self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        latest = self._latest
        if latest is None or not self._has_numbers(latest.time):
            said = self.glyphs.safe(self.note or "No readings yet.")
            return [fit_line((Span(said, "muted"),), width, self.glyphs)]
        if height < CHART_HEIGHT:
            return self._sparklines(latest, width, height)
        curves = self._curves_now(latest.time, width, height)
        if height < TWO_CHARTS_HEIGHT:
            return [numbers(latest, width, self.glyphs), *curves]
        gen_rows, _ = rows_of(height)
        head = spread(gen_title(latest), (*queue(latest), Span(" ")), width, self.glyphs)
        below = fit_line(prompt_title(latest), width, self.glyphs)
        return [head, *curves[:gen_rows], below, *curves[gen_rows:]]

    def _has_numbers(self, now: float) -> bool:
        points = self._gen.since(now - self.window_s) + self._prompt.since(now - self.window_s)
        return any(point.value is not None for point in points)

    def _sparklines(self, latest: Throughput, width: int, height: int) -> list[Line]:
        if height < 3:
            return [self._one_line(latest, width)]
        room = max(width - 24, 1)
        return [
            fit_line(joined([title, self._recent(series, latest.time, room, tone)]), width, self.glyphs)
            for title, series, tone in (
                (gen_title(latest), self._gen, "spark-decode"),
                (prompt_title(latest), self._prompt, "spark-prefill"),
            )
        ] + [fit_line(queue(latest), width, self.glyphs)]

    def _one_line(self, latest: Throughput, width: int) -> Line:
        left, right = gen_title(latest), joined([prompt_title(latest), queue(latest)])
        room = min(width - width_of(left) - width_of(right) - 4, 60)
        recent = self._recent(self._gen, latest.time, room) if room > 0 else ()
        return fit_line(joined([left, recent, right]), width, self.glyphs)

    def _recent(self, series: Series, now: float, width: int, tone: str = "spark-decode") -> Line:
        columns = Columns(now - self.window_s, now, width)
        values = maxima(series.since(columns.start), columns)
        high = ceiling(max((value for value in values if value is not None), default=0.0), 1)
        drawn = sparkline(values, width, high, self.glyphs)
        return ticked(drawn, self._marks.within(columns), tone, self.glyphs)

    def _curves_now(self, now: float, width: int, height: int) -> list[Line]:
        asked_for = (width, height, self.window_s)
        if asked_for != self._curves_for or abs(now - self._curves_at) >= REDRAW_S:
            self._curves_for, self._curves_at = asked_for, now
            self._curves = self._draw(now, width, height)
        return self._curves

    def _draw(self, now: float, width: int, height: int) -> list[Line]:
        columns = Columns(now - self.window_s, now, max(width - LABEL_WIDTH - 1, 1))
        gen, prompt = (
            decimate(series.since(columns.start), columns, BREAK_S) for series in (self._gen, self._prompt)
        )
        gen_rows, prompt_rows = rows_of(height)
        marks = self._marks.within(columns)
        if not prompt_rows:
            drawn = curve(gen, columns, width, gen_rows, "role-decode", self.glyphs, time_axis=True)
            return self._marked(drawn, marks, TIME_AXIS_ROWS)
        upper = curve(gen, columns, width, gen_rows, "role-decode", self.glyphs)
        lower = curve(prompt, columns, width, prompt_rows, "role-prefill", self.glyphs, time_axis=True)
        return [*self._marked(upper, marks), *self._marked(lower, dict.fromkeys(marks, ""), TIME_AXIS_ROWS)]

    def _marked(self, drawn: list[Line], marks: Mapping[int, str], axis_rows: int = 0) -> list[Line]:
        above = len(drawn) - axis_rows
        return [*over_curve(drawn[:above], marks, self.glyphs), *drawn[above:]]


def rows_of(height: int) -> tuple[int, int]:
    """Rows for the two charts below their titles, the time axis included in the last."""
    if height < TWO_CHARTS_HEIGHT:
        return height - 1, 0
    room = height - 2
    prompt_rows = max(2, (room - TIME_AXIS_ROWS) // 3) + TIME_AXIS_ROWS
    return room - prompt_rows, prompt_rows


def gen_title(reading: Throughput) -> Line:
    """`gen    1,048 tok/s`."""
    return (Span("gen    ", "role-decode"), *_rate(reading.gen_tok_s))


def prompt_title(reading: Throughput) -> Line:
    """`prompt 6,310 tok/s`."""
    return (Span("prompt ", "role-prefill"), *_rate(reading.prompt_tok_s))


def _rate(value: float | None) -> Line:
    return (Span(f"{rate(value):>{LABEL_WIDTH}}", "strong"), Span(" tok/s", "muted"))


def queue(reading: Throughput) -> Line:
    """`running 16  queued 2`."""
    running, queued = (NA if value is None else str(value) for value in (reading.running, reading.queued))
    return (
        Span("running ", "muted"),
        Span(f"{running:>3}"),
        Span("  queued ", "muted"),
        Span(f"{queued:>3}"),
    )


def numbers(reading: Throughput, width: int, glyphs: Glyphs) -> Line:
    """All numbers in one line; those of the queue yield."""
    return fit_line(joined([gen_title(reading), prompt_title(reading), queue(reading)], "   "), width, glyphs)


def curve(
    runs: Sequence[Sequence[Reading]],
    columns: Columns,
    width: int,
    rows: int,
    tone: str,
    glyphs: Glyphs,
    *,
    time_axis: bool = False,
) -> list[Line]:
    """A line chart of exactly `rows` by `width` cells with round numbers at its left."""
    # Imported on first use: it costs a fifth of the time to the first paint.
    from textual_plotext import Plot

    plot = Plot()
    # A figure is kept within the terminal of stdout, and only plotext's global one can be told otherwise.
    plot._limit_size(False, False)  # type: ignore[attr-defined]  # not in textual_plotext's stub
    plot.plotsize(width, rows)
    plot.theme("clear")
    for run in runs:
        plot.plot(
            [time - columns.end for time, _ in run],
            [value for _, value in run],
            marker="*" if glyphs.ascii_only else "braille",
        )
    ticks = value_ticks(max((value for run in runs for _, value in run), default=0.0), rows)
    plot.xlim(columns.start - columns.end, 0)
    plot.ylim(0, ticks[-1])
    plot.yticks(ticks, [f"{tick:,.0f}".rjust(LABEL_WIDTH) for tick in ticks])
    times = time_ticks(columns.end - columns.start) if time_axis else {}
    plot.xticks(list(times), list(times.values()))
    plot.xaxes(time_axis, False)
    plot.yaxes(True, False)
    drawn = plot.uncolorize(plot.build()).split("\n")[:rows]
    below = rows - TIME_AXIS_ROWS if time_axis else rows
    return [
        _axis_and_curve(text, "muted" if row >= below else tone, glyphs) for row, text in enumerate(drawn)
    ]


def _axis_and_curve(text: str, tone: str, glyphs: Glyphs) -> Line:
    if glyphs.ascii_only:
        text = text.translate(TO_ASCII)
    return (Span(text[: LABEL_WIDTH + 1], "muted"), Span(text[LABEL_WIDTH + 1 :], tone))


def value_ticks(high: float, rows: int) -> list[float]:
    """Round numbers from 0 to at least `high`: two of them in a low chart, five in a high one."""
    intervals = 1 if rows < 5 else 2 if rows < 9 else 4
    top = ceiling(high, intervals)
    return [top * i / intervals for i in range(intervals + 1)]


def ceiling(high: float, intervals: int) -> float:
    """The smallest number not below `high` (nor 10) that is so many equal round steps."""
    step = max(high, 10.0) / intervals
    magnitude = 10.0 ** math.floor(math.log10(step))
    return intervals * magnitude * next(factor for factor in STEPS if factor * magnitude >= step)


def time_ticks(window_s: float) -> dict[float, str]:
    """Where to mark the time axis, in seconds before now: `-5m … now`."""
    ticks = {-window_s * i / 5: f"-{window_s * i / 300:g}m" for i in range(5, 0, -1)}
    return {**ticks, 0.0: "now"}
