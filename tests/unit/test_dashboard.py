"""The dashboard: what stands where, what keys do, and how a loss looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot
from textual.widget import AwaitMount, Widget

from console.domain.errors import ConnectionFailed
from console.domain.gpu import GpuReport, Sample
from console.domain.observation import Ended, Servers, Update
from console.domain.throughput import Throughput
from console.ui.app import ConsoleApp
from console.ui.screens.help import HelpScreen
from console.ui.widgets.gpu_panel import GpuPanel
from console.ui.widgets.line_view import LineView
from console.ui.widgets.lines import plain
from console.ui.widgets.log_pane import LogPane
from console.ui.widgets.meter import ASCII
from console.ui.widgets.server_panel import ServerPanel
from console.ui.widgets.status_bar import StatusBar
from console.ui.widgets.throughput_chart import ThroughputChart
from console.ui.widgets.verdict_line import VerdictLine
from tests.unit.canned import (
    DECODE,
    EVERYTHING,
    HOST,
    LOGS,
    PAIR,
    REPORT,
    ROUTER,
    SAMPLE,
    UP,
    Feed,
    app_with,
    server,
)

SIZES = [(80, 24), (120, 40), (200, 60)]


class Seat:
    """An app under test and its feed."""

    def __init__(self, app: ConsoleApp, pilot: Pilot[BaseException], feed: Feed) -> None:
        self.app, self.pilot, self.feed = app, pilot, feed

    async def shows(self, *updates: Update) -> None:
        """Feed updates and wait until they are on the screen."""
        self.feed.more(*updates)
        await self.settled()

    async def settled(self) -> None:
        async with asyncio.timeout(20):
            while not self.feed.drained:
                await self.pilot.pause()
        await self.pilot.pause()
        await self.pilot.pause()

    def text(self, kind: type[LineView]) -> str:
        return "\n".join(plain(line) for line in self.app.screen.query_one(kind).shown)

    def screen(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


@asynccontextmanager
async def seat(
    *updates: Update, size: tuple[int, int] = (120, 40), glyphs: object = None
) -> AsyncIterator[Seat]:
    feed = Feed(updates or EVERYTHING)
    app = app_with(feed) if glyphs is None else app_with(feed, glyphs=ASCII)
    async with app.run_test(size=size) as pilot:
        taken = Seat(app, pilot, feed)
        await taken.settled()
        yield taken


@pytest.mark.parametrize("size", SIZES)
async def test_everything_that_matters_is_on_the_screen(size: tuple[int, int]) -> None:
    async with seat(size=size) as it:
        screen = it.screen()
        for words in (
            "ct200",
            "12 ms",
            "prefill",
            "decode",
            "router",
            "READY",
            "1,0",
            "busy but cold",
            "Decode batch",
        ):
            assert words in screen, words
        gpus = it.text(GpuPanel)
        assert all(f"{watts}/600 W" in gpus for watts in (540, 541, 542, 543, 281))
        assert len(it.app.screen.query(LogPane)) == 3


@pytest.mark.parametrize("size", SIZES)
async def test_no_pane_is_without_rows(size: tuple[int, int]) -> None:
    async with seat(size=size) as it:
        for widget in it.app.screen.query(LineView):
            assert widget.size.height > 0 or not widget.display, widget
        assert sum(pane.size.height for pane in it.app.screen.query(LogPane) if pane.display) >= 3


async def test_small_terminals_have_one_log_pane_and_big_ones_all() -> None:
    async with seat(size=(80, 24)) as small:
        assert [pane.role for pane in small.app.screen.query(LogPane) if pane.display] == ["decode"]
    async with seat(size=(200, 60)) as big:
        assert [pane.role for pane in big.app.screen.query(LogPane) if pane.display] == [
            "prefill",
            "decode",
            "router",
        ]


async def test_a_resize_while_panes_are_being_mounted_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(UP) as it:
        deck = it.app.dashboard.deck
        mount = deck.mount

        def after_a_resize(widget: Widget, before: Widget) -> AwaitMount:
            # Prefill's pane is on its way, decode's is not made yet.
            deck.on_resize(events.Resize(deck.size, deck.size))
            return mount(widget, before=before)

        monkeypatch.setattr(deck, "mount", after_a_resize)
        await it.shows(PAIR)
        assert [pane.role for pane in deck.query(LogPane)] == ["prefill", "decode", "router"]


async def test_number_keys_bring_a_pane_to_the_front() -> None:
    async with seat(size=(80, 24)) as it:
        await it.pilot.press("6")
        await it.settled()
        assert [pane.role for pane in it.app.screen.query(LogPane) if pane.display] == ["router"]
        assert it.app.focused is not None
        assert it.app.focused.has_focus
        await it.pilot.press("1")
        assert isinstance(it.app.focused, GpuPanel)
        await it.pilot.press("9")
        assert isinstance(it.app.focused, GpuPanel), "there is no pane 9"


async def test_zoom_and_the_way_back() -> None:
    async with seat() as it:
        await it.pilot.press("5", "z")
        await it.settled()
        assert isinstance(it.app.screen.maximized, LogPane)
        await it.pilot.press("q")
        await it.settled()
        assert it.app.screen.maximized is None
        assert it.app.is_running


async def test_q_leaves() -> None:
    async with seat() as it:
        await it.pilot.press("q")
        await it.pilot.pause()
        assert it.app.return_code == 0


async def test_help_lists_every_key_and_q_comes_back() -> None:
    async with seat() as it:
        await it.pilot.press("question_mark")
        await it.settled()
        assert isinstance(it.app.screen, HelpScreen)
        for words in ("Follow the end of the log", "The next theme", "To a pane by its number"):
            assert words in it.screen()
        await it.pilot.press("q")
        await it.settled()
        assert not isinstance(it.app.screen, HelpScreen)
        assert it.app.is_running


async def test_t_goes_through_the_themes() -> None:
    async with seat() as it:
        seen = []
        for _ in range(5):
            await it.pilot.press("T")
            seen.append(it.app.theme)
        assert len(set(seen)) == 5
        assert seen[-1] == "dsv4-dark"


async def test_a_lost_connection_keeps_everything_greyed_with_its_age() -> None:
    async with seat() as it:
        lost = msgspec.structs.replace(
            UP, connection="lost", detail="Connection lost", age_s=14.0, since_s=14.0, retry_in_s=3.0
        )
        await it.shows(lost)
        assert "connection lost 14 s ago, retrying in 3 s" in it.text(StatusBar)
        assert "14 s old" in it.text(StatusBar)
        assert "540/600 W" in it.text(GpuPanel)
        assert "READY" in it.text(ServerPanel)
        assert all(
            panel.greyed for panel in it.app.screen.query(LineView) if not isinstance(panel, StatusBar)
        )
        assert all(pane.greyed for pane in it.app.screen.query(LogPane))
        assert "stale 14 s" in it.screen()
        await it.shows(UP, SAMPLE)
        assert not any(panel.greyed for panel in it.app.screen.query(LineView))


async def test_an_unreachable_server_is_a_gap_and_an_idle_one_0() -> None:
    async with seat(
        UP, SAMPLE, PAIR, Throughput(time=0.0, gen_tok_s=0.0, prompt_tok_s=0.0, running=0, queued=0)
    ) as it:
        assert "0 tok/s" in it.text(ThroughputChart)
        await it.shows(Throughput(time=2.0))
        assert "n/a" in it.text(ThroughputChart)


async def test_a_host_without_gpus_says_why() -> None:
    nothing = GpuReport(source="none", reason="no NVIDIA driver on this host")
    async with seat(UP, Sample(seq=1, host=HOST, gpu=nothing), Servers()) as it:
        assert "no NVIDIA driver on this host" in it.text(GpuPanel)
        assert "no SGLang server or router" in it.text(ServerPanel)


async def test_a_replaced_server_takes_its_log_pane_along() -> None:
    async with seat() as it:
        again = server("decode", 30001, 6000, "starting", reason="nothing listens on port 30001")
        await it.shows(Servers((PAIR.views[0], again, ROUTER)))
        panes = {pane.role: pane for pane in it.app.screen.query(LogPane)}
        assert len(panes) == 3
        assert "starting" in it.text(ServerPanel)
        assert "Decode transfer failed" not in it.screen()


async def test_a_failed_server_is_the_verdict() -> None:
    async with seat() as it:
        dead = server(
            "decode", 30001, 5858, "failed", reason="CUDA error: an illegal memory access was encountered"
        )
        await it.shows(Servers((PAIR.views[0], dead, ROUTER)))
        assert it.text(VerdictLine).startswith("decode :30001 failed: CUDA error")
        assert "FAILED" in it.text(ServerPanel)


async def test_hostile_text_is_only_text() -> None:
    async with seat() as it:
        evil = server(
            "decode", 30001, 5858, "failed", reason="[/usr/bin/python3] [@click=app.quit]x[/] [red]"
        )
        await it.shows(Servers((PAIR.views[0], evil, ROUTER)))
        assert "[/usr/bin/python3]" in it.text(VerdictLine)
        assert it.app.is_running


async def test_the_first_connection_failing_ends_the_app_with_its_error() -> None:
    error = ConnectionFailed("port 22 refuses connections", where="ct200", next_step="check sshd")
    async with seat(UP, Ended(error)) as it:
        await it.pilot.pause()
        assert it.app.return_value is error
        assert it.app.return_code == 4


async def test_in_ascii_nothing_else_is_drawn() -> None:
    async with seat(*EVERYTHING, size=(80, 24), glyphs=ASCII) as it:
        for kind in (StatusBar, GpuPanel, ServerPanel, ThroughputChart, VerdictLine):
            assert it.text(kind).isascii(), kind


async def test_log_updates_that_come_before_their_server_are_kept() -> None:
    async with seat(UP, SAMPLE, *LOGS, PAIR) as it:
        assert "Decode transfer failed" in it.screen()
        assert DECODE.process.key == (5858, 5858)


async def test_reports_shorter_than_before_do_not_break_the_panel() -> None:
    async with seat() as it:
        await it.shows(Sample(seq=3, host=HOST, gpu=msgspec.structs.replace(REPORT, gpus=REPORT.gpus[:1])))
        assert "540/600 W" in it.text(GpuPanel)


async def test_an_error_of_our_own_ends_the_app_and_is_not_lost() -> None:
    async def broken() -> AsyncGenerator[Update, None]:
        yield UP
        raise ZeroDivisionError("a bug")

    app = app_with(broken)
    async with app.run_test() as pilot:
        async with asyncio.timeout(10):
            while app.return_value is None:
                await pilot.pause()
    assert isinstance(app.return_value, ZeroDivisionError)
    assert app.return_code == 1
