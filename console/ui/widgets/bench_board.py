"""The figures of a benchmark beside its charts, while it goes on and of what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container

from console.domain.bench.result import BenchResult

from .bench_charts import BenchCharts, Charted, of_progress, of_result
from .bench_live import live_paragraphs
from .bench_progress import BenchProgress
from .bench_result import Reference, ending_paragraphs, result_paragraphs, several_paragraphs
from .meter import Glyphs
from .paragraphs import Paragraph, ParagraphView

NOTHING = "Nothing was measured."


class BenchBoard(Container):
    """Knows no bencher: it shows what it is given."""

    def __init__(self, *, glyphs: Glyphs, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        yield ParagraphView(glyphs=self._glyphs, id="bench-figures")
        yield BenchCharts(glyphs=self._glyphs, id="bench-charts")

    @property
    def figures(self) -> ParagraphView:
        """What is scrolled."""
        return self.query_one("#bench-figures", ParagraphView)

    def show_live(self, progress: BenchProgress, gpus: Sequence[Paragraph]) -> None:
        """What is known by now; `gpus` tells of those that work for it."""
        charts = self.query_one(BenchCharts)
        self.figures.border_title, charts.border_title = "So far", "Throughput and latency"
        self.figures.show(live_paragraphs(progress, gpus, self._glyphs))
        charts.display = True
        charts.show(of_progress(progress))

    def show_result(self, progress: BenchProgress, against: Sequence[Reference], *, large: bool) -> None:
        """What came of it; `large` has the room for large digits."""
        results, charts = progress.results, self.query_one(BenchCharts)
        several = len(results) > 1
        self.figures.border_title = f"{len(results)} results" if several else "Result"
        ending = ending_paragraphs(progress, self._glyphs)
        self.figures.show([*ending, *self._told(results, against, large=large)])
        charts.display = bool(results)
        charts.border_title = "Throughput and latency"
        charts.show(of_result(results[0]) if len(results) == 1 else Charted(several=results))

    def _told(
        self, results: Sequence[BenchResult], against: Sequence[Reference], *, large: bool
    ) -> list[Paragraph]:
        if not results:
            return [Paragraph(NOTHING, "muted")]
        if len(results) > 1:
            return [*several_paragraphs(results, self._glyphs)]
        return [*result_paragraphs(results[0], against, self._glyphs, large=large)]
