"""Older lines than those in memory: asked for at the top, put before what is in view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from console.domain.errors import ConnectionLost, UsageError
from console.domain.loghistory import HostMatch, HostMatches, HostSearch, OlderLines, ServerKey
from console.domain.logline import LogLine
from console.domain.observation import Servers
from console.ui.screens.found import FoundScreen
from console.ui.widgets.log_buffer import LogBuffer
from console.ui.widgets.log_pane import LogPane
from console.ui.widgets.log_rows import Note
from tests.unit.canned import DECODE, SAMPLE, UP, Feed, app_with, log


def line(number: int) -> LogLine:
    return LogLine(number, f"line {number}", "error" if number % 10 == 0 else "plain")


class TestBuffer:
    def test_older_lines_go_before_all_others_and_positions_stay(self) -> None:
        buffer = LogBuffer()
        buffer.extend([line(1), line(2)])
        buffer.prepend([line(-10), line(-9)], "the log begins here")
        assert [buffer.row(index) for index in range(len(buffer))] == [
            Note("the log begins here"), line(-10), line(-9), line(1), line(2),
        ]  # fmt: skip
        assert [buffer.position(index) for index in range(5)] == [-3, -2, -1, 0, 1]
        assert list(buffer.alarms["error"]) == [-2]
        assert buffer.first_number == -10


class Archive:
    """A host's log: 100 lines from before those that are followed."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.closed = False
        self.lost = False

    async def older(self, server: ServerKey, before: int) -> OlderLines:
        self.asked.append(before)
        if self.lost:
            raise ConnectionLost("the log cannot be asked for")
        first = before - 50
        return OlderLines(lines=tuple(map(line, range(first, before))), exhausted=first <= -99)

    async def search(self, server: ServerKey, search: HostSearch) -> AsyncGenerator[HostMatches, None]:
        found = tuple(HostMatch(offset=n, size=9, text=f"{search.pattern} {n}") for n in range(3))
        try:
            yield HostMatches(matches=found[:1], searched=5_000_000, size=9_000_000)
            yield HostMatches(matches=found, searched=9_000_000, size=9_000_000, done=True, complete=True)
        finally:
            self.closed = True

    async def cut_line(self, server: ServerKey, number: int) -> AsyncGenerator[bytes, None]:
        if number != 2:
            raise UsageError("this line is shown whole")
        for piece in (b"x" * 10, b"y" * 10):
            yield piece


async def settle(pilot, condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await pilot.pause()


async def test_scrolling_up_at_the_top_brings_them_until_the_log_begins() -> None:
    archive = Archive()
    feed = Feed([UP, SAMPLE, Servers((DECODE,)), log(DECODE, *map(line, range(1, 61)))])
    app = app_with(feed, source=archive)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: feed.drained and app.screen.query(LogPane))
        pane = app.screen.query_one(LogPane)
        await settle(pilot, lambda: pane.view.shown.live.added == 60)
        await pilot.press("g")
        assert archive.asked == []
        await pilot.press("up")
        await settle(pilot, lambda: len(pane.view.shown.buffer) > 60)
        assert archive.asked == [1]
        assert pane.view.paused
        assert pane.view.shown.buffer.row(0) == line(-49)
        await pilot.press("g", "g")
        await settle(pilot, lambda: len(archive.asked) == 2 and len(pane.view.shown.buffer) > 110)
        assert pane.view.shown.buffer.row(0) == Note("the log begins here")
        await pilot.press("g", "g", "up")
        await pilot.pause()
        assert archive.asked == [1, -49], "there is nothing older to ask for"
        await pilot.press("G")
        await settle(pilot, lambda: not pane.view.paused)
        assert len(pane.view.shown.buffer) == 60, "what was fetched is gone with the pause"


async def test_a_lost_connection_is_told_and_can_be_tried_again() -> None:
    archive = Archive()
    archive.lost = True
    feed = Feed([UP, SAMPLE, Servers((DECODE,)), log(DECODE, *map(line, range(1, 61)))])
    app = app_with(feed, source=archive)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: feed.drained and app.screen.query(LogPane))
        await pilot.press("g", "up")
        await settle(pilot, lambda: archive.asked == [1])
        await pilot.pause()
        archive.lost = False
        await pilot.press("up")
        await settle(pilot, lambda: archive.asked == [1, 1])


async def test_the_whole_file_is_searched_on_the_host() -> None:
    archive = Archive()
    feed = Feed([UP, SAMPLE, Servers((DECODE,)), log(DECODE, line(1))])
    app = app_with(feed, source=archive)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: feed.drained and app.screen.query(LogPane))
        await pilot.press("asterisk", "(", "enter")
        assert not isinstance(app.screen, FoundScreen), "a bad pattern is told in the prompt"
        await pilot.press("backspace", "N", "C", "C", "L", "enter")
        await settle(pilot, lambda: isinstance(app.screen, FoundScreen) and archive.closed)
        pane = app.screen.query_one(LogPane)
        await settle(pilot, lambda: len(pane.log_rows) == 3)
        assert pane.log_rows.row(2).text == "NCCL 2"
        said = str(app.screen.query_one("#found").render())
        assert "/NCCL/ 3 matches, newest first, in 9.0 MB" in said
        await pilot.press("q")
        await settle(pilot, lambda: not isinstance(app.screen, FoundScreen))


async def test_a_cut_line_is_saved_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    feed = Feed([UP, SAMPLE, Servers((DECODE,)), log(DECODE, line(1), LogLine(2, "xxx … +9.99 MB"))])
    app = app_with(feed, source=Archive())
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: feed.drained and app.screen.query(LogPane))
        await pilot.press("g", "u")
        await pilot.pause()
        await pilot.press("V", "down", "u")
        await settle(pilot, lambda: sizes(tmp_path) == [20])
    (saved,) = files(tmp_path)
    assert saved.read_bytes() == b"x" * 10 + b"y" * 10
    assert saved.stat().st_mode & 0o777 == 0o600


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.log"))


def sizes(folder: Path) -> list[int]:
    return [file.stat().st_size for file in files(folder)]
