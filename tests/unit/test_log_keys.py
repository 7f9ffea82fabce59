"""The keys of a log: one table, no key twice, all in the help and in the palette."""

from __future__ import annotations

from collections import Counter

import pytest

from console.ui.keymap import EVERYWHERE, LOG, Key
from console.ui.screens.help import key_table
from console.ui.widgets.log_reader import LogReader
from tests.unit.canned import EVERYTHING, Feed, app_with

KEYS = (*EVERYWHERE, *LOG)


def test_no_key_and_no_name_is_given_twice() -> None:
    pressed = Counter(one for key in KEYS for one in key.keys.split(","))
    assert [one for one, count in pressed.items() if count > 1] == []
    assert len({key.id for key in KEYS}) == len(KEYS)


@pytest.mark.parametrize("key", LOG, ids=lambda key: key.id)
def test_every_key_is_explained_in_a_line_of_the_help(key: Key) -> None:
    assert key.explained in key_table(LOG).plain
    # In two columns of a terminal of 120.
    assert len(key.explained) <= 42


async def test_every_key_is_in_the_palette_and_acts_on_the_log_in_front() -> None:
    feed = Feed(EVERYTHING)
    app = app_with(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        while not feed.drained:
            await pilot.pause()
        await pilot.press("5")
        commands = {command.title: command for command in app.get_system_commands(app.screen)}
        assert {f"Log: {key.label}" for key in LOG} <= commands.keys()
        commands["Log: level"].callback()
        log = app.screen.focused
        assert isinstance(log, LogReader)
        while log.view.shown.filter.level != "warnings":
            await pilot.pause()


async def test_plain_keys_are_enough() -> None:
    """G11: what is bound to a key that may never arrive has a plain one beside it."""
    fragile = ("ctrl+s", "ctrl+q", "ctrl+b", "ctrl+a", "ctrl+h")
    for key in LOG:
        assert not all(one in fragile or one.startswith("f1") for one in key.keys.split(",")), key
