"""A few screens as pictures. What they say is asserted in test_dashboard.py; here it is how they look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from tests.unit.canned import EVERYTHING, UP, Feed, app_with

SnapCompare = Callable[..., bool]


def look(
    snap_compare: SnapCompare,
    size: tuple[int, int],
    *press: str,
    theme: str = "dsv4-dark",
    lost: bool = False,
) -> bool:
    """Whether the console, fed with the canned host, looks as it did."""
    feed = Feed(EVERYTHING)
    if lost:
        feed.more(msgspec.structs.replace(UP, connection="lost", age_s=14.0, since_s=14.0, retry_in_s=3.0))
    app = app_with(feed, theme=theme)

    async def until_shown(pilot: Pilot[BaseException]) -> None:
        async with asyncio.timeout(20):
            while not feed.drained:
                await pilot.pause()
        await pilot.press(*press)
        await pilot.pause()
        await pilot.pause()

    return snap_compare(app, terminal_size=size, run_before=until_shown)


def test_small(snap_compare: SnapCompare) -> None:
    assert look(snap_compare, (80, 24))


def test_wide(snap_compare: SnapCompare) -> None:
    assert look(snap_compare, (120, 40))


def test_large(snap_compare: SnapCompare) -> None:
    assert look(snap_compare, (200, 60))


def test_light(snap_compare: SnapCompare) -> None:
    assert look(snap_compare, (120, 40), theme="dsv4-light")


def test_lost(snap_compare: SnapCompare) -> None:
    assert look(snap_compare, (120, 40), lost=True)


def test_help(snap_compare: SnapCompare) -> None:
    assert look(snap_compare, (100, 40), "question_mark")


@pytest.fixture(autouse=True)
def _no_blink(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Nothing may move between two pictures."""
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
