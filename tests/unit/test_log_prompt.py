"""The prompt: what is typed into it goes nowhere else, and nothing that was typed is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.pilot import Pilot

from console.ui.widgets.typed_line import TypedLine
from tests.unit.canned import EVERYTHING, Feed, app_with
from tests.unit.log_app import PaneApp, numbered, shows, until


def typed(app: PaneApp) -> str:
    return app.pane.prompt.typed.text


async def burst(pilot: Pilot[None], *keys: str) -> None:
    """Keys as a terminal sends them when they are pasted or typed by a script: all at once."""
    for key in keys:
        character = key if len(key) == 1 else {"slash": "/", "ampersand": "&"}.get(key)
        pilot.app.post_message(events.Key(key, character))
    await pilot.pause()
    await pilot.pause()


class TestKeys:
    @pytest.mark.parametrize(
        "words", ["stop all; restart q", "quit 1 z T ? F e E w W n N / & y s V o l x v d"]
    )
    @pytest.mark.parametrize("opener", ["slash", "ampersand"])
    async def test_letters_go_only_into_the_prompt(self, opener: str, words: str) -> None:
        """G11: in the whole console, with every key of every pane."""
        feed = Feed(EVERYTHING)
        app = app_with(feed)
        async with app.run_test(size=(120, 40)) as pilot:
            while not feed.drained:
                await pilot.pause()
            await pilot.press("5")
            pane = app.screen.focused
            theme, screens = app.theme, len(app.screen_stack)
            await pilot.press(opener, *words)
            assert pane is not None
            assert pane.prompt.typed.text == words
            assert (app.theme, len(app.screen_stack), app.screen.maximized) == (theme, screens, None)
            assert app.is_running
            view = pane.view
            assert (view.timed, view.folded, view.whole, view.block) == (True, False, False, None)
            await pilot.press("escape")
            assert app.screen.focused is pane

    async def test_the_focus_stays_in_it_until_it_is_answered(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await pilot.press("slash", "a", "tab", "b", "shift+tab", "c")
            assert typed(app) == "abc"
            await pilot.press("enter")
            assert app.focused is app.pane

    async def test_keys_that_come_all_at_once_are_taken_in_order(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await burst(pilot, "slash", *"line 4[26]", "enter", "N")
            assert "1 of 2" in app.said
            await burst(pilot, "ampersand", "!", *"4", "enter", "g")
            await until(pilot, lambda: app.rows[2:4] == ["  line 3", "  line 5"])
            assert "&!4" in app.said

    async def test_the_log_can_be_scrolled_meanwhile(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("ampersand", "a", "pageup")
            assert app.rows[-1] == "  line 42"
            assert typed(app) == "a"

    async def test_the_log_goes_on_meanwhile(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("ampersand", "a")
            app.pane.extend(numbered(51, 1))
            await until(pilot, lambda: app.rows[-1] == "  line 51")

    async def test_it_takes_one_row_and_gives_it_back(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            await pilot.press("slash")
            await until(pilot, lambda: len(app.rows) == 9)
            assert app.rows[-1] == "  line 50"
            await pilot.press("escape")
            await until(pilot, lambda: len(app.rows) == 10)

    async def test_what_is_pasted_goes_into_it(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await pilot.press("slash")
            app.post_message(events.Paste("a [pasted\nsecond line"))
            await until(pilot, lambda: typed(app) == "a [pasted")

    async def test_nothing_pasted_is_taken_for_markup(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, numbered(1, 5), "")
            await pilot.press("slash")
            app.post_message(events.Paste("[red]["))
            await until(pilot, lambda: "/[red][" in app.prompt)
            assert "no regex" in app.prompt


class TestEditing:
    KEYS = ("left", "right", "home", "end", "backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+h")

    @given(st.lists(st.one_of(st.sampled_from(KEYS), st.text(max_size=5)), max_size=30))
    def test_whatever_is_typed_the_cursor_stands_in_the_text(self, keys: list[str]) -> None:
        line = TypedLine()
        for key in keys:
            line = line.press(key) or line.insert(key)
            assert 0 <= line.cursor <= len(line.text)
            assert line.before + line.after == line.text
            assert line.text.isprintable()

    @pytest.mark.parametrize(
        ("keys", "text"),
        [
            (["left", "left", "X"], "one two thrXee"),
            (["home", "X"], "Xone two three"),
            (["home", "delete"], "ne two three"),
            (["home", "right", "right", "backspace"], "oe two three"),
            (["ctrl+w"], "one two "),
            (["ctrl+w", "ctrl+w"], "one "),
            (["left", "ctrl+u"], "e"),
            (["home", "right", "ctrl+k"], "o"),
            (["ctrl+a", "ctrl+d", "ctrl+e", "ctrl+h"], "ne two thre"),
        ],
    )
    def test_keys_edit_as_in_a_shell(self, keys: list[str], text: str) -> None:
        line = TypedLine.of("one two three")
        for key in keys:
            line = line.press(key) or line.insert(key)
        assert line.text == text

    async def test_the_cursor_is_always_in_view(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.press("slash", *"abc" * 20, "日")
            assert "abc日 " in app.prompt
            await pilot.press("home")
            assert app.prompt.startswith("/abcabc")

    async def test_the_footer_says_what_keys_do_now(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await pilot.press("slash")
            shown = {binding.binding.description for binding in app.screen.active_bindings.values()}
            assert {"keep", "back"} <= shown
            assert "filter" not in shown
            await pilot.press("escape")
            shown = {binding.binding.description for binding in app.screen.active_bindings.values()}
            assert "filter" in shown
            assert "keep" not in shown


class TestHistory:
    async def test_up_and_down_go_through_what_was_searched_for(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await shows(pilot, app, numbered(1, 50), "line 50")
            for pattern in ("1", "2", "3", "1"):
                await pilot.press("slash", pattern, "enter")
            await pilot.press("slash", *"dra")
            seen = []
            for key in ("up", "up", "up", "up", "down", "down", "down"):
                await pilot.press(key)
                seen.append(typed(app))
            assert seen == ["1", "3", "2", "2", "3", "1", "dra"]

    async def test_filters_have_a_history_of_their_own(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await pilot.press("slash", "1", "enter", "ampersand", "2", "enter", "ampersand", "up")
            assert typed(app) == "2"
            await pilot.press("escape", "slash", "up")
            assert typed(app) == "1"

    async def test_what_was_cancelled_is_not_in_it(self) -> None:
        app = PaneApp()
        async with app.run_test(size=(80, 12)) as pilot:
            await pilot.press("slash", "1", "enter", "slash", "2", "escape", "slash", "up")
            assert typed(app) == "1"

    async def test_panes_share_it(self) -> None:
        feed = Feed(EVERYTHING)
        app = app_with(feed)
        async with app.run_test(size=(120, 40)) as pilot:
            while not feed.drained:
                await pilot.pause()
            await pilot.press("5", "slash", "x", "enter", "7", "slash", "up")
            assert app.screen.focused is not None
            assert app.screen.focused.prompt.typed.text == "x"
