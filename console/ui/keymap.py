"""Every key in one table: the footer, the help screen, the palette and the user's own keys come from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from textual.binding import Binding


class Key(NamedTuple):
    """A key, the action it calls, and the words for it."""

    id: str
    """The name under `[keys]` in config.toml."""
    keys: str
    action: str
    label: str
    explained: str
    group: str
    shown: bool = False
    """In the footer."""


EVERYWHERE = (
    Key("help", "question_mark", "help", "help", "All keys.", "Console", True),
    Key("quit", "q", "back_or_quit", "quit", "Back to the dashboard; from there, quit.", "Console", True),
    Key("palette", "ctrl+p", "command_palette", "palette", "Every action, by name.", "Console"),
    Key("theme", "T", "next_theme", "theme", "The next theme.", "Console"),
    Key("next-pane", "tab", "app.focus_next", "next pane", "To the next pane.", "Panes", True),
    Key("previous-pane", "shift+tab", "app.focus_previous", "previous pane", "To the pane before.", "Panes"),
    Key("zoom", "z", "zoom", "zoom", "The focused pane alone, and back.", "Panes", True),
    *(
        Key(f"pane-{number}", str(number), f"pane({number})", f"pane {number}", f"To pane {number}.", "Panes")
        for number in range(1, 10)
    ),
    Key("window", "t", "next_window", "time window", "Chart of 5 or 15 minutes, or 1.", "Panes"),
)

LOG = (
    Key("follow", "F", "toggle_follow", "follow", "Follow the end of the log, or stop.", "Log", True),
    Key("pause", "space", "toggle_pause", "pause", "Freeze the view; reading goes on.", "Log", True),
    Key("top", "g,home", "to_top", "top", "The oldest line kept.", "Log"),
    Key("bottom", "G,end", "to_bottom", "end", "The newest line, and follow.", "Log"),
    Key("next-error", "e", "next_error", "next error", "The next error or fatal line.", "Log", True),
    Key("previous-error", "E", "previous_error", "previous error", "The error before.", "Log"),
    Key("next-warning", "w", "next_warning", "next warning", "The next warning.", "Log"),
    Key("previous-warning", "W", "previous_warning", "previous warning", "The warning before.", "Log"),
    Key(
        "raw", "v", "toggle_raw", "whole lines", "Lines with date, level and source file, or without.", "Log"
    ),
)


def bindings(keys: Iterable[Key]) -> list[Binding]:
    """The keys as Textual bindings, remappable by id."""
    return [
        Binding(key.keys, key.action, key.label, show=key.shown, tooltip=key.explained, id=key.id)
        for key in keys
    ]


def ids() -> frozenset[str]:
    """The names that `[keys]` may use."""
    return frozenset(key.id for key in (*EVERYWHERE, *LOG))
