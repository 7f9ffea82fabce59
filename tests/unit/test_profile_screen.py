"""The picker of profiles: what it says, how it is filtered, and the way to a plan."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from console.domain.errors import ConnectionLost, ProfileError
from console.domain.operating import ProfileEntry
from console.ui.app import ConsoleApp
from console.ui.screens.help import HelpScreen
from console.ui.screens.plan import PlanScreen
from console.ui.screens.profiles import ProfilesScreen
from console.ui.widgets.lines import plain
from console.ui.widgets.meter import ASCII
from console.ui.widgets.paragraphs import ParagraphView
from console.ui.widgets.profile_list import ProfileList, gpus_in_words
from tests.unit.canned import EVERYTHING, NOW, Feed
from tests.unit.canned_operator import ENTRIES, CannedOperator, Seat, console, seat


def rows(it: Seat) -> list[str]:
    """The lines of the list below its title."""
    return [plain(line).rstrip() for line in it.app.screen.query_one(ProfileList).shown[1:]]


def marked(it: Seat) -> str:
    entry = it.app.screen.query_one(ProfileList).marked
    return entry.name if entry else ""


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_list_says_what_there_is_and_how_each_did(size: tuple[int, int]) -> None:
    async with seat(size=size) as it:
        await it.press("p")
        await it.shows("verified after 38 s")
        running, cpu, broken, ll128, *_ = rows(it)
        assert "● runs" in running
        assert "pd-ll" in running
        assert "0-7" in running
        assert " ago" in running
        assert "single CPU" in cpu
        assert "never launched here" in cpu
        assert "✗ broken pd-broken" in broken
        assert "experimental" in ll128
        assert marked(it) == "pd-ll"
        assert all(len(row) <= size[0] for row in rows(it))


async def test_the_details_tell_why_and_what_would_change_with_signs() -> None:
    async with seat() as it:
        await it.press("p")
        await it.shows("This is what runs.")
        await it.press("down", "down", "down")
        assert marked(it) == "pd-ll128"
        await it.shows(
            "LL's latency at nearly Simple's bandwidth",
            "release notes",
            "! experimental NCCL does not choose LL128",
            "failed: flags of decode refused",
            "Difference to pd-ll, which runs",
        )
        details = it.app.screen.query_one("#profile-details", ParagraphView)
        lines = [plain(line).strip() for line in details.shown]
        assert any(line.startswith("- ") and line.endswith("=LL") for line in lines)
        assert any(line.startswith("+ ") and line.endswith("=LL128") for line in lines)


async def test_without_a_running_profile_there_is_no_difference_and_that_is_said() -> None:
    operator = CannedOperator()
    operator.entries = ENTRIES[1:]
    async with seat(operator) as it:
        await it.press("p")
        await it.shows("Nothing runs that was launched from a profile")


async def test_a_broken_profile_says_what_is_wrong_and_cannot_be_chosen() -> None:
    async with seat() as it:
        await it.press("p", "down", "down")
        await it.shows("pd-broken cannot be used", "GPU 4 is used twice")
        await it.press("enter")
        assert isinstance(it.app.screen, ProfilesScreen)
        assert any("GPU 4 is used twice" in said for said in it.told())


async def test_a_letter_begins_a_filter_and_escape_ends_first_it_then_the_screen() -> None:
    async with seat() as it:
        await it.press("p", "n", "v", "f", "q")
        assert rows(it) == ["no profile of that name"] or marked(it) == ""
        await it.press("backspace")
        await it.until(lambda: marked(it) == "pd-nvfp4", "the filter shows pd-nvfp4 alone")
        assert len(rows(it)) == 1
        await it.press("escape")
        assert len(rows(it)) == len(ENTRIES)
        assert marked(it) == "pd-nvfp4"
        await it.press("escape")
        assert it.app.screen is it.app.dashboard


async def test_slash_opens_the_filter_and_the_arrows_still_move() -> None:
    async with seat() as it:
        await it.press("p", "slash", "t", "p", "down")
        assert marked(it) == "tp8"
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, PlanScreen), "no plan is shown")
        await it.shows("Switch to tp8 on ct200")


async def test_the_mark_is_kept_in_view_by_keys_and_moved_by_a_click() -> None:
    operator = CannedOperator()
    operator.entries = [ProfileEntry(name=f"pd-{number:02}", error="broken") for number in range(40)]
    async with seat(operator, size=(80, 24)) as it:
        await it.press("p")
        for key, name in (("end", "pd-39"), ("up", "pd-38"), ("home", "pd-00")):
            await it.press(key)
            assert marked(it) == name
            await it.until(lambda: f"broken {marked(it)}" in it.screen(), "the mark is out of view")
        await it.press("pagedown")
        assert marked(it) > "pd-04"
        await it.press("home")
        await it.pilot.click(ProfileList, offset=(20, 4))
        assert marked(it) == "pd-02"


async def test_q_goes_back_and_the_keys_of_the_console_still_work() -> None:
    async with seat() as it:
        await it.press("p", "question_mark")
        assert isinstance(it.app.screen, HelpScreen)
        await it.press("q", "T", "ctrl+o", "q")
        assert it.app.theme != "dsv4-dark"
        assert it.operator.readonly
        assert it.app.screen is it.app.dashboard


async def test_an_error_of_the_plan_is_a_sentence_and_no_crash() -> None:
    operator = CannedOperator()
    async with seat(operator) as it:
        operator.failure = ProfileError("needs SGLang >=0.5.14", next_step="update it")
        await it.press("p", "enter")
        await it.until(lambda: any("0.5.14" in said for said in it.told()), "the error is not told")
        operator.failure = ConnectionLost("no answer for 10 s", where="ct200")
        await it.press("enter")
        await it.until(lambda: any("no answer" in said for said in it.told()), "the error is not told")
        assert isinstance(it.app.screen, ProfilesScreen)


async def test_last_results_come_when_they_were_read() -> None:
    operator = CannedOperator()
    operator.entries, operator.results = [ProfileEntry(name="pd-ll", error="not read yet")], ENTRIES
    async with seat(operator) as it:
        await it.press("p")
        await it.shows("verified after 38 s")


async def test_last_results_that_cannot_be_read_are_told() -> None:
    operator = CannedOperator()
    operator.results = ConnectionLost("the journal is locked")
    async with seat(operator) as it:
        await it.press("p")
        await it.until(lambda: "the journal is locked" in it.told(), "the error is not told")
        await it.shows("verified after 38 s")


async def test_hostile_text_is_only_text_and_ascii_is_ascii() -> None:
    operator = CannedOperator()
    operator.entries = (ProfileEntry(name="evil", error="[red]x[/] \x1b[2J [@click=app.quit]é…"), *ENTRIES)
    async with seat(operator, glyphs=ASCII, size=(80, 24)) as it:
        await it.press("p")
        await it.shows("[red]x[/] [@click=app.quit]?~")
        assert it.said().isascii()
        assert "\x1b" not in it.screen()


async def test_a_console_without_an_operator_says_that_it_only_watches() -> None:
    feed = Feed(EVERYTHING)
    app = console(feed, None)
    async with app.run_test(size=(120, 40)) as pilot:
        for key in ("p", "R", "S", "ctrl+o"):
            app.clear_notifications()
            await pilot.press(key)
            await pilot.pause()
            assert [notice.message for notice in app._notifications] == [
                "this console only watches: it was opened without what changes a host"
            ]
        assert app.screen is app.dashboard


def test_the_picker_looks_as_it_did(
    snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    operator, feed = CannedOperator(), Feed(EVERYTHING)

    async def until_shown(pilot: Pilot[BaseException]) -> None:
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        it = Seat(app, pilot, feed, operator)
        await it.until(lambda: feed.drained, "updates were not taken")
        await it.press("p", "down", "down", "down")
        await it.shows("Difference to pd-ll")

    assert snap_compare(console(feed, operator), terminal_size=(120, 40), run_before=until_shown)


def test_gpus_are_written_as_ranges() -> None:
    assert gpus_in_words((0, 1, 2, 3, 5, 7)) == "0-3,5,7"
    assert gpus_in_words(()) == "CPU"
