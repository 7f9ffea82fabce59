"""The first screen: is it serving, how fast, where is the limit, what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

from console.domain.deployment import observed
from console.domain.diagnosis import judge
from console.domain.gpu import NO_GPUS, GpuReport, Sample
from console.domain.host_view import HostView
from console.domain.observation import LogUpdate, ServerKey, Servers, Update
from console.domain.ownership import gpu_owners
from console.domain.run_record import HostRecords, PlanRecord
from console.domain.throughput import Throughput
from console.ui.widgets.gpu_panel import GpuPanel
from console.ui.widgets.line_view import LineView
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.server_panel import ServerPanel
from console.ui.widgets.status_bar import StatusBar
from console.ui.widgets.throughput_chart import ThroughputChart
from console.ui.widgets.verdict_line import VerdictLine

if TYPE_CHECKING:
    from console.ui.widgets.log_deck import LogDeck
    from console.ui.widgets.log_pane import LogPane

WIDE = 120
"""Columns from which there are two columns of panels with borders."""
BROAD = 160
"""Columns from which the GPUs take two thirds."""
TALL = 32
"""Rows below which panels give up their borders and the chart its curve."""
ROOMY = 50
"""Rows from which the chart has a second curve, for prompts."""
WINDOWS_S = (60.0, 300.0, 900.0)
FIRST_LOG_PANE = 4
NOBODY = "no SGLang server or router found in /proc"


class Dashboard(Screen[None]):
    """Shows what it is given; knows no host."""

    # Escape belongs to what is open in a pane first.
    ESCAPE_TO_MINIMIZE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "minimize", show=False)]

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._report: GpuReport = NO_GPUS
        self._servers = Servers(looked=False)
        self._host = HostView(name="")
        self._deck: LogDeck | None = None
        self._records: HostRecords | None = None
        self._rated_at = 0.0

    def compose(self) -> ComposeResult:
        yield StatusBar(glyphs=self._glyphs, id="status")
        with Horizontal(id="top"):
            yield GpuPanel(glyphs=self._glyphs, id="gpus")
            with Vertical(id="right"):
                yield ThroughputChart(glyphs=self._glyphs, id="throughput")
                yield ServerPanel(glyphs=self._glyphs, id="servers")
        yield VerdictLine(glyphs=self._glyphs, id="verdict")
        # The log panes take as long to import as the rest: they come after the first paint.
        yield Vertical(id="logs-place")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#gpus").border_title = "1 GPU"
        self.query_one("#throughput").border_title = "2 Throughput"
        self.query_one("#servers").border_title = "3 Servers"
        self.query_one(GpuPanel).focus()

    async def add_logs(self) -> None:
        """Make room for log panes. Nothing can be shown before."""
        from console.ui.widgets.log_deck import LogDeck

        self._deck = LogDeck(self._glyphs, first_number=FIRST_LOG_PANE, id="logs")
        await self.query_one("#logs-place").mount(self._deck)

    @property
    def deck(self) -> LogDeck:
        """The log panes, which are there once `add_logs` has been called."""
        assert self._deck is not None
        return self._deck

    async def show(self, update: Update) -> None:
        """Show one update of the watched host."""
        match update:
            case HostView():
                self._show_host(update)
            case Sample():
                self._show_sample(update)
            case Servers():
                await self._show_servers(update)
            case LogUpdate():
                self.deck.show_log(update)
            case HostRecords():
                self._show_records(update)
            case Throughput():
                self._rated_at = update.time
                self.query_one(ThroughputChart).note = update.note
                self.query_one(ThroughputChart).update_throughput(update)

    def _show_host(self, view: HostView) -> None:
        self._host = view
        status, gpus = self.query_one(StatusBar), self.query_one(GpuPanel)
        status.interval_s = gpus.interval_s = view.interval_s
        status.update_host(view)
        lost = view.connection in ("lost", "failed") and view.age_s is not None
        for panel in self.query(LineView):
            panel.greyed = lost and not isinstance(panel, StatusBar)
        logs = self.deck
        logs.greyed, logs.age_s = lost, view.age_s
        logs.utc_offset_s = view.utc_offset_s or 0.0
        # While the connection is lost the status bar tells the age; the driver did not stall.
        gpus.age_s = 0.0 if lost else view.age_s or 0.0

    def _show_sample(self, sample: Sample) -> None:
        grown = len(sample.gpu.gpus) != len(self._report.gpus)
        self._report = sample.gpu
        self._show_gpus()
        self._judge()
        if grown:
            self._lay_out()

    async def _show_servers(self, servers: Servers) -> None:
        grown = len(servers.views) != len(self._servers.views)
        self._servers = servers
        host = self._host.host
        self.query_one(ServerPanel).update_servers(
            servers.views,
            None if host is None else host.time,
            nothing=servers.note or (NOBODY if servers.looked else "looking…"),
        )
        deck = self.deck
        had_none = not deck.panes
        await deck.show_servers(servers.views)
        if had_none and isinstance(self.focused, GpuPanel):
            deck.focus_front()
        self._show_gpus()
        self._judge()
        if grown:
            self._lay_out()

    def _show_records(self, records: HostRecords) -> None:
        before, self._records = self._records, records
        if before is not None and (mark := plan_mark(before.plan, records.plan)) is not None:
            self.query_one(ThroughputChart).add_mark(self._rated_at, mark)
            self.deck.add_mark(mark)
        self._judge()

    def _show_gpus(self) -> None:
        processes = [view.process for view in self._servers.views if view.state != "gone"]
        self.query_one(GpuPanel).update_report(self._report, gpu_owners(self._report, processes))

    def _judge(self) -> None:
        records, views = self._records or HostRecords(), self._servers.views
        offset_s = self._host.utc_offset_s or 0.0
        deployment = observed(views, records, report=self._report, utc_offset_s=offset_s)
        self.query_one(StatusBar).update_deployment(deployment, records)
        if self._servers.looked:
            self.query_one(VerdictLine).update_verdict(judge(views, self._report, deployment))

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Give each part the rows it needs, the logs what is left."""
        width, height = self.size
        wide, tall = width >= WIDE, height >= TALL
        self.set_class(wide, "-wide")
        self.set_class(tall, "-tall")
        self.set_class(width >= BROAD, "-broad")
        rows = rows_of(
            height, wide=wide, tall=tall, gpus=len(self._report.gpus), servers=len(self._servers.views)
        )
        for selector, count in rows.items():
            self.query_one(selector).styles.height = count

    @property
    def front_log(self) -> Widget | None:
        """The log that has the focus, or had it last."""
        return None if self._deck is None else self._deck.front

    def panes(self) -> list[Widget]:
        """The panes in the order of their numbers."""
        return [
            self.query_one(GpuPanel),
            self.query_one(ThroughputChart),
            self.query_one(ServerPanel),
            *(self._deck.panes if self._deck is not None else ()),
        ]

    def focus_pane(self, number: int) -> None:
        """Focus pane `number`, counted from 1; a log pane comes to the front."""
        panes = self.panes()
        if number > len(panes):
            return
        pane = panes[number - 1]
        if self._deck is not None:
            self._deck.activate(pane)
        if self.maximized is not None and self.maximized is not pane:
            self.maximize(pane)
        self.set_focus(pane)

    def server_of(self, pane: LogPane) -> ServerKey | None:
        """Whose log a pane shows."""
        return self.deck.server_of(pane)

    def zoom(self) -> None:
        """The focused pane alone, and back."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    def next_window(self) -> None:
        """The next stretch of time for the chart."""
        chart = self.query_one(ThroughputChart)
        index = WINDOWS_S.index(chart.window_s) if chart.window_s in WINDOWS_S else -1
        chart.window_s = WINDOWS_S[(index + 1) % len(WINDOWS_S)]


def plan_mark(before: PlanRecord | None, now: PlanRecord | None) -> str | None:
    """The words for what happened between two looks at the plan under way; None: nothing."""
    if now is None or (before is not None and (before.id, before.state) == (now.id, now.state)):
        return None
    what = now.verb if now.profile is None else f"{now.verb} {now.profile}"
    return what if now.state == "running" else f"{what} {now.state}"


def rows_of(height: int, *, wide: bool, tall: bool, gpus: int, servers: int) -> Mapping[str, int]:
    """Rows for each part, by selector, in a terminal of so many.

    One line a GPU and one for the titles always; group headers, borders and the curve where it is tall; the
    logs get what is left, at least six rows.
    """
    borders = 2 if tall else 0
    gpu_rows = max(gpus, 1) + 1 + (3 if tall else 0) + borders
    server_rows = max(servers, 1) + borders
    if wide:
        chart_rows = borders + (8 if height < ROOMY else 13) if tall else 3
        top = min(max(gpu_rows, server_rows + chart_rows), max(6, height - 11))
        return {"#top": top, "#gpus": top, "#servers": server_rows, "#throughput": max(1, top - server_rows)}
    chart_rows = 10 if tall else 1
    gpu_rows = min(gpu_rows, max(3, height - 10 - server_rows - chart_rows))
    right = chart_rows + server_rows
    return {"#top": gpu_rows + right, "#gpus": gpu_rows, "#servers": server_rows, "#throughput": chart_rows}
