"""Every key in one table: the footer, the help screen, the palette and the user's own keys come from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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


DEPLOY, BENCH = "Deployment", "Benchmark"
READ, FIND, TAKE = "Reading a log", "Finding in a log", "Taking lines along"
FOLLOW = "Follow the end of the log, or stop."
SEARCH = "Search a regular expression; escape: back."
FILTER = "Lines that match; !… others; empty: all."

EVERYWHERE = (
    Key("help", "question_mark", "help", "help", "All keys.", "Console", True),
    Key("quit", "q", "back_or_quit", "quit", "Back to the dashboard; from there, quit.", "Console", True),
    Key("palette", "ctrl+p", "command_palette", "palette", "Every action, by name.", "Console"),
    Key("journal", "J", "journal", "journal", "What was done to this host.", "Console"),
    Key("theme", "T", "next_theme", "theme", "The next theme.", "Console"),
    Key("profiles", "p", "profiles", "profiles", "Profiles: what runs, switch to another.", DEPLOY, True),
    Key("restart", "R", "restart", "restart", "Restart all of what runs: plan first.", DEPLOY, True),
    Key("stop", "S", "stop", "stop", "Stop what runs: plan first.", DEPLOY),
    Key("readonly", "ctrl+o", "toggle_readonly", "read-only", "Allow no changes, or allow them.", DEPLOY),
    Key("bench-1", "b", "bench(1)", "C=1", "Benchmark, one request at a time: plan first.", BENCH, True),
    Key("bench-16", "B", "bench(16)", "C=16", "The same with 16 at a time.", BENCH, True),
    Key("bench-history", "c", "bench_history", "compare", "All benchmark results; compare two.", BENCH),
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
    Key("follow", "F", "toggle_follow", "follow", FOLLOW, READ),
    Key("pause", "space", "toggle_pause", "pause", "Freeze the view; reading goes on.", READ),
    Key("bottom", "G,end", "to_end", "end", "The newest line, and follow.", READ),
    Key("top", "g,home", "to_top", "top", "The oldest line, then older from the host.", READ),
    Key("line-down", "down,j", "lines(1)", "line down", "One line down; the end follows again.", READ),
    Key("line-up", "up,k", "lines(-1)", "line up", "One up; past the oldest: from the host.", READ),
    Key("page-down", "pagedown", "pages(1)", "page down", "One page down.", READ),
    Key("page-up", "pageup", "pages(-1)", "page up", "One page up.", READ),
    Key("half-down", "ctrl+d", "pages(0.5)", "half a page down", "Half a page down.", READ),
    Key("half-up", "ctrl+u", "pages(-0.5)", "half a page up", "Half a page up.", READ),
    Key("right", "right", "columns(1)", "right", "Sideways; following goes on.", READ),
    Key("left", "left", "columns(-1)", "left", "And back.", READ),
    Key("raw", "v", "toggle_whole", "whole lines", "With date, level and source file.", READ),
    Key("times", "d", "toggle_times", "times", "The time of each line, or not.", READ),
    Key("wrap", "x,ctrl+w", "toggle_folds", "wrap", "Wrap long lines, or cut them.", READ),
    Key("search", "/", "search", "search", SEARCH, FIND, True),
    Key("host-search", "asterisk", "host_search", "search file", "Search the whole file on the host.", FIND),
    Key("next-match", "n", "next_match", "next match", "The next match; after the last, the first.", FIND),
    Key("previous-match", "N", "previous_match", "previous match", "The match before.", FIND),
    Key("filter", "&", "filter", "filter", FILTER, FIND),
    Key("level", "l", "next_level", "level", "All lines, warnings and errors, errors.", FIND),
    Key("next-error", "e", "next_error", "errors", "The next error or fatal line.", FIND, True),
    Key("previous-error", "E", "previous_error", "previous error", "The error before.", FIND),
    Key("next-warning", "w", "next_warning", "next warning", "The next warning.", FIND),
    Key("previous-warning", "W", "previous_warning", "previous warning", "The warning before.", FIND),
    Key("clear", "escape", "clear", "clear", "End the block, or forget the matches.", FIND),
    Key("copy", "y", "copy", "copy", "Copy the block, the marked or top line.", TAKE),
    Key("select", "V", "select", "select", "Begin a block; lines and pages extend it.", TAKE),
    Key("extend-down", "shift+down", "extend(1)", "extend down", "One line more.", TAKE),
    Key("extend-up", "shift+up", "extend(-1)", "extend up", "One line more, upwards.", TAKE),
    Key("save", "s", "save", "save", "Save what is shown, or the block.", TAKE),
    Key("whole-line", "u", "save_whole", "save uncut", "Save a line that is too long to be shown.", TAKE),
    Key("pager", "o", "page_out", "pager", "The same in $PAGER, else in less.", TAKE),
)


NAMES = {
    "question_mark": "?", "asterisk": "*", "escape": "esc", "pagedown": "pgdn", "pageup": "pgup",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
    "shift+tab": "⇧tab", "shift+up": "⇧↑", "shift+down": "⇧↓",
}  # fmt: skip


def names(key: Key) -> str:
    """The keys as a person would write them."""
    return " ".join(NAMES.get(one, one.replace("ctrl+", "^")) for one in re.split(" *, *", key.keys.strip()))


class Keymap:
    """The keys in force: those of the tables, but for those that the user has chosen."""

    def __init__(self, chosen: Mapping[str, str] | None = None) -> None:
        """`chosen` are keys by id, as under `[keys]` in config.toml."""
        self.chosen = dict(chosen or {})

    def of(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        """Part of a table as it is in force."""
        return tuple(key._replace(keys=self.chosen.get(key.id, key.keys)) for key in keys)

    def named(self, id: str) -> str:
        """The keys of one action everywhere, as a person would write them."""
        return next(names(key) for key in self.of(EVERYWHERE) if key.id == id)

    @property
    def finish(self) -> str:
        """What can be done about a plan whose console died."""
        return f"{self.named('restart')} finishes it, {self.named('stop')} undoes it."

    @property
    def shows_plan(self) -> str:
        """How to come back to a plan."""
        return f"{self.named('profiles')} or {self.named('restart')} shows it"

    @property
    def shows_benchmark(self) -> str:
        """How to come back to a benchmark."""
        return f"{self.named('bench-1')} shows it"


def bindings(keys: Iterable[Key]) -> list[Binding]:
    """The keys as Textual bindings, remappable by id."""
    return [
        Binding(key.keys, key.action, key.label, show=key.shown, tooltip=key.explained, id=key.id)
        for key in keys
    ]


def ids() -> frozenset[str]:
    """The names that `[keys]` may use."""
    return frozenset(key.id for key in (*EVERYWHERE, *LOG))
