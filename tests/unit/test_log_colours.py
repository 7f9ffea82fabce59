"""The colours of a router's log: kept as style, whatever part of the line is shown."""

from __future__ import annotations

import pytest
from rich.style import Style

from console.domain.logline import LogLine
from console.domain.printable import Colour, coloured
from console.ui.widgets.log_buffer import COLOURED, LogBuffer
from console.ui.widgets.log_look import Emphasis, LogPaint, Window, row_strips, sgr_style
from console.ui.widgets.meter import UNICODE

RAW = "\x1b[2m2026-11-29 23:25:04\x1b[0m \x1b[32m INFO\x1b[0m smg::server: \x1b[3mworkers\x1b[0m ready"


def drawn(window: Window) -> dict[str, Style]:
    text, colours = coloured(RAW)
    (strip,) = row_strips(
        LogLine(1, text), None, window, LogPaint({}, Style()), UNICODE, Emphasis(colours=colours)
    )
    return {segment.text: segment.style for segment in strip if segment.style is not None}


@pytest.mark.parametrize("whole", [True, False])
def test_a_coloured_word_keeps_its_style_in_either_view(whole: bool) -> None:
    styles = drawn(Window(100, whole=whole))
    assert styles["workers"].italic
    if whole:
        assert styles[" INFO"].color is not None
        assert styles["2026-11-29 23:25:04"].dim


def test_a_greyed_log_is_grey() -> None:
    assert not any(style.italic for style in drawn(Window(100, greyed=True)).values())


@pytest.mark.parametrize(
    ("sgr", "style"),
    [
        ("1;31", Style(bold=True, color="red")),
        ("38;5;208", Style(color="color(208)")),
        ("7;41", Style()),
        ("", Style()),
        ("999", Style()),
    ],
)
def test_only_foreground_weight_and_slant_are_taken(sgr: str, style: Style) -> None:
    taken = sgr_style(sgr)
    assert (taken.bold, taken.italic, taken.bgcolor, taken.reverse) == (style.bold, None, None, None)
    assert (taken.color and taken.color.number) == (style.color and style.color.number)


def test_the_buffer_keeps_those_of_the_newest_lines() -> None:
    buffer = LogBuffer()
    buffer.extend([LogLine(number, "x") for number in range(1, COLOURED + 3)])
    buffer.colour({number: (Colour(0, 1, "2"),) for number in range(1, COLOURED + 3)})
    assert buffer.colours(0) == buffer.colours(1) == ()
    assert buffer.colours(2) == (Colour(0, 1, "2"),)
