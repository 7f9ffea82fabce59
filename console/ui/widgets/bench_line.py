"""One line on the dashboard about a benchmark that goes on while its own screen is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .bench_heading import bench_title
from .bench_live import where_it_is
from .bench_progress import BenchProgress
from .line_view import LineView
from .lines import Line, Span, spread
from .meter import Glyphs
from .paragraphs import clean


class BenchLine(LineView, can_focus=False):
    """Shows where the benchmark stands."""

    DEFAULT_CSS = """
    BenchLine { height: 1; overflow: hidden hidden; background: $panel; }
    """

    def __init__(self, look: Callable[[], tuple[BenchProgress, float]], back: str, *, glyphs: Glyphs) -> None:
        """`look` gives how far it is, and the time of the clock that measured it; `back` is how to come back
        to it."""
        super().__init__(glyphs=glyphs)
        self._look, self._back = look, back

    def on_mount(self) -> None:
        self.set_interval(1.0, self.redraw)

    def lines(self, width: int, height: int) -> Sequence[Line]:
        hint = (Span(f"  {self._back} ", "muted"),)
        return [spread(bench_line(*self._look(), self.glyphs), hint, width, self.glyphs)]


def bench_line(progress: BenchProgress, now: float, glyphs: Glyphs) -> Line:
    """` ◐ benchmark of router :8000 of pd-ll at C=16: 45 of 96 requests, about 38 s left`."""
    return (
        Span(f" {glyphs.starting} ", "state-starting"),
        Span(clean(bench_title(progress.plan), glyphs), "strong"),
        Span(clean(f": {where_it_is(progress, now)}", glyphs)),
    )
