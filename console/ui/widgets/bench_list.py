"""Results of benchmarks, one line each, with a mark that the keys move and the sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import ClassVar, Literal, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from console.domain.bench.result import BenchResult

from .bench_table import cell, marks
from .line_view import LineView
from .lines import Line, Span, fit, fit_line
from .meter import UNICODE, Glyphs, rate
from .paragraphs import SCROLL_BAR, clean

Side = Literal["A", "B"]
NOTHING = "no result of that kind"
LONG_TIME = 110
"""Columns from which the year is shown."""
MOST_PROFILE = 20
NUMBERS = (("C", 4), ("tok/s", 8), ("TTFT ms", 8), ("TPOT ms", 8))


class BenchList(LineView, can_focus=True):
    """Says with `Highlighted` where the mark is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-100000)", show=False),
        Binding("end", "move(100000)", show=False),
    ]

    PINNED = 1

    class Highlighted(Message):
        """The mark is on another result, or on none."""

        def __init__(self, result: BenchResult | None) -> None:
            super().__init__()
            self.result = result

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._results: tuple[BenchResult, ...] = ()
        self._sides: Mapping[str, Side] = {}
        self._index = 0
        self._utc_offset_s: float | None = None
        self._nothing = NOTHING

    def show(
        self,
        results: Sequence[BenchResult],
        sides: Mapping[str, Side],
        utc_offset_s: float | None = None,
        nothing: str = NOTHING,
    ) -> None:
        """Show these; `sides` by id. The mark stays on its result where that is there, else on its row."""
        marked = self.marked
        self._results, self._sides = tuple(results), dict(sides)
        self._utc_offset_s, self._nothing = utc_offset_s, nothing
        ids = [result.id for result in results]
        kept = ids.index(marked.id) if marked is not None and marked.id in ids else self._index
        self._index = min(kept, max(0, len(ids) - 1))
        self.redraw()
        self._mark_moved()

    @property
    def marked(self) -> BenchResult | None:
        """The result under the mark."""
        return self._results[self._index] if self._results else None

    def action_move(self, steps: int) -> None:
        """The mark up or down."""
        self._index = min(max(0, self._index + steps), max(0, len(self._results) - 1))
        self.redraw()
        self._mark_moved()

    def action_page(self, pages: int) -> None:
        """The mark a page up or down."""
        self.action_move(pages * max(1, self.size.height - 2))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self.PINNED:
            return
        row = offset.y - self.PINNED + int(self.scroll_offset.y)
        if row < len(self._results):
            self.action_move(row - self._index)

    def _mark_moved(self) -> None:
        # The pinned title hides the line above the one that is scrolled to.
        self.scroll_to_region(Region(0, self._index, 1, 2), animate=False, force=True)
        self.post_message(self.Highlighted(self.marked))

    def lines(self, width: int, height: int) -> Sequence[Line]:
        if not self._results:
            return [(Span(self._nothing, "muted"),)]
        width -= SCROLL_BAR
        columns = Columns(
            time="%Y-%m-%d %H:%M" if width >= LONG_TIME else "%m-%d %H:%M",
            profile=min(MOST_PROFILE, max(len(_profile(result)) for result in self._results)),
            utc_offset_s=self._utc_offset_s,
        )
        rows = [self._result(index, result, columns, width) for index, result in enumerate(self._results)]
        return [fit_line(_title(columns), width, self.glyphs), *rows]

    def _result(self, index: int, result: BenchResult, columns: Columns, width: int) -> Line:
        side = self._sides.get(result.id)
        row = (Span(f"{side or ' '} ", "strong"), *_row(result, columns, self.glyphs))
        if index != self._index:
            return fit_line((Span("  "), *row), width, self.glyphs)
        text = "".join(span.text for span in row)
        return (Span(fit(f"> {text}", width, self.glyphs), "marked-row"),)


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
    weak = [*marks(result), *(["failures"] if figures.failed else [])]
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
    """Whether each word that was typed stands in what the line tells."""
    context = result.context
    said = (
        f"{_profile(result)} {context.host} c={context.max_concurrency} {context.cache} {result.label}"
        f" {context.input_tokens}/{context.output_tokens} {' '.join(marks(result))} {result.id}"
    ).lower()
    return all(word in said for word in wanted.lower().split())
