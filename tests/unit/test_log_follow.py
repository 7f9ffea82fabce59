"""Following: a wish that scrolling does not undo, and a view that never slides under the reader."""

from __future__ import annotations

import pytest
from textual.message import Message
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp

from console.domain.logline import LogLine
from tests.unit.log_app import PaneApp, numbered, shows, until


async def test_scrolling_holds_the_view_and_the_end_resumes_without_a_key_for_it() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 12)) as pilot:
        await shows(pilot, app, numbered(1, 50), "line 50")
        await pilot.press("pageup")
        app.pane.extend(numbered(51, 5))
        await until(pilot, lambda: "14 below" in app.said)
        assert app.rows[-1] == "  line 41"
        await pilot.press("pagedown", "pagedown")
        assert "following" in app.said
        app.pane.extend(numbered(56, 1))
        await until(pilot, lambda: app.rows[-1] == "  line 56")


async def test_turned_off_it_stays_off_at_the_end_of_the_log() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 12)) as pilot:
        await shows(pilot, app, numbered(1, 50), "line 50")
        await pilot.press("F", "up", "down")
        app.pane.extend(numbered(51, 3))
        await until(pilot, lambda: "not following, 3 below" in app.said)
        await pilot.press("pagedown")
        assert app.rows[-1] == "  line 53"
        assert "not following" in app.said
        await pilot.press("F")
        app.pane.extend(numbered(54, 1))
        await until(pilot, lambda: app.rows[-1] == "  line 54")


@pytest.mark.parametrize("key", ["F", "G", "end"])
async def test_the_follow_key_and_the_end_key_lead_back_to_the_newest_line(key: str) -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 12)) as pilot:
        await shows(pilot, app, numbered(1, 50), "line 50")
        await pilot.press("g", key)
        assert app.rows[-1] == "  line 50"
        assert app.pane.following


async def test_sideways_it_goes_on_following() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 12)) as pilot:
        lines = [LogLine(number, f"{number:08} " + "x" * 200) for number in range(1, 60)]
        await shows(pilot, app, lines[:50], "00000050")
        await pilot.press("right")
        assert app.pane.following
        app.pane.extend(lines[50:])
        await until(pilot, lambda: "9 below" not in app.said and app.pane.view.below == 0)
        assert app.rows[-1].startswith("   xxx")
        assert app.pane.view.scroll_offset.x == 8


async def test_a_reader_whose_lines_would_be_dropped_keeps_them() -> None:
    app = PaneApp(limit=100)
    async with app.run_test(size=(60, 12)) as pilot:
        await shows(pilot, app, numbered(1, 100), "line 100")
        await pilot.press("g", "down")
        before = app.rows
        app.pane.extend(numbered(101, 1000))
        await until(pilot, lambda: "paused, 1,089 below" in app.said)
        assert app.rows == before
        assert before[0] == "  line 2"
        await pilot.press("pagedown")
        assert app.rows[0] == "  line 11"
        await pilot.press("G")
        await until(pilot, lambda: app.rows[-1] == "  line 1100")
        assert app.pane.following


async def test_another_size_neither_holds_the_view_nor_resumes() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 12)) as pilot:
        await shows(pilot, app, numbered(1, 50), "line 50")
        for height in (30, 9, 40, 12):
            app.pane.extend(numbered(app.pane.log_rows.added + 1, 7))
            await pilot.resize_terminal(60, height)
            await until(pilot, lambda height=height: app.pane.view.size.height == height - 2)
            assert app.pane.following
        await pilot.press("up", "up")
        await pilot.resize_terminal(60, 40)
        app.pane.extend(numbered(79, 9))
        await until(pilot, lambda: app.pane.view.size.height == 38)
        assert not app.pane.following


@pytest.mark.parametrize("message", [ScrollTo(y=12.2), ScrollUp()])
async def test_the_scrollbar_holds_the_view(message: Message) -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 12)) as pilot:
        await shows(pilot, app, numbered(1, 50), "line 50")
        app.pane.view.post_message(message)
        await until(pilot, lambda: not app.pane.following)
        assert app.rows[0] == ("  line 13" if isinstance(message, ScrollTo) else "  line 32")
        app.pane.view.post_message(ScrollTo(y=99.0) if isinstance(message, ScrollTo) else ScrollDown())
        await until(pilot, lambda: app.pane.following)
        assert app.rows[-1] == "  line 50"


async def test_a_jump_holds_the_view_too() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 12)) as pilot:
        await shows(pilot, app, [*numbered(1, 49), LogLine(50, "line 50", "error")], "line 50")
        await pilot.press("e")
        before = app.rows
        app.pane.extend(numbered(51, 5))
        await until(pilot, lambda: "5 below" in app.said)
        assert app.rows == before


async def test_a_filter_and_a_fold_do_not_undo_it() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 12)) as pilot:
        await shows(pilot, app, numbered(1, 50), "line 50")
        await pilot.press("x", "d", "v", "ampersand", *"5", "enter")
        app.pane.extend(numbered(51, 15))
        await until(pilot, lambda: app.rows[-1] == "  line 65")
        assert app.pane.following
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: app.pane.view.size.height == 18)
        await until(pilot, lambda: "  line 65" in app.rows)
        assert app.pane.following


async def test_folded_the_end_is_in_view_and_lines_scroll_one_by_one() -> None:
    app = PaneApp()
    async with app.run_test(size=(43, 12)) as pilot:
        lines = [LogLine(number, f"{number:03} " + "word " * 30) for number in range(1, 20)]
        await shows(pilot, app, lines, "019")
        await pilot.press("x")
        # 154 characters in lines of 38 cells, broken after a blank: five lines a row
        assert [row[2:5] for row in app.rows] == ["018", *["wor"] * 4, "019", *["wor"] * 4]
        assert all(row.endswith("word") for row in app.rows)
        await pilot.press("up")
        assert [row[2:5] for row in app.rows] == ["wor", "018", *["wor"] * 4, "019", *["wor"] * 3]
        app.pane.extend(numbered(20, 1))
        await until(pilot, lambda: "1 below" in app.said)
        assert app.rows[1].startswith("  018")
        await pilot.press("down", "down")
        assert app.rows[-1] == "  line 20"
        assert app.pane.following


async def test_folded_the_oldest_line_can_be_reached() -> None:
    app = PaneApp()
    async with app.run_test(size=(43, 12)) as pilot:
        lines = [LogLine(number, f"{number:03} " + "word " * 30) for number in range(1, 20)]
        await shows(pilot, app, lines, "019")
        await pilot.press("x", "g")
        assert app.rows[0].startswith("  001")
        await pilot.press("x")
        assert app.rows[0].startswith("  001")
        assert app.rows[1].startswith("  002")
