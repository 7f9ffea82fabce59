"""A benchmark: what would be measured and how, the figures while it goes on, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from console.domain.bench.benching import BenchAsk, Bencher, BenchPlan
from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError, UsageError
from console.domain.host_view import HostView
from console.ui.screens.proposal import ProposalScreen
from console.ui.widgets.bench_board import BenchBoard
from console.ui.widgets.bench_form import BenchForm
from console.ui.widgets.bench_heading import bench_heading, bench_title
from console.ui.widgets.bench_live import progress_paragraph
from console.ui.widgets.bench_progress import BenchProgress
from console.ui.widgets.bench_result import Reference
from console.ui.widgets.bench_shape import Field, changed, next_cache, plan_words, value_of
from console.ui.widgets.choices import Choice, Choices
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph
from console.ui.widgets.progress import stretch
from console.ui.widgets.prompt_line import PromptLine, Question

References = Callable[[BenchResult, Callable[[str], None]], Awaitable[Sequence[Reference]]]
"""What a result stands against; what of it could not be read is told to the second argument."""


class BenchScreen(ProposalScreen[BenchProgress]):
    """Shows the shape of a measurement and lets it be changed, then its figures beside charts."""

    ON_ABORT = "What was measured is kept, marked partial."

    class Begun(Message):
        """This is to be measured, by what was `wanted` of it."""

        def __init__(self, plan: BenchPlan, wanted: BenchAsk) -> None:
            super().__init__()
            self.plan, self.wanted = plan, wanted

    def __init__(
        self,
        plan: BenchPlan,
        wanted: BenchAsk,
        bencher: Bencher,
        host: HostView,
        glyphs: Glyphs,
        *,
        refusal: Callable[[], str | None],
        references: References,
        gpus: Callable[[], Sequence[Paragraph]],
        progress: BenchProgress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wanted` is what was asked for before defaults were filled in, `refusal` tells why nothing can be
        measured now, `gpus` of those that work."""
        super().__init__(host, glyphs, progress=progress, clock=clock)
        self.plan, self._wanted = plan, wanted
        self._bencher, self._refusal = bencher, refusal
        self._references, self._gpus = references, gpus
        self._planning = False
        self._against: Sequence[Reference] = ()
        """What the result stands against, once that was looked for."""

    def parts(self) -> ComposeResult:
        with Container(id="bench"):
            yield BenchForm(self.plan, glyphs=self._glyphs, id="bench-form")
            yield BenchBoard(glyphs=self._glyphs, id="bench-board")
        yield PromptLine(glyphs=self._glyphs)

    @property
    def deed(self) -> str:
        return "Measuring"

    def on_mount(self) -> None:
        self.query_one("#bench-form").border_title = "What is sent"
        if self.ended:
            self._compare()

    def _compare(self) -> None:
        """Look for what the result stands against; of several, the table alone is told."""
        results = self._progress.results if self._progress is not None else ()
        if len(results) == 1:
            self.run_worker(self._stand(results[0]), group="bench history", exclusive=True)

    async def _stand(self, result: BenchResult) -> None:
        self._against = await self._references(result, self.tell)
        self.refresh_state()

    def show_progress(self, progress: BenchProgress) -> None:
        """How far it is by now."""
        if progress.running:
            self._against = ()
        super().show_progress(progress)

    def show_end(self) -> None:
        self.scrolled.scroll_home(animate=False)
        self._compare()

    def show_parts(self) -> None:
        progress = self._progress
        if progress is None:
            self.query_one(BenchForm).show(self.plan)
        elif progress.running:
            self.query_one(BenchBoard).show_live(progress, self._gpus())
        else:
            self.query_one(BenchBoard).show_result(progress, self._against, large=self.has_class("-tall"))

    def heading(self) -> Iterable[Paragraph]:
        progress = self._progress
        if progress is None:
            return bench_heading(self.plan)
        title = bench_title(self.plan)
        heading = Paragraph(f"{title[:1].upper()}{title[1:]} on {self.plan.host}", "strong")
        if progress.running:
            return [heading, progress_paragraph(progress, self._clock(), self._glyphs)]
        return [
            heading,
            Paragraph(f"{plan_words(self.plan)}; it took {stretch(progress.elapsed(0.0))}", "muted"),
        ]

    def why_not(self) -> str | None:
        return self._refusal()

    def answers(self) -> tuple[Choice, ...]:
        if self.begun:
            return (Choice("Measure again"),)
        return (Choice("Measure", self.why_not() is None and not self._planning), Choice("Change"))

    def answer(self, index: int) -> None:
        if self.begun:
            self._measure_again()
        elif index == 1:
            self.post_message(self.Begun(self.plan, self._wanted))
        else:
            self.query_one(BenchForm).focus()

    def _measure_again(self) -> None:
        """By a new plan: the old one's prompts are in the cache by now, and the target may be another."""
        if self._planning:
            return
        self._planning = True
        self.run_worker(self._begin_again(), group="bench plan", exclusive=True)

    async def _begin_again(self) -> None:
        if await self._plan_anew(self._wanted):
            self.post_message(self.Begun(self.plan, self._wanted))

    @on(BenchForm.Chosen)
    def _change(self, message: BenchForm.Chosen) -> None:
        field = message.field
        if field.name == "cache":
            self._ask_anew(msgspec.structs.replace(self._wanted, cache=next_cache(self._wanted.cache)))
            return
        self.query_one(PromptLine).ask(
            Question(
                f"{field.label}: ",
                answered=lambda typed: self._typed(field, typed),
                suggestion=value_of(self.plan.ask, field),
            )
        )

    def _typed(self, field: Field, typed: str) -> str:
        if typed == value_of(self.plan.ask, field):
            return ""
        try:
            self._ask_anew(changed(self._wanted, field, typed))
        except UsageError as error:
            return error.what
        return ""

    def _ask_anew(self, wanted: BenchAsk) -> None:
        self._planning = True
        self.refresh_state()
        self.run_worker(self._plan_anew(wanted), group="bench plan", exclusive=True)

    async def _plan_anew(self, wanted: BenchAsk) -> bool:
        """A shape that cannot be leaves the one before; whether it can."""
        try:
            self.plan = await self._bencher.plan(wanted)
            self._wanted = wanted
        except ConsoleError as error:
            self.tell(str(error))
            return False
        finally:
            self._planning = False
            self.refresh_state()
        return True

    def on_key(self, event: events.Key) -> None:
        """The line that is typed comes first."""
        self.query_one(PromptLine).press(event)

    def on_paste(self, event: events.Paste) -> None:
        prompt = self.query_one(PromptLine)
        if prompt.question is not None:
            prompt.paste(event.text)

    def action_cancel(self) -> None:
        """From the form back to the answers; from there, close."""
        if isinstance(self.focused, BenchForm):
            self.query_one(Choices).focus()
        else:
            self.action_leave()

    def action_step(self, rows: int) -> None:
        """To the form, or down the figures, while an answer has the focus."""
        if self.begun:
            super().action_step(rows)
        else:
            self.query_one(BenchForm).focus()

    @property
    def scrolled(self) -> Widget:
        return self.query_one(BenchBoard).figures
