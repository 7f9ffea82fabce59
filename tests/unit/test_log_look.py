"""How a row looks: its parts, its folds, its marks, at every width."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from console.domain.logline import LogLine
from console.ui.widgets.log_folds import folds
from console.ui.widgets.log_look import PLAIN, Emphasis, LogPaint, Window, row_strips
from console.ui.widgets.log_pattern import Pattern
from console.ui.widgets.log_rows import Mark, Note, Row, Source
from console.ui.widgets.log_text import row_pieces
from console.ui.widgets.meter import ASCII, UNICODE, Glyphs
from tests.unit.log_app import PaneApp, numbered, shows, until

PAINT = LogPaint({}, Style())
PRINTABLE = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Co", "Cn"]), max_size=300
)
SGLANG = "[2026-06-17 16:24:52 DP0 TP1] "
ROUTER = "2026-06-17 16:30:00  WARN smg::worker: /src/worker.rs:94: check failed"


def drawn(row: Row, window: Window, emphasis: Emphasis = PLAIN, glyphs: Glyphs = UNICODE) -> list[str]:
    return [strip.text for strip in row_strips(row, None, window, PAINT, glyphs, emphasis)]


class TestText:
    @given(PRINTABLE, st.booleans(), st.booleans(), st.sampled_from(["", SGLANG, ROUTER]))
    def test_all_that_is_shown_is_cut_out_of_the_text(
        self, text: str, whole: bool, timed: bool, prefix: str
    ) -> None:
        line = LogLine(1, prefix + text, "stats" if "," in text else "plain")
        pieces = row_pieces(line, UNICODE, whole=whole, timed=timed)
        shown = UNICODE.safe(line.text)
        end = 0
        for piece in pieces:
            assert piece.start >= end
            assert shown[piece.start : piece.start + len(piece.text)] == piece.text
            end = piece.start + len(piece.text)
        if whole:
            assert "".join(piece.text for piece in pieces) == shown

    @pytest.mark.parametrize(
        ("text", "with_time", "without"),
        [
            (f"{SGLANG}Load weight end.", "16:24:52 DP0 TP1 Load weight end.", "DP0 TP1 Load weight end."),
            ("[2026-06-17 16:24:52] INFO:     Started", "16:24:52 Started", "Started"),
            (ROUTER, "16:30:00 smg::worker: check failed", "smg::worker: check failed"),
            ("  no prefix", "  no prefix", "  no prefix"),
        ],
    )
    def test_times_can_be_left_out(self, text: str, with_time: str, without: str) -> None:
        for timed, expected in ((True, with_time), (False, without)):
            pieces = row_pieces(LogLine(1, text), UNICODE, timed=timed)
            assert "".join(piece.text for piece in pieces) == expected

    async def test_the_keys_for_times_and_folds(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, [*numbered(1, 20), LogLine(21, SGLANG + "word " * 12)], "16:24:52")
            await pilot.press("d")
            assert app.rows[-1].startswith("  DP0 TP1 word")
            await pilot.press("x")
            assert app.rows[-2].startswith("  DP0 TP1 word")
            assert app.rows[-1].startswith("  word word")
            await pilot.press("d", "ctrl+w")
            assert app.rows[-1].startswith("  16:24:52 DP0 TP1 word")


class TestFolds:
    @given(PRINTABLE, st.integers(2, 60))
    def test_lines_fit_and_nothing_is_lost(self, text: str, width: int) -> None:
        cuts = list(folds(text, width))
        assert cuts == sorted(set(cuts)) or not cell_len(text)
        assert (cuts or [0])[-1] == cell_len(text)
        assert all(end - start <= width for start, end in zip([0, *cuts], cuts, strict=False))

    def test_a_line_ends_after_a_blank_where_there_is_one_late_enough(self) -> None:
        assert list(folds("one two three", 9)) == [8, 13]
        assert list(folds("a bcdefghijklmnop", 9)) == [9, 17]
        assert list(folds("", 9)) == []
        assert list(folds("日本語日本語", 5)) == [4, 8, 12]

    @given(PRINTABLE, st.integers(12, 60), st.integers(0, 90), st.booleans())
    def test_every_line_has_the_width_of_the_window(
        self, text: str, width: int, left: int, folded: bool
    ) -> None:
        """G05: no half character, no ragged edge, at any offset."""
        window = Window(width, left, folded, words=4)
        for row in (LogLine(1, text), Note(text), Mark(text)):
            lines = drawn(row, window)
            assert lines
            assert {cell_len(line) for line in lines} == {width}

    @given(PRINTABLE, st.integers(12, 60), st.booleans())
    def test_every_cell_has_the_colours_of_the_pane(self, text: str, width: int, folded: bool) -> None:
        base = Style(bgcolor="blue")
        window = Window(width, folded=folded)
        for row in (LogLine(1, text), Note(text), Mark(text)):
            for strip in row_strips(row, None, window, LogPaint({}, base), UNICODE):
                assert all(segment.style and segment.style.bgcolor == base.bgcolor for segment in strip)

    @given(PRINTABLE, st.integers(12, 60))
    def test_folded_the_whole_text_is_there(self, text: str, width: int) -> None:
        lines = drawn(LogLine(1, text), Window(width, folded=True))
        shown = "".join(line[2:] for line in lines)
        assert shown.replace(" ", "") == UNICODE.safe(text).replace(" ", "")


class TestMarks:
    async def test_a_mark_is_a_rule_across_the_log_with_its_time(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(50, 12)) as pilot:
            await shows(pilot, app, [LogLine(n, "x" * 90) for n in range(1, 20)], "xxx")
            app.pane.add_mark("switch to pd-nvfp4", datetime(2026, 6, 17, 16, 24, 53))
            await until(pilot, lambda: "switch" in app.rows[-1])
            rule = "── 16:24:53 switch to pd-nvfp4 " + "─" * 16
            assert app.rows[-1] == rule
            await pilot.press("right", "v", "x")
            assert app.rows[-1] == rule

    def test_in_ascii_it_is_ascii(self) -> None:
        (line,) = drawn(Mark("16:24:53 本番"), Window(30), glyphs=ASCII)
        assert line == "-- 16:24:53 ?? ---------------"

    def test_a_long_one_is_cut(self) -> None:
        (line,) = drawn(Mark("16:24:53 " + "x" * 90), Window(30))
        assert cell_len(line) == 30


class TestEmphasis:
    def test_a_selected_row_has_a_bar_and_a_word_for_its_server_stays(self) -> None:
        source = Source("decode", "decode")
        (strip,) = row_strips(
            LogLine(1, "text", "error"), source, Window(20, words=7), PAINT, UNICODE, Emphasis(selected=True)
        )
        assert strip.text == "✗▎decode text       "

    def test_folded_the_bar_goes_on_and_the_word_does_not(self) -> None:
        source = Source("decode", "decode")
        window = Window(16, folded=True, words=7)
        strips = row_strips(LogLine(1, "text text"), source, window, PAINT, UNICODE, Emphasis(selected=True))
        assert [strip.text for strip in strips] == [" ▎decode text   ", " ▎       text   "]

    @given(PRINTABLE, st.text(st.sampled_from("abc .[日"), min_size=1, max_size=3))
    def test_matches_change_no_letter(self, text: str, literal: str) -> None:
        pattern = Pattern.of("[" + literal.replace("[", r"\[") + "]+")
        plain = drawn(LogLine(1, text), Window(400))
        assert drawn(LogLine(1, text), Window(400), Emphasis(matches=pattern.regex)) == plain
