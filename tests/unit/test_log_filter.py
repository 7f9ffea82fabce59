"""Filtering a log: by level and by patterns, in and out, and what it does to the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.logline import LineClass, LogLine
from console.ui.widgets.log_buffer import LogBuffer
from console.ui.widgets.log_filter import FilteredRows, LogFilter
from console.ui.widgets.log_pattern import BadPattern
from tests.unit.log_app import PaneApp, numbered, shows, until

CLASSES: list[LineClass] = ["plain", "error", "warning", "fatal", "stats", "ready"]


def filtered(*typed: str) -> LogFilter:
    log_filter = LogFilter()
    for each in typed:
        log_filter = log_filter.with_typed(each)
    return log_filter


class TestFilter:
    @pytest.mark.parametrize(
        ("typed", "passes"),
        [
            (["decode"], ["Decode batch", "decode TP0"]),
            (["decode", "TP0"], ["decode TP0"]),
            (["!decode"], ["Prefill TP0"]),
            (["!decode", "!tp0"], []),
            (["tp0", "!decode"], ["Prefill TP0"]),
            (["decode|prefill"], ["Decode batch", "decode TP0", "Prefill TP0"]),
            (["decode", ""], ["Decode batch", "decode TP0", "Prefill TP0"]),
            ([r"\!"], []),
        ],
    )
    def test_all_that_is_wanted_and_nothing_unwanted_passes(
        self, typed: list[str], passes: list[str]
    ) -> None:
        lines = ["Decode batch", "decode TP0", "Prefill TP0"]
        assert [line for line in lines if filtered(*typed).passes(line, "plain")] == passes

    def test_the_levels_go_round(self) -> None:
        levels = [LogFilter()]
        for _ in range(3):
            levels.append(levels[-1].next_level())
        passing = [[each for each in CLASSES if level.passes("x", each)] for level in levels]
        assert passing == [CLASSES, ["error", "warning", "fatal"], ["error", "fatal"], CLASSES]

    def test_what_the_console_wrote_always_passes(self) -> None:
        errors = filtered("nowhere").next_level().next_level()
        assert errors.passes("log rotated", "note")
        assert errors.passes("12:00:00 restart", "mark")

    def test_it_is_said_as_it_was_typed(self) -> None:
        assert filtered("TP0", "!health").next_level().words == "&TP0 &!health warnings+"
        assert LogFilter().words == ""
        assert LogFilter().is_open

    def test_a_bad_pattern_is_refused(self) -> None:
        with pytest.raises(BadPattern, match="no regex"):
            filtered("!(")

    @given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 40))
    def test_rows_that_pass_keep_their_order_and_their_positions(self, sizes: list[int], limit: int) -> None:
        buffer = LogBuffer(limit)
        rows = FilteredRows(buffer, filtered("[37]$"))
        for size in sizes:
            buffer.extend(numbered(buffer.added + 1, size))
            rows.look(until=0.0)
        while not rows.look(until=0.0):
            pass
        expected = [index for index in range(len(buffer)) if buffer.row(index).text.endswith(("3", "7"))]
        assert [rows.row(index) for index in range(len(rows))] == [buffer.row(at) for at in expected]
        assert [rows.position(index) for index in range(len(rows))] == [
            buffer.position(at) for at in expected
        ]
        assert [text for text, _ in rows.columns(0, len(rows))] == [buffer.row(at).text for at in expected]


LINES = [
    *numbered(1, 30),
    LogLine(31, "[TP0] transfer failed", "error"),
    LogLine(32, "  frame of it", "error", head=31),
    *numbered(33, 30),
    LogLine(63, "[TP0] pool is full", "warning"),
    LogLine(64, "[TP1] transfer failed", "error"),
    *numbered(65, 30),
]


class TestFiltering:
    async def test_lines_that_match_are_shown_and_the_title_says_what_is_hidden(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("ampersand", *"tp0", "enter")
            assert app.rows[:3] == ["✗ [TP0] transfer failed", "! [TP0] pool is full", ""]
            assert "&tp0 92 hidden" in app.said

    async def test_patterns_add_up_and_an_empty_one_removes_them(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            for typed in ("transfer", "!TP1"):
                await pilot.press("ampersand", *typed, "enter")
            assert app.rows[:2] == ["✗ [TP0] transfer failed", ""]
            assert "&transfer &!TP1 93 hidden" in app.said
            await pilot.press("ampersand", "enter")
            assert app.rows[-1] == "  line 94"
            assert "hidden" not in app.said

    async def test_the_level_key_goes_through_the_levels(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("l")
            assert app.rows[:5] == [
                "✗ [TP0] transfer failed",
                "✗   frame of it",
                "! [TP0] pool is full",
                "✗ [TP1] transfer failed",
                "",
            ]
            assert "warnings+ 90 hidden" in app.said
            await pilot.press("l")
            assert "! [TP0] pool is full" not in app.rows
            assert "errors 91 hidden" in app.said
            await pilot.press("l")
            assert app.rows[-1] == "  line 94"

    async def test_new_lines_go_through_the_filter(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("ampersand", *"tp0", "enter")
            app.pane.extend([LogLine(95, "[TP0] more"), LogLine(96, "[TP1] no")])
            await until(pilot, lambda: app.rows[2] == "  [TP0] more")
            await until(pilot, lambda: "93 hidden" in app.said)

    async def test_a_mark_and_a_note_are_seen_through_every_filter(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("ampersand", *"nowhere", "enter")
            app.pane.add_note("log rotated")
            app.pane.add_mark("restart")
            await until(pilot, lambda: "restart" in app.rows[1])
            assert app.rows[0] == "─ log rotated"

    async def test_errors_are_visited_among_the_lines_that_pass(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("ampersand", *"tp1|line", "enter")
            seen = []
            for _ in range(2):
                await pilot.press("e")
                assert app.pane.marked is not None
                seen.append(app.pane.marked.number)
            assert seen == [64, 64]

    async def test_errors_that_are_hidden_are_told(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("ampersand", *"line", "enter", "e")
            assert "2 errors are hidden by &line" in app.told

    async def test_the_place_of_the_reader_is_kept(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("e", "ampersand", *"!line [12]", "enter")
            assert any("transfer failed" in row for row in app.rows)
            await pilot.press("ampersand", "enter")
            assert any("transfer failed" in row for row in app.rows)
            assert not app.pane.following

    async def test_a_search_looks_only_at_what_is_shown(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("slash", *"transfer", "enter")
            assert "2 of 2" in app.said
            await pilot.press("ampersand", *"!TP1", "enter")
            await until(pilot, lambda: "1 match" in app.said)

    async def test_nothing_left_says_why(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("ampersand", *"nowhere", "enter")
            assert any("all 94 lines are hidden by &nowhere" in row for row in app.rows)

    async def test_a_revised_line_appears_and_disappears(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 94")
            await pilot.press("l")
            app.pane.view.revised(
                app.pane.log_rows.revise([LogLine(63, "", "benign"), LogLine(10, "line 10", "fatal")])
            )
            await until(pilot, lambda: app.rows[0] == "✖ line 10")
            assert not any("pool is full" in row for row in app.rows)
            assert "3 errors" in app.said
            assert "warning" not in app.said.removeprefix("decode").replace("warnings+", "")
