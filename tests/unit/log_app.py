"""A log pane in an app of its own, and what can be read on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.geometry import Region
from textual.pilot import Pilot

from console.domain.logline import LineClass, LogLine
from console.ui.themes import load_themes
from console.ui.widgets.log_pane import LogPane
from console.ui.widgets.log_reader import LogReader
from console.ui.widgets.meter import UNICODE, Glyphs

DEADLINE_S = 5.0


class ReaderApp(App[None]):
    """One pane in a theme of ours, with the focus."""

    CSS = "LogReader { border: round $border; }"

    def __init__(self, reader: LogReader) -> None:
        super().__init__()
        self.reader = reader
        self.copied: list[str] = []
        for theme in load_themes().themes:
            self.register_theme(theme)
        self.theme = "dsv4-dark"

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self.reader

    def on_mount(self) -> None:
        self.reader.focus()

    def copy_to_clipboard(self, text: str) -> None:
        self.copied.append(text)
        super().copy_to_clipboard(text)

    @property
    def rows(self) -> list[str]:
        """The text of the rows in view, without trailing blanks."""
        view = self.reader.view
        return [view.render_line(y).text.rstrip() for y in range(view.size.height)]

    @property
    def said(self) -> str:
        """The text of the title."""
        (top,) = self.reader.render_lines(Region(0, 0, self.reader.outer_size.width, 1))
        return top.text.strip("╭╮─ ")

    @property
    def told(self) -> list[str]:
        """The notices."""
        return [notice.message for notice in self._notifications]

    @property
    def prompt(self) -> str:
        """The prompt as it stands on the screen; empty when it is closed."""
        if not self.reader.prompt.display:
            return ""
        strips = self.screen._compositor.render_strips()
        y = self.reader.prompt.region.y
        return "".join(segment.text for segment in strips[y]).strip("│ ")


class PaneApp(ReaderApp):
    """The pane of one log."""

    def __init__(self, *, glyphs: Glyphs = UNICODE, limit: int = 1000, label: str = "decode :30001") -> None:
        self.pane = LogPane(label, role="decode", glyphs=glyphs, limit=limit)
        super().__init__(self.pane)


def numbered(start: int, count: int, line_class: LineClass = "plain") -> list[LogLine]:
    """`line 7`, `line 8`, …"""
    return [LogLine(number, f"line {number}", line_class) for number in range(start, start + count)]


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Wait for this to come about."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await pilot.pause(0.01)


async def shows(pilot: Pilot[None], app: PaneApp, lines: Iterable[LogLine], last: str) -> None:
    """Gives lines to the pane and waits until `last` is the bottom row."""
    app.pane.extend(list(lines))
    await until(pilot, lambda: last in app.rows[-1])
