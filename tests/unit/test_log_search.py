"""Searching a log: what is found, in which order, and that nothing waits for it."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.logline import LogLine
from console.ui.widgets.log_buffer import LogBuffer
from console.ui.widgets.log_finds import Finds
from console.ui.widgets.log_pattern import BadPattern, Pattern, TooSlow, time_limit
from console.ui.widgets.log_shown import ShownLog
from tests.unit.log_app import PaneApp, numbered, shows, until

EVIL = "(a+)+$"
VICTIM = "a" * 40 + "!"


class TestPattern:
    @pytest.mark.parametrize(
        ("typed", "text", "matches"),
        [
            ("error", "An ERROR here", True),
            ("Error", "An ERROR here", False),
            ("ERROR", "An ERROR here", True),
            (r"\Sbc", "ABC", True),
            (r"(?P<Name>b)c", "ABC", True),
            (r"tp[02]\b", "TP2 x", True),
            ("価格", "の価格は", True),
            (r"\[TP0\]", "[TP0] Decode", True),
            ("[[a]", "[", True),
        ],
    )
    def test_case_matters_once_a_capital_is_typed(self, typed: str, text: str, matches: bool) -> None:
        assert bool(Pattern.of(typed).regex.search(text)) is matches

    @pytest.mark.parametrize(
        ("typed", "words"),
        [
            ("foo(", "missing ), unterminated subpattern, column 4"),
            ("*", "nothing to repeat, column 1"),
            ("[a", "unterminated character set, column 1"),
            ("(?P<a>x)(?P<a>y)", "redefinition of group name"),
            ("a{99999999999999999999}", "too large"),
            ("(" * 5000 + ")" * 5000, "too large"),
        ],
    )
    def test_what_is_no_regular_expression_is_told_in_a_sentence(self, typed: str, words: str) -> None:
        with pytest.raises(BadPattern, match=r"^no regex: ") as caught:
            Pattern.of(typed)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)

    @given(st.text(max_size=12))
    def test_anything_may_be_typed(self, typed: str) -> None:
        with suppress(BadPattern):
            assert Pattern.of(typed).typed == typed

    def test_a_match_that_takes_years_is_ended(self) -> None:
        start = time.monotonic()
        with pytest.raises(TooSlow), time_limit(0.05):
            Pattern.of(EVIL).regex.search(VICTIM)
        assert time.monotonic() - start < 1.0


class TestFinds:
    @given(
        st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=20),
        st.integers(1, 40),
    )
    def test_whatever_comes_between_the_slices_all_is_found(
        self, steps: list[tuple[int, bool]], limit: int
    ) -> None:
        buffer = LogBuffer(limit)
        finds = Finds(buffer, lambda text, kind: text.endswith(("3", "5")))
        for size, looks in steps:
            buffer.extend(numbered(buffer.added + 1, size))
            if looks:
                finds.look(until=0.0)
        while not finds.look(until=0.0):
            pass
        expected = [
            buffer.position(index)
            for index in range(len(buffer))
            if buffer.row(index).text.endswith(("3", "5"))
        ]
        assert list(finds.positions) == expected

    def test_one_slice_of_a_large_log_is_short(self) -> None:
        buffer = LogBuffer()
        buffer.extend(numbered(1, 50_000))
        shown = ShownLog(buffer)
        shown.set_search(Pattern.of(r"line \d*7$"))
        slices = [0.0]
        while not shown.done:
            start = time.process_time()
            shown.look()
            slices.append(time.process_time() - start)
        assert shown.search is not None
        assert len(shown.search.positions) == 5000
        assert max(slices) < 0.05

    def test_a_pattern_that_hangs_is_given_up(self) -> None:
        buffer = LogBuffer()
        buffer.extend([LogLine(1, VICTIM)])
        shown = ShownLog(buffer)
        shown.set_search(Pattern.of(EVIL))
        with pytest.raises(TooSlow):
            shown.look()
        assert shown.search is None

    def test_a_filter_that_hangs_is_given_up_and_the_level_stays(self) -> None:
        buffer = LogBuffer()
        buffer.extend([LogLine(1, VICTIM, "error")])
        shown = ShownLog(buffer)
        shown.set_filter(shown.filter.with_typed(EVIL).next_level())
        with pytest.raises(TooSlow):
            shown.look()
        assert (shown.filter.wanted, shown.filter.level) == ((), "warnings")


LINES = [
    *numbered(1, 20),
    LogLine(21, "transfer failed [a]", "error"),
    *numbered(22, 20),
    LogLine(42, "transfer again, and transfer"),
    *numbered(43, 20),
    LogLine(63, "the last Transfer", "warning"),
    *numbered(64, 20),
]


def reverse_texts(app: PaneApp, y: int) -> list[str]:
    strip = app.pane.view.render_line(y)
    return [segment.text for segment in strip if segment.style and segment.style.reverse]


class TestSearching:
    async def test_the_newest_match_comes_first_in_a_log_that_is_followed(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("slash", *"transfer")
            await until(pilot, lambda: "3 of 3" in app.said)
            assert app.pane.marked == LINES[62]
            assert not app.pane.following

    async def test_n_and_capital_n_go_from_match_to_match_and_around(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("slash", *"transfer", "enter")
            seen = []
            for key in ("n", "n", "n", "N", "N", "N"):
                await pilot.press(key)
                assert app.pane.marked is not None
                seen.append(app.pane.marked.number)
                assert any(app.pane.marked.text in row for row in app.rows)
            assert seen == [21, 42, 63, 42, 21, 63]
            assert "3 of 3 (around)" in app.said

    async def test_scrolled_back_the_first_match_from_the_top_of_the_view_comes_first(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("g", "slash", *"trans")
            await until(pilot, lambda: "1 of 3" in app.said)

    async def test_matches_in_view_are_seen_without_colour(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("slash", *"transfer", "enter", "N")
            row = next(y for y, text in enumerate(app.rows) if "again" in text)
            assert reverse_texts(app, row)[1:] == ["transfer", "transfer"]

    @pytest.mark.parametrize(
        ("pattern", "seen"),
        [
            ("TP0\\]", ["TP0"]),
            ("2026", []),
            ("running-req: 16, gen", ["running-req: ", "16", ", gen"]),
            ("52 TP0", ["52 TP0"]),
        ],
    )
    async def test_a_match_is_shown_where_its_line_is_shown(self, pattern: str, seen: list[str]) -> None:
        """What is left out of a line may match too: the line is found, and marked is what is seen of it."""
        app = PaneApp()
        line = "[2026-06-17 16:24:52 TP0] Decode batch, #running-req: 16, gen throughput: 1.2"
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, [*numbered(1, 20), LogLine(21, line, "stats")], "Decode")
            await pilot.press("slash")
            app.pane.prompt.paste(pattern)
            await pilot.press("enter")
            row = next(y for y, text in enumerate(app.rows) if "Decode" in text)
            assert reverse_texts(app, row)[1:] == seen

    async def test_escape_while_typing_goes_back_to_where_the_reader_was(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("up", "up")
            before = app.rows
            await pilot.press("slash", *"transfer failed")
            assert app.rows != before
            await pilot.press("escape")
            assert app.rows == before
            assert app.prompt == ""
            assert "of" not in app.said

    async def test_escape_afterwards_forgets_the_matches(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("slash", *"transfer", "enter", "escape")
            assert "/transfer" not in app.said
            await pilot.press("n")
            assert any("nothing was searched for" in said for said in app.told)

    async def test_a_bad_pattern_is_told_and_stays_to_be_corrected(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(100, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("slash", *"failed (", "left_square_bracket", "enter")
            assert app.prompt.startswith("/failed ([")
            assert "no regex: unterminated character set, column 9" in app.prompt
            await pilot.press("backspace", "backspace", "enter")
            assert app.prompt == ""
            assert "1 of 1" in app.said

    async def test_no_match_is_told(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("slash", *"zzz", "enter")
            assert "no match" in app.said
            assert app.rows[-1] == "  line 83"
            await pilot.press("n")
            assert "no match for zzz" in app.told

    async def test_enter_alone_repeats_the_last_search(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("slash", *"transfer", "enter", "G", "slash", "enter")
            await until(pilot, lambda: "3 of 3" in app.said)

    async def test_matches_that_come_later_are_counted(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, LINES, "line 83")
            await pilot.press("slash", *"transfer", "enter")
            app.pane.extend([LogLine(84, "one more transfer")])
            await until(pilot, lambda: "3 of 4" in app.said)

    async def test_a_pattern_that_takes_years_is_given_up_with_a_word(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, [*LINES, LogLine(84, VICTIM)], "!")
            await pilot.press("slash")
            app.pane.prompt.paste(EVIL)
            await pilot.press("enter")
            await until(pilot, lambda: any("takes too long" in said for said in app.told))
            await pilot.press("G")
            assert app.rows[-1].endswith("!")
