"""The journal on the screen: actions, their steps, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from console.domain.errors import ConsoleError
from console.domain.journal_entry import JournalEntry, JournalStep
from console.ui.app import ConsoleApp
from console.ui.screens.desks import KEEPS_NO_JOURNAL
from console.ui.screens.journal import NOTHING_YET, READING, JournalScreen, ReadJournal
from console.ui.themes import DEFAULT_THEME, load_themes
from console.ui.widgets.journal_list import CUT_OFF
from console.ui.widgets.meter import UNICODE
from tests.unit.canned import EVERYTHING, NOW, UP, Feed
from tests.unit.canned_operator import CannedOperator, Seat

SWITCH = JournalEntry(
    id="2",
    host="ct200",
    verb="switch",
    profile="pd-ll",
    by="me@desk",
    begun_at=NOW - 600,
    ended_at=NOW - 540,
    state="failed",
    sentence="pd-ll did not start: out of memory",
    seconds=60.0,
    steps=(
        JournalStep(index=0, title="look before anything is touched", state="done", seconds=2.0),
        JournalStep(index=1, title="launch", state="failed", seconds=58.0, text="\x1b[31m[red]CUDA OOM[/]"),
    ),
    commands=("kill -TERM 4711",),
)
STOP = JournalEntry(id="1", host="ct200", verb="stop", by="she@other", begun_at=NOW - 90_000)


@asynccontextmanager
async def seat(read: ReadJournal | None, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Seat]:
    """A console with that journal."""
    feed, operator = Feed((*EVERYTHING, UP)), CannedOperator()
    themes = load_themes().themes
    app = ConsoleApp(
        feed, themes=themes, theme=DEFAULT_THEME, glyphs=UNICODE, operator=operator, journal=read
    )
    async with app.run_test(size=size) as pilot:
        it = Seat(app, pilot, feed, operator)
        await it.until(lambda: feed.drained, "updates were not taken")
        await pilot.pause()
        yield it


async def both() -> Sequence[JournalEntry]:
    return (SWITCH, STOP)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_an_action_is_told_with_its_steps_and_what_came_of_it(size: tuple[int, int]) -> None:
    async with seat(both, size) as it:
        await it.press("J")
        await it.shows(
            "switch pd-ll failed pd-ll did not start: out of memory",
            "by me@desk on ct200, 1m",
            "1. done look before anything is touched 2.0 s",
            "2. failed launch: [red]CUDA OOM[/] 58 s",
            "By hand:",
            "kill -TERM 4711",
        )
        await it.press("down")
        await it.shows("> ", CUT_OFF, "by she@other on ct200, n/a")
        for key in ("q", "J", "J"):
            await it.press(key)
        assert it.app.screen is it.app.dashboard


async def test_an_empty_journal_and_one_that_is_being_read_say_so() -> None:
    there = asyncio.Event()

    async def late() -> Sequence[JournalEntry]:
        await there.wait()
        return ()

    async with seat(late) as it:
        await it.press("J")
        await it.shows(READING)
        there.set()
        await it.shows(NOTHING_YET)


async def test_a_journal_that_cannot_be_read_is_told() -> None:
    async def broken() -> Sequence[JournalEntry]:
        raise ConsoleError("the journal is no database")

    async with seat(broken) as it:
        await it.press("J")
        await it.until(lambda: it.told() == ["the journal is no database"], "it is not told")
        assert isinstance(it.app.screen, JournalScreen)


async def test_without_a_journal_the_key_says_so() -> None:
    async with seat(None) as it:
        await it.press("J")
        await it.until(lambda: it.told() == [KEEPS_NO_JOURNAL], "it is not told")


async def test_times_are_those_of_the_host() -> None:
    async with seat(both) as it:
        it.feed.more(msgspec.structs.replace(UP, utc_offset_s=7200.0))
        await it.until(lambda: it.feed.drained, "the host was not taken")
        await it.pilot.pause()
        await it.press("J")
        await it.shows("11-30 02:34 switch")
