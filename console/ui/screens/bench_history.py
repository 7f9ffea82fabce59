"""All results of benchmarks: found again, marked as sides of a comparison, forgotten."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Footer

from console.domain.bench.benching import Bencher
from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError
from console.domain.host_view import HostView
from console.ui.screens.bench_compare import BenchCompareScreen
from console.ui.screens.confirm import ConfirmScreen
from console.ui.screens.host_screen import HostScreen
from console.ui.widgets.bench_list import BenchList, Side, found
from console.ui.widgets.bench_result import result_paragraphs
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph, ParagraphView
from console.ui.widgets.prompt_line import PromptLine, Question
from console.ui.widgets.status_bar import StatusBar

LIMIT = 500
"""Results that are read."""
NOTHING_YET = "Nothing was measured yet: b and B measure."
READING = "The results are being read."
EXPORT = "dsv4-console bench export writes them all as CSV or as the JSONL of sglang's client"
HOW_TO_MARK = "mark with space what is to be compared: A, then B"


class BenchHistoryScreen(HostScreen):
    """Opens a comparison of what is marked."""

    BESIDE = 150

    AUTO_FOCUS = "BenchList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "A/B"),
        Binding("enter,c", "compare", "compare", key_display="enter"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("d", "delete", "delete"),
        Binding("x", "export", "export"),
        Binding("q", "back", "back"),
        Binding("escape", "back", show=False),
    ]

    def __init__(self, bencher: Bencher, host: HostView, glyphs: Glyphs) -> None:
        super().__init__(host, glyphs)
        self._bencher = bencher
        self._results: tuple[BenchResult, ...] | None = None
        """None while they are being read."""
        self._sides: dict[str, Side] = {}
        """By id."""
        self._wanted = ""

    def compose(self) -> ComposeResult:
        yield StatusBar(glyphs=self._glyphs)
        with Container(id="history"):
            with Vertical(id="history-left"):
                yield BenchList(glyphs=self._glyphs, id="history-list")
                yield PromptLine(glyphs=self._glyphs)
            yield ParagraphView(glyphs=self._glyphs, id="history-details")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#history-list").border_title = "Benchmarks, the newest first"
        self.query_one("#history-details").border_title = "Result"
        self._show()
        self._read()

    def _read(self) -> None:
        self.run_worker(self._read_results(), group="bench history", exclusive=True)

    async def _read_results(self) -> None:
        try:
            self._results = await self._bencher.history(limit=LIMIT)
        except ConsoleError as error:
            self._results = self._results or ()
            self.tell(str(error))
        ids = {result.id for result in self._results}
        self._sides = {id: side for id, side in self._sides.items() if id in ids}
        self._show()

    def _show(self) -> None:
        shown = [result for result in self._results or () if found(result, self._wanted)]
        self.query_one(BenchList).show(shown, self._sides, self._host.utc_offset_s, self._nothing())

    def _nothing(self) -> str:
        """What an empty list says."""
        if self._results is None:
            return READING
        return f"no result has {self._wanted!r}" if self._results else NOTHING_YET

    @on(BenchList.Moved)
    def _show_details(self) -> None:
        details = self.query_one("#history-details", ParagraphView)
        result = self.query_one(BenchList).marked
        details.show([] if result is None else result_paragraphs(result, (), self._glyphs, large=False))
        details.scroll_home(animate=False)

    def on_key(self, event: events.Key) -> None:
        """The line that is typed comes first; the list's own keys never come here."""
        self.query_one(PromptLine).press(event)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is typed these keys are part of it."""
        return self.query_one(PromptLine).question is None if self.is_mounted else True

    def action_filter(self) -> None:
        """Words that must stand in a line."""
        self.query_one(PromptLine).ask(
            Question(
                "/",
                answered=lambda typed: "",
                changed=self._filtered,
                cancelled=self._unfiltered,
                suggestion=self._wanted,
            )
        )

    def _filtered(self, wanted: str) -> str:
        self._wanted = wanted
        self._show()
        results = self._results or ()
        return f"{sum(found(result, wanted) for result in results)} of {len(results)}"

    def _unfiltered(self) -> None:
        self._filtered("")

    def action_mark(self) -> None:
        """Put the result on a side; again: on the other; then on none."""
        if (result := self.query_one(BenchList).marked) is None:
            return
        order: list[Side] = ["B", "A"] if "A" in self._others(result).values() else ["A", "B"]
        side = self._sides.pop(result.id, None)
        if side != order[1]:
            self._sides[result.id] = order[0] if side is None else order[1]
        self._show()

    def _others(self, result: BenchResult) -> dict[str, Side]:
        return {id: side for id, side in self._sides.items() if id != result.id}

    def action_compare(self) -> None:
        """What is marked; with one side marked alone, against the result under the mark."""
        a, b = self._side("A"), self._side("B")
        marked = self.query_one(BenchList).marked
        if a and not b and marked is not None and marked.id not in a:
            b = (marked.id,)
        if not a or not b:
            self.tell(HOW_TO_MARK)
            return
        self.app.push_screen(BenchCompareScreen(self._bencher, self._host, self._glyphs, a=a, b=b))

    def _side(self, side: Side) -> tuple[str, ...]:
        """Its ids, the oldest first."""
        return tuple(each.id for each in reversed(self._results or ()) if self._sides.get(each.id) == side)

    def action_delete(self) -> None:
        """Forget the result under the mark, after a question."""
        if (result := self.query_one(BenchList).marked) is None:
            return
        context = result.context
        what = f"{context.profile or 'no profile'} at C={context.max_concurrency} ({result.id})"
        said = [Paragraph(f"{what} is forgotten, with the times of its requests. It cannot be brought back.")]
        question = ConfirmScreen("Delete this result?", said, yes="Delete", glyphs=self._glyphs)
        self.app.push_screen(question, lambda agreed: self._delete(result) if agreed else None)

    def _delete(self, result: BenchResult) -> None:
        self.run_worker(self._forget(result), group="bench delete")

    async def _forget(self, result: BenchResult) -> None:
        try:
            await self._bencher.delete(result.id)
        except ConsoleError as error:
            self.tell(str(error))
        self._read()

    def action_export(self) -> None:
        """Say how."""
        self.notify(EXPORT, timeout=10, markup=False)

    def action_back(self) -> None:
        """To where it was opened."""
        self.app.pop_screen()
