"""The title of a log pane: everything where there is room, the most important where there is not."""

from __future__ import annotations

import pytest

from console.ui.widgets.lines import plain, width_of
from console.ui.widgets.log_title import LogState, log_title
from console.ui.widgets.meter import ASCII, UNICODE

FULL = LogState(
    label="5 decode :30001",
    role="decode",
    greyed=True,
    age_s=12.0,
    following=False,
    below=1204,
    errors=2,
    warnings=14,
    filter="&TP0 &!health",
    hidden=48210,
    search="transfer failed",
    matches="3 of 41",
    selected=7,
)


def said(state: LogState, width: int = 200) -> str:
    return plain(log_title(state, width, UNICODE))


def test_everything_there_is_to_say_is_said() -> None:
    assert said(FULL) == (
        "5 decode :30001 · stale 12 s · 1,204 below · 7 selected · &TP0 &!health 48,210 hidden"
        " · /transfer failed 3 of 41 · 2 errors 14 warnings"
    )


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (110, " · stale 12 s · 1,204 below · 7 selected · &TP0 &!health 48,210 hidden · 3 of 41 · 2E 14W"),
        (95, " · stale 12 s · 1,204 below · 7 selected · 48,210 hidden · 3 of 41 · 2E 14W"),
        (60, " · 48,210 hidden · 3 of 41 · 2E 14W"),
        (40, " · 48,210 hidden · 2E 14W"),
        (25, " · 2E 14W"),
        (18, ""),
    ],
)  # fmt: skip
def test_a_narrow_title_keeps_what_matters_most(width: int, words: str) -> None:
    assert said(FULL, width) == f"5 decode :30001{words}"


@pytest.mark.parametrize("width", range(15, 160))
def test_it_fits(width: int) -> None:
    assert width_of(log_title(FULL, width, UNICODE)) <= width


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (LogState("x"), "x · following"),
        (LogState("x", following=False), "x · scrolled back"),
        (LogState("x", following=False, below=3), "x · 3 below"),
        (LogState("x", following=False, follow=False), "x · not following"),
        (LogState("x", following=False, follow=False, below=3), "x · not following, 3 below"),
        (LogState("x", paused=True), "x · paused"),
        (LogState("x", paused=True, below=3), "x · paused, 3 below"),
        (LogState("x", greyed=True), "x · stale · following"),
        (LogState("x", errors=1, warnings=1), "x · following · 1 error 1 warning"),
        (LogState("x", filter="errors", hidden=0), "x · following · errors 0 hidden"),
        (LogState("x", search="a", matches="no match"), "x · following · /a no match"),
    ],
)
def test_how_it_is_watched(state: LogState, words: str) -> None:
    assert said(state) == words


def test_long_patterns_are_cut_and_stay_text() -> None:
    state = LogState("x", filter="&" + "a" * 99, hidden=1, search="[red]" * 9, matches="no match")
    assert said(state) == f"x · following · &{'a' * 38}… 1 hidden · /{'[red]' * 4}[re… no match"
    assert plain(log_title(state._replace(search="日本\x1b"), 200, ASCII)).isascii()
