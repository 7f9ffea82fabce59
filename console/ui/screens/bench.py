"""A benchmark: what would be measured and how, the figures while it goes on, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer

from console.domain.bench.benching import BenchAsk, Bencher, BenchPlan
from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError, UsageError
from console.domain.host_view import HostView
from console.ui.screens.confirm import ConfirmScreen
from console.ui.widgets.bench_board import BenchBoard
from console.ui.widgets.bench_form import BenchForm
from console.ui.widgets.bench_heading import bench_heading, bench_title
from console.ui.widgets.bench_live import progress_paragraph
from console.ui.widgets.bench_progress import BenchProgress
from console.ui.widgets.bench_references import references, worth_reading
from console.ui.widgets.bench_result import Reference
from console.ui.widgets.bench_shape import Field, changed, next_cache, plan_words, value_of
from console.ui.widgets.choices import Choice, Choices
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph, ParagraphView
from console.ui.widgets.progress import stretch
from console.ui.widgets.prompt_line import PromptLine, Question
from console.ui.widgets.status_bar import StatusBar

BESIDE = 110
"""Columns from which charts stand beside the figures."""
TALL = 32
"""Rows below which the parts have a line above them and no border, and figures no large digits."""
TICK_S = 1.0
KEPT = "What was measured is kept, marked partial."
PLANNING = "the plan is being made"

Targets = Callable[[str], Mapping[int, float]]
"""Output tokens per second wanted of a profile, by concurrency."""


class BenchScreen(Screen[None]):
    """Shows a plan and, once it has begun, its progress; says with messages what is wanted."""

    AUTO_FOCUS = "Choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "back"),
        Binding("escape", "cancel", show=False),
        Binding("escape", "abort", "abort"),
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]

    class Begun(Message):
        """This is to be measured."""

        def __init__(self, plan: BenchPlan) -> None:
            super().__init__()
            self.plan = plan

    class Left(Message):
        """The screen is to be closed; a measurement that has begun goes on."""

    class AbortWanted(Message):
        """The measurement under way is to end."""

    def __init__(
        self,
        plan: BenchPlan,
        wanted: BenchAsk,
        bencher: Bencher,
        host: HostView,
        glyphs: Glyphs,
        *,
        targets: Targets,
        gpus: Callable[[], Sequence[Paragraph]],
        progress: BenchProgress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wanted` is what was asked for before defaults were filled in; `gpus` tells of those that work."""
        super().__init__()
        self.plan, self._wanted = plan, wanted
        self._bencher, self._host, self._glyphs, self._clock = bencher, host, glyphs, clock
        self._targets, self._gpus = targets, gpus
        self._progress = progress
        self._planning = False
        self._against: Sequence[Reference] = ()
        """What the result stands against, once that was looked for."""

    def compose(self) -> ComposeResult:
        yield StatusBar(glyphs=self._glyphs)
        yield _unfocused(ParagraphView(glyphs=self._glyphs, id="bench-heading"))
        with Container(id="bench"):
            yield BenchForm(self.plan, glyphs=self._glyphs, id="bench-form")
            yield BenchBoard(glyphs=self._glyphs, id="bench-board")
        yield PromptLine(glyphs=self._glyphs)
        yield _unfocused(ParagraphView(glyphs=self._glyphs, id="bench-note"))
        yield Choices(glyphs=self._glyphs, id="bench-choices")
        yield Footer(show_command_palette=False)

    @property
    def begun(self) -> bool:
        """Whether it is, or was, measured."""
        return self._progress is not None

    @property
    def goes_on(self) -> bool:
        """Whether it is being measured."""
        return self._progress is not None and self._progress.running

    def on_mount(self) -> None:
        self.query_one(StatusBar).update_host(self._host)
        self.query_one("#bench-form").border_title = "What is sent"
        self.refresh_state()
        self.set_interval(TICK_S, self.refresh_state)
        if self.begun and not self.goes_on:
            self._compare()

    def _compare(self) -> None:
        """Look for what the result stands against; of several, the table alone is told."""
        results = self._progress.results if self._progress is not None else ()
        if len(results) == 1:
            self.run_worker(self._stand(results[0]), group="bench history", exclusive=True)

    async def _stand(self, result: BenchResult) -> None:
        profile = result.context.profile
        before: list[BenchResult] = []
        targets: Mapping[int, float] = {}
        try:
            targets = {} if profile is None else self._targets(profile)
            known = await self._bencher.history(host=result.context.host, profile=profile)
            before = [await self._bencher.result(id) for id in worth_reading(result, known)]
        except ConsoleError as error:
            self._tell(str(error))
        self._against = await asyncio.to_thread(references, result, before, targets)
        self.refresh_state()

    def show_progress(self, progress: BenchProgress) -> None:
        """How far it is by now."""
        began = progress.running and not self.goes_on
        ended = not progress.running
        self._progress = progress
        if began:
            self._against = ()
        if not self.is_mounted:
            return
        self.refresh_state()
        if began or ended:
            self.query_one(Choices).focus()
        if ended:
            self.query_one("#bench-figures").scroll_home(animate=False)
            self._compare()

    def show_host(self, view: HostView) -> None:
        """The host as it is now."""
        self._host = view
        if self.is_mounted:
            self.query_one(StatusBar).update_host(view)
            self.refresh_state()

    def refresh_state(self) -> None:
        """Show everything as it is now."""
        progress = self._progress
        self.set_class(self.goes_on, "-running")
        self.set_class(progress is not None and not progress.running, "-ended")
        self.query_one("#bench-heading", ParagraphView).show(self._heading())
        if progress is None:
            self.query_one(BenchForm).show(self.plan)
        elif progress.running:
            self.query_one(BenchBoard).show_live(progress, self._gpus())
        else:
            self.query_one(BenchBoard).show_result(progress, self._against, large=self.has_class("-tall"))
        self.query_one("#bench-note", ParagraphView).show(self._note())
        self.query_one(Choices).offer(self._choices())
        self.refresh_bindings()

    def _heading(self) -> list[Paragraph]:
        progress = self._progress
        if progress is None:
            return [*bench_heading(self.plan)]
        title = bench_title(self.plan)
        heading = Paragraph(f"{title[:1].upper()}{title[1:]} on {self.plan.host}", "strong")
        if progress.running:
            return [heading, progress_paragraph(progress, self._clock(), self._glyphs)]
        return [
            heading,
            Paragraph(f"{plan_words(self.plan)}; it took {stretch(progress.elapsed(0.0))}", "muted"),
        ]

    def _note(self) -> list[Paragraph]:
        progress = self._progress
        if progress is None:
            reason = self._bencher.refusal()
            return [Paragraph(f"Measuring is not possible: {reason}", "warning")] if reason else []
        if progress.running and progress.aborting is not None:
            return [Paragraph(f"Aborting: {progress.aborting}", "warning")]
        return []

    def _choices(self) -> tuple[Choice, ...]:
        progress = self._progress
        if progress is None:
            able = self._bencher.refusal() is None and not self._planning
            return (Choice("Cancel"), Choice("Measure", able), Choice("Change"))
        if progress.running:
            return (Choice("Leave it running"), Choice("Abort", progress.aborting is None))
        return (Choice("Close"), Choice("Measure again"))

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= BESIDE, "-beside")
        self.set_class(event.size.height >= TALL, "-tall")

    @on(Choices.Chosen)
    def _chosen(self, message: Choices.Chosen) -> None:
        if message.index == 0:
            self.action_leave()
        elif self.goes_on:
            self.action_abort()
        elif message.index == 1:
            self.post_message(self.Begun(self.plan))
        else:
            self.query_one(BenchForm).focus()

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
                suggestion=value_of(self._wanted, field),
            )
        )

    def _typed(self, field: Field, typed: str) -> str:
        try:
            self._ask_anew(changed(self._wanted, field, typed))
        except UsageError as error:
            return error.what
        return ""

    def _ask_anew(self, wanted: BenchAsk) -> None:
        self._planning = True
        self.refresh_state()
        self.run_worker(self._plan_anew(wanted), group="bench plan", exclusive=True)

    async def _plan_anew(self, wanted: BenchAsk) -> None:
        """A shape that cannot be leaves the one before."""
        try:
            self.plan = await self._bencher.plan(wanted)
            self._wanted = wanted
        except ConsoleError as error:
            self._tell(str(error))
        self._planning = False
        self.refresh_state()

    def on_key(self, event: events.Key) -> None:
        """The line that is typed comes first."""
        self.query_one(PromptLine).press(event)

    def on_paste(self, event: events.Paste) -> None:
        prompt = self.query_one(PromptLine)
        if prompt.question is not None:
            prompt.paste(event.text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape aborts while it runs; one that comes just after the end does not close the result."""
        return {"abort": self.goes_on, "cancel": not self.begun}.get(action, True)

    def action_cancel(self) -> None:
        """From the form back to the answers; from there, close."""
        if isinstance(self.focused, BenchForm):
            self.query_one(Choices).focus()
        else:
            self.action_leave()

    def action_abort(self) -> None:
        """Ask whether to abort."""
        if self._progress is None or self._progress.aborting is not None:
            return
        question = ConfirmScreen("Abort?", [Paragraph(KEPT)], yes="Abort", no="Go on", glyphs=self._glyphs)
        self.app.push_screen(question, self._abort)

    def _abort(self, agreed: bool | None) -> None:
        if agreed and self.goes_on:
            self.post_message(self.AbortWanted())

    def action_leave(self) -> None:
        """Close the screen; what has begun goes on."""
        self.post_message(self.Left())

    def action_step(self, rows: int) -> None:
        """To the form, or down the figures, while a button has the focus."""
        if not self.begun:
            self.query_one(BenchForm).focus()
        else:
            self.query_one("#bench-figures").scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        """The figures by pages."""
        figures = self.query_one("#bench-figures")
        figures.scroll_relative(y=pages * max(1, figures.size.height - 1), animate=False)

    def _tell(self, said: str) -> None:
        self.notify(said, severity="warning", markup=False)


def _unfocused(view: ParagraphView) -> ParagraphView:
    view.can_focus = False
    return view
