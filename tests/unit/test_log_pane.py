"""The log pane: what is seen of a log while it grows, and how to find what went wrong in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.events import MouseScrollUp
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip

from console.domain.logline import LineClass, LogLine
from console.domain.observation import LogUpdate
from console.ui.themes import load_themes
from console.ui.widgets.log_buffer import LogBuffer, Note, Row
from console.ui.widgets.log_look import ASCII_SIGNS, SIGNS
from console.ui.widgets.log_pane import LogPane
from console.ui.widgets.log_view import REPAINT_S
from console.ui.widgets.meter import ASCII, UNICODE, Glyphs

DEADLINE_S = 5.0


class CountingPane(LogPane):
    """Counts how often it is drawn."""

    drawn = 0

    def render_lines(self, crop: Region) -> list[Strip]:
        self.drawn += 1
        return super().render_lines(crop)


class PaneApp(App[None]):
    """One pane in a theme of ours."""

    CSS = "LogPane { border: round $border; }"

    def __init__(self, *, glyphs: Glyphs = UNICODE, limit: int = 1000, label: str = "decode :30001") -> None:
        super().__init__()
        self.pane = CountingPane(label, role="decode", glyphs=glyphs, limit=limit)
        for theme in load_themes().themes:
            self.register_theme(theme)
        self.theme = "dsv4-dark"

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self.pane

    @property
    def rows(self) -> list[str]:
        """The text of the rows in view, without trailing blanks."""
        return [self.pane.render_line(y).text.rstrip() for y in range(self.pane.size.height)]

    @property
    def said(self) -> str:
        """The text of the title."""
        (top,) = self.pane.render_lines(Region(0, 0, self.pane.outer_size.width, 1))
        return top.text.strip("╭╮─ ")


def numbered(start: int, count: int, line_class: LineClass = "plain") -> list[LogLine]:
    return [LogLine(number, f"line {number}", line_class) for number in range(start, start + count)]


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await pilot.pause(0.01)


async def shows(pilot: Pilot[None], app: PaneApp, lines: Iterable[LogLine], last: str) -> None:
    """Gives lines to the pane and waits until `last` is the bottom row."""
    app.pane.extend(list(lines))
    await until(pilot, lambda: last in app.rows[-1])


class TestWindow:
    async def test_following_keeps_the_newest_line_in_view(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            assert app.rows == [f"  line {number}" for number in range(41, 51)]
            assert "following" in app.said

    async def test_few_lines_stand_at_the_top(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            app.pane.extend(numbered(1, 2))
            await until(pilot, lambda: app.rows[:3] == ["  line 1", "  line 2", ""])

    async def test_scrolling_up_stops_following_and_the_end_key_resumes_it(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            app.pane.focus()
            await pilot.press("up", "up")
            app.pane.extend(numbered(51, 3))
            await until(pilot, lambda: "5 below" in app.said)
            assert app.rows[-1] == "  line 48"
            await pilot.press("G")
            assert app.rows[-1] == "  line 53"
            assert "following" in app.said

    async def test_scrolling_down_to_the_end_follows_again(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            app.pane.focus()
            await pilot.press("pageup", "pagedown")
            assert app.pane.following

    async def test_the_mouse_wheel_stops_following_too(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot._post_mouse_events([MouseScrollUp], app.pane)
            await until(pilot, lambda: not app.pane.following)

    async def test_the_follow_key_stops_and_starts(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            app.pane.focus()
            await pilot.press("F")
            app.pane.extend(numbered(51, 1))
            await until(pilot, lambda: "1 below" in app.said)
            await pilot.press("F")
            assert app.rows[-1] == "  line 51"

    async def test_the_first_key_goes_to_the_oldest_line(self) -> None:
        app = PaneApp(limit=30)
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            app.pane.focus()
            await pilot.press("g")
            assert app.rows[0] == "  line 21"

    async def test_the_view_does_not_slide_when_old_lines_are_dropped(self) -> None:
        app = PaneApp(limit=100)
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 100), "line 100")
            app.pane.focus()
            await pilot.press("pageup")
            before = app.rows
            for start in range(101, 151, 10):
                app.pane.extend(numbered(start, 10))
                assert app.rows == before
            await until(pilot, lambda: "59 below" in app.said)
            assert app.rows == before

    async def test_paused_the_view_stays_though_every_line_of_it_was_dropped(self) -> None:
        app = PaneApp(limit=100)
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 100), "line 100")
            app.pane.focus()
            await pilot.press("space")
            before = app.rows
            app.pane.extend(numbered(101, 500))
            await until(pilot, lambda: "paused, 500 below" in app.said)
            assert app.rows == before
            await pilot.press("space")
            assert app.rows[-1] == "  line 600"

    @pytest.mark.parametrize("height", [8, 20])
    async def test_the_bottom_line_stays_at_the_bottom_when_the_terminal_changes_size(
        self, height: int
    ) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.resize_terminal(40, height)
            await until(pilot, lambda: app.pane.size.height == height - 2)
            assert app.rows[-1] == "  line 50"

    async def test_an_unfinished_line_stands_last_and_is_replaced(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            app.pane.extend(numbered(1, 1))
            app.pane.set_live("Loading 12%")
            await until(pilot, lambda: app.rows[:3] == ["  line 1", f"{SIGNS['progress']} Loading 12%", ""])
            app.pane.set_live("Loading 67%")
            await until(pilot, lambda: app.rows[:3] == ["  line 1", f"{SIGNS['progress']} Loading 67%", ""])
            app.pane.set_live(None)
            await until(pilot, lambda: app.rows[:2] == ["  line 1", ""])

    async def test_news_of_a_log_comes_as_lines_notes_and_a_live_line(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            update = LogUpdate(
                server=(1, 2),
                lines=tuple(numbered(1, 1)),
                notes=("log rotated",),
                live=LogLine(2, "half a", "progress"),
            )
            app.pane.take(update)
            await until(
                pilot, lambda: app.rows[:3] == ["  line 1", "─ log rotated", f"{SIGNS['progress']} half a"]
            )

    async def test_an_empty_log_says_why(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await until(pilot, lambda: any("no lines yet" in row for row in app.rows))
            app.pane.place_note = "stdout is a pipe"
            assert any("stdout is a pipe" in row for row in app.rows)


class TestCost:
    async def test_a_burst_is_drawn_ten_times_a_second_at_most(self) -> None:
        app = PaneApp(limit=50_000)
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 20), "line 20")
            drawn, start = app.pane.drawn, time.monotonic()
            for batch in range(300):
                app.pane.extend(numbered(21 + batch * 100, 100))
                await pilot.pause(0)
            await until(pilot, lambda: app.rows[-1] == "  line 30020")
            assert 1 <= app.pane.drawn - drawn <= 2 + (time.monotonic() - start) / REPAINT_S

    async def test_a_hidden_pane_is_not_drawn_and_catches_up_when_shown(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 20), "line 20")
            app.pane.display = False
            await until(pilot, lambda: not app.pane.is_on_screen)
            drawn = app.pane.drawn
            for start in range(21, 121, 10):
                app.pane.extend(numbered(start, 10))
                await pilot.pause()
            assert app.pane.drawn == drawn
            app.pane.display = True
            await until(pilot, lambda: app.rows[-1:] == ["  line 120"])


class TestLooks:
    @pytest.mark.parametrize(("glyphs", "signs"), [(UNICODE, SIGNS), (ASCII, ASCII_SIGNS)])
    async def test_each_class_has_a_sign_of_its_own(
        self, glyphs: Glyphs, signs: dict[LineClass, str]
    ) -> None:
        classes: list[LineClass] = [
            "ready", "error", "fatal", "warning", "stats", "progress", "config", "benign", "plain"
        ]  # fmt: skip
        app = PaneApp(glyphs=glyphs)
        async with app.run_test(size=(40, 12)) as pilot:
            app.pane.extend([LogLine(n, each, each) for n, each in enumerate(classes, 1)])
            await until(pilot, lambda: app.rows[0].endswith("ready"))
            assert app.rows[:9] == [f"{signs[each]} {each}" for each in classes]
            assert len({row[0] for row in app.rows[:9]}) == 9

    async def test_ascii_terminals_get_ascii_only(self) -> None:
        app = PaneApp(glyphs=ASCII)
        async with app.run_test(size=(20, 6)) as pilot:
            app.pane.extend([LogLine(1, "日本 and a line that is cut", "error")])
            app.pane.add_note("a note")
            await until(pilot, lambda: len(app.rows[1]) > 0)
            assert all(row.isascii() for row in app.rows)
            assert app.said.isascii()

    @pytest.mark.parametrize(
        "line",
        [
            "[TP0] Decode batch, #running-req: 1",
            "conn [/usr/bin/python3] exited",
            "[red] is not a colour here",
            "[/",
            'reply [1, "3"], and ZLEXCOUNT z [b + should reply 3',
            "[@click=app.quit]click me[/]",
            "[link=file:///etc/passwd]x[/link]",
        ],
    )
    async def test_text_is_never_markup(self, line: str) -> None:
        """G01: in rows, in notes and in the title."""
        app = PaneApp(label=line)
        async with app.run_test(size=(120, 12)) as pilot:
            app.pane.extend([LogLine(1, line, "plain")])
            app.pane.add_note(line)
            await until(pilot, lambda: app.rows[:2] == [f"  {line}", f"─ {line}"])
            assert line in app.said

    @pytest.mark.parametrize("width", [79, 80, 81])
    async def test_wide_characters_are_cut_whole_and_rows_keep_their_width(self, width: int) -> None:
        """G05: at any offset a row has as many cells as the pane, and says when it goes on."""
        texts = ["日本語テキスト" * 9, "a" + "価格" * 40, "👨👩👧🇩🇪❤ " * 9, "é ä̈ שלום " * 20]
        app = PaneApp()
        async with app.run_test(size=(width, 12)) as pilot:
            app.pane.extend([LogLine(n, text, "plain") for n, text in enumerate(texts)])
            app.pane.focus()
            await until(pilot, lambda: "日" in app.rows[0])
            for _ in range(3):
                strips = [app.pane.render_line(y) for y in range(len(texts))]
                assert {cell_len(strip.text) for strip in strips} == {width - 3}
                assert strips[0].text.endswith("…")
                await pilot.press("right")

    async def test_scrolled_sideways_the_sign_stays_in_view(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            app.pane.extend([LogLine(1, "0123456789" * 9, "error")])
            app.pane.focus()
            await until(pilot, lambda: app.rows[0].startswith("✗ 0123"))
            await pilot.press("right")
            assert app.rows[0].startswith("✗ 89012345")

    @pytest.mark.parametrize(
        ("line", "seen"),
        [
            ("[2026-06-17 16:24:52 DP0 TP1] Load weight end.", "16:24:52 DP0 TP1 Load weight end."),
            (
                "[2026-06-17 16:24:52] INFO:     Started server process [1]",
                "16:24:52 Started server process [1]",
            ),
            (
                "2026-06-17 16:30:00  WARN smg::worker: /src/worker.rs:94: check failed",
                "16:30:00 smg::worker: check failed",
            ),
            ("no prefix at all", "no prefix at all"),
        ],
    )
    async def test_the_date_is_left_out_until_whole_lines_are_asked_for(self, line: str, seen: str) -> None:
        app = PaneApp()
        async with app.run_test(size=(120, 12)) as pilot:
            app.pane.extend([LogLine(1, line, "plain")])
            app.pane.focus()
            await until(pilot, lambda: app.rows[0] == f"  {seen}")
            await pilot.press("v")
            assert app.rows[0] == f"  {line}"

    async def test_a_greyed_pane_has_one_colour_and_says_how_old_it_is(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            app.pane.extend([*numbered(1, 1, "error"), *numbered(2, 1, "ready"), *numbered(3, 1, "stats")])
            await until(pilot, lambda: "line 3" in app.rows[2])
            assert len(_colours(app)) > 1
            app.pane.greyed, app.pane.age_s = True, 12.3
            assert len(_colours(app)) == 1
            assert "stale 12 s" in app.said

    async def test_another_theme_has_other_colours(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            app.pane.extend(numbered(1, 1, "error"))
            await until(pilot, lambda: "line 1" in app.rows[0])
            dark = _colours(app)
            app.theme = "dsv4-light"
            await until(pilot, lambda: _colours(app) != dark)

    async def test_a_theme_of_textual_itself_will_do(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 12)) as pilot:
            app.theme = "nord"
            app.pane.extend(numbered(1, 1, "benign"))
            await until(pilot, lambda: app.rows[0] == "· line 1")


class TestAlarms:
    LINES = (
        *numbered(1, 20),
        *numbered(21, 1, "error"),
        *numbered(22, 20),
        *numbered(42, 1, "fatal"),
        *numbered(43, 20),
        *numbered(63, 2, "warning"),
        *numbered(65, 20),
    )

    async def test_the_title_counts_errors_and_warnings(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, self.LINES, "line 84")
            assert app.said.endswith("2 errors 2 warnings")

    async def test_a_narrow_title_keeps_what_was_found(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(30, 12)) as pilot:
            await shows(pilot, app, self.LINES, "line 84")
            assert "decode :30001" in app.said
            assert app.said.endswith("2E 2W")

    async def test_errors_are_visited_in_order_and_around(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, self.LINES, "line 84")
            app.pane.focus()
            visited = []
            for key in ("e", "e", "e", "E", "w", "w"):
                await pilot.press(key)
                assert app.pane.marked is not None
                assert any(app.pane.marked.text in row for row in app.rows)
                visited.append(app.pane.marked.number)
            assert visited == [21, 42, 21, 42, 63, 64]
            assert not app.pane.following

    async def test_going_back_from_the_end_finds_the_last_error(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, self.LINES, "line 84")
            app.pane.focus()
            await pilot.press("E")
            assert app.pane.marked is not None
            assert app.pane.marked.number == 42

    async def test_the_jump_is_seen_without_colour(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, self.LINES, "line 84")
            app.pane.focus()
            await pilot.press("e")
            strips = [app.pane.render_line(y) for y in range(app.pane.size.height)]
            reversed_rows = [
                strip.text for strip in strips if any(s.style and s.style.reverse for s in strip)
            ]
            assert [row.strip() for row in reversed_rows] == ["✗ line 21"]

    @pytest.mark.parametrize(("lines", "told"), [(30, "no errors"), (0, "no longer in memory")])
    async def test_without_an_error_in_memory_a_notice_says_so(self, lines: int, told: str) -> None:
        app = PaneApp(limit=30)
        async with app.run_test(size=(80, 12)) as pilot:
            start = numbered(1, 1, "error") if not lines else []
            await shows(pilot, app, [*start, *numbered(2, 40)], "line 41")
            app.pane.focus()
            await pilot.press("e")
            assert any(told in notice.message for notice in app._notifications)
            assert app.pane.following


def _colours(app: PaneApp) -> set[Any]:
    strips = [app.pane.render_line(y) for y in range(app.pane.size.height)]
    return {s.style.color for strip in strips for s in strip if s.style and s.text.strip()}


class TestBuffer:
    @given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 15))
    def test_a_row_keeps_its_position_for_as_long_as_it_is_kept(self, batches: list[int], limit: int) -> None:
        buffer, rows = LogBuffer(limit), list[Row]()
        for size in batches:
            lines = numbered(len(rows), size, "error" if size % 2 else "plain")
            buffer.extend(lines)
            buffer.note(f"after {size}")
            rows += [*lines, Note(f"after {size}")]
        assert (buffer.first, buffer.end) == (max(0, len(rows) - limit), len(rows))
        assert [buffer[at] for at in range(buffer.first, buffer.end)] == rows[buffer.first :]
        errors = [at for at, row in enumerate(rows) if isinstance(row, LogLine) and row.line_class == "error"]
        assert buffer.counts["error"] == len(errors)
        assert buffer.after("error", -1) == next((at for at in errors if at >= buffer.first), None)

    def test_a_frozen_copy_stays_as_it_was(self) -> None:
        buffer = LogBuffer(3)
        buffer.extend(numbered(1, 3, "error"))
        frozen = buffer.frozen()
        buffer.extend(numbered(4, 3, "warning"))
        assert [frozen[at] for at in range(frozen.first, frozen.end)] == numbered(1, 3, "error")
        assert (frozen.counts["warning"], frozen.after("error", 0)) == (0, 1)
