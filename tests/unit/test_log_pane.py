"""The log pane: what is seen of a log while it grows, and how to find what went wrong in it."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from rich.cells import cell_len
from textual.events import MouseScrollUp
from textual.geometry import Region
from textual.strip import Strip

from console.domain.logline import LineClass, LogLine
from console.domain.observation import LogUpdate
from console.ui.widgets.log_look import ASCII_SIGNS, SIGNS
from console.ui.widgets.log_view import REPAINT_S, LogView
from console.ui.widgets.meter import ASCII, UNICODE, Glyphs
from tests.unit.log_app import PaneApp, numbered, shows, until


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the log was drawn."""
    moments: list[float] = []
    render_lines = LogView.render_lines

    def counted(view: LogView, crop: Region) -> list[Strip]:
        moments.append(time.monotonic())
        return render_lines(view, crop)

    monkeypatch.setattr(LogView, "render_lines", counted)
    return moments


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
            await pilot.press("pageup", "pagedown")
            assert app.pane.following

    async def test_the_mouse_wheel_stops_following_too(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot._post_mouse_events([MouseScrollUp], app.pane.view)
            await until(pilot, lambda: not app.pane.following)

    async def test_the_follow_key_stops_and_starts(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("F")
            app.pane.extend(numbered(51, 1))
            await until(pilot, lambda: "1 below" in app.said)
            await pilot.press("F")
            assert app.rows[-1] == "  line 51"

    async def test_the_first_key_goes_to_the_oldest_line(self) -> None:
        app = PaneApp(limit=30)
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("g")
            assert app.rows[0] == "  line 21"

    async def test_the_view_does_not_slide_when_old_lines_are_dropped(self) -> None:
        app = PaneApp(limit=100)
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 100), "line 100")
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
            await until(pilot, lambda: app.pane.view.size.height == height - 2)
            assert app.rows[-1] == "  line 50"

    async def test_an_unfinished_line_stands_last_and_is_replaced(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            app.pane.extend(numbered(1, 1))
            app.pane.view.set_live(LogLine(0, "Loading 12%", "progress"))
            await until(pilot, lambda: app.rows[:3] == ["  line 1", f"{SIGNS['progress']} Loading 12%", ""])
            app.pane.view.set_live(LogLine(0, "Loading 67%", "progress"))
            await until(pilot, lambda: app.rows[:3] == ["  line 1", f"{SIGNS['progress']} Loading 67%", ""])
            app.pane.view.set_live(None)
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
    async def test_a_burst_is_drawn_ten_times_a_second_at_most(self, drawn: list[float]) -> None:
        app = PaneApp(limit=50_000)
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 20), "line 20")
            before, start = len(drawn), time.monotonic()
            for batch in range(300):
                app.pane.extend(numbered(21 + batch * 100, 100))
                await pilot.pause(0)
            await until(pilot, lambda: app.rows[-1] == "  line 30020")
            frames = [
                moment
                for earlier, moment in pairwise(drawn[before - 1 :])
                # Textual may draw the two parts of one frame one after the other.
                if moment - earlier > REPAINT_S / 4
            ]
            assert 1 <= len(frames) <= 2 + (time.monotonic() - start) / REPAINT_S

    async def test_a_hidden_pane_is_not_drawn_and_catches_up_when_shown(self, drawn: list[float]) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await shows(pilot, app, numbered(1, 20), "line 20")
            app.pane.display = False
            await until(pilot, lambda: not app.pane.is_on_screen)
            before = len(drawn)
            for start in range(21, 121, 10):
                app.pane.extend(numbered(start, 10))
                await pilot.pause()
            assert len(drawn) == before
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
            await until(pilot, lambda: "日" in app.rows[0])
            for _ in range(3):
                strips = [app.pane.view.render_line(y) for y in range(len(texts))]
                assert {cell_len(strip.text) for strip in strips} == {width - 3}
                assert strips[0].text.endswith("…")
                await pilot.press("right")

    async def test_scrolled_sideways_the_sign_stays_in_view(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            app.pane.extend([LogLine(1, "0123456789" * 9, "error")])
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
            await pilot.press("E")
            assert app.pane.marked is not None
            assert app.pane.marked.number == 42

    async def test_the_jump_is_seen_without_colour(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, self.LINES, "line 84")
            await pilot.press("e")
            strips = [app.pane.view.render_line(y) for y in range(app.pane.view.size.height)]
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
            await pilot.press("e")
            assert any(told in notice.message for notice in app._notifications)
            assert app.pane.following


def _colours(app: PaneApp) -> set[Any]:
    strips = [app.pane.view.render_line(y) for y in range(app.pane.view.size.height)]
    return {s.style.color for strip in strips for s in strip if s.style and s.text.strip()}
