"""Two sides of results compared, or why they cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer

from console.domain.bench.benching import Bencher
from console.domain.bench.comparability import obstacles
from console.domain.bench.comparison import Comparison, compare_all
from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError
from console.domain.host_view import HostView
from console.ui.screens.host_screen import HostScreen
from console.ui.widgets.bench_comparison import (
    comparison_paragraphs,
    refusal_paragraphs,
    setting_paragraphs,
    side_paragraph,
    weak_paragraphs,
)
from console.ui.widgets.choices import Choice, Choices
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph, ParagraphView
from console.ui.widgets.status_bar import StatusBar

NOTHING_SHARED = "There is no figure that both sides have."

Results = tuple[BenchResult, ...]


class BenchCompareScreen(HostScreen):
    """Reads the results with their requests, and compares them once they may be.

    Where it is `-beside`, each side's interval stands beside the difference.
    """

    AUTO_FOCUS = "Choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "app.pop_screen", "back", key_display="q"),
        Binding("up", "scroll_text(-1)", show=False),
        Binding("down", "scroll_text(1)", show=False),
        Binding("pageup", "page_text(-1)", show=False),
        Binding("pagedown", "page_text(1)", show=False),
        # Else it would open the history a second time.
        Binding("c", "app.pop_screen", show=False),
    ]

    def __init__(
        self, bencher: Bencher, host: HostView, glyphs: Glyphs, *, a: Sequence[str], b: Sequence[str]
    ) -> None:
        """`a` and `b` are ids."""
        super().__init__(host, glyphs)
        self._bencher = bencher
        self._ids = (tuple(a), tuple(b))
        self._sides: tuple[Results, Results] | None = None
        self._compared: Sequence[Comparison] | None = None
        """None until they are compared; empty where they have no figure in common."""
        self._obstacles: Sequence[str] = ()
        self._anyway = False
        self._failure: str | None = None

    def compose(self) -> ComposeResult:
        yield StatusBar(glyphs=self._glyphs)
        yield ParagraphView(glyphs=self._glyphs, id="compare")
        yield Choices(glyphs=self._glyphs, id="compare-choices")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#compare").border_title = "B against A"
        self._show()
        self.run_worker(self._compare(), group="compare", exclusive=True)

    async def _compare(self) -> None:
        try:
            a, b = [tuple([await self._bencher.result(id) for id in ids]) for ids in self._ids]
            self._sides, self._obstacles = (a, b), obstacles(a, b)
            self._show()
            # Hundreds of resamples: in the loop they would stop the screen.
            self._compared = await asyncio.to_thread(compare_all, a, b)
        except ConsoleError as error:
            self._failure = str(error)
        self._show()

    def _show(self) -> None:
        self.query_one("#compare", ParagraphView).show(self._paragraphs())
        self.query_one(Choices).offer(self._choices())

    def _paragraphs(self) -> list[Paragraph]:
        if self._failure is not None:
            return [Paragraph(self._failure, "state-failed")]
        if self._sides is None:
            return [Paragraph("The results are being read.", "muted")]
        a, b = self._sides
        said = [side_paragraph("A", a), side_paragraph("B", b)]
        weak = [*weak_paragraphs("A", a, self._glyphs), *weak_paragraphs("B", b, self._glyphs)]
        settings = [*setting_paragraphs(a[0], b[0], self._glyphs), Paragraph()]
        if not self._obstacles:
            return [*said, *weak, *settings, *self._figures()]
        # What stands against it has most of what is weak among it: that comes last.
        figures = [*self._figures(), Paragraph()] if self._anyway else []
        refused = refusal_paragraphs(self._obstacles, self._glyphs)
        return [*said, Paragraph(), *refused, Paragraph(), *figures, *settings, *weak]

    def _figures(self) -> list[Paragraph]:
        if not self._compared:
            why = "They are being compared." if self._compared is None else NOTHING_SHARED
            return [Paragraph(why, "muted")]
        wide = self.has_class("-beside")
        return [*comparison_paragraphs(self._compared, verdicts=not self._obstacles, wide=wide)]

    def _choices(self) -> tuple[Choice, ...]:
        offered = bool(self._obstacles) and not self._anyway and self._failure is None
        return (Choice("Close"), *([Choice("Compare anyway")] if offered else []))

    @on(Choices.Chosen)
    def _chosen(self, message: Choices.Chosen) -> None:
        if message.index == 0:
            self.app.pop_screen()
            return
        self._anyway = True
        self._show()
        if figures := self._figures():
            # They stand below all that stands against them.
            text = self.query_one("#compare", ParagraphView)
            self.call_after_refresh(text.reveal, lambda paragraph: paragraph == figures[0])

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._show()

    def action_scroll_text(self, rows: int) -> None:
        """The text, while a button has the focus."""
        self.query_one("#compare").scroll_relative(y=rows, animate=False)

    def action_page_text(self, pages: int) -> None:
        """The same by pages."""
        text = self.query_one("#compare")
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)
