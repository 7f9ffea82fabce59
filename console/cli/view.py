"""Open the console on a terminal."""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import platformdirs

from console.cli.target import Given, Target, choose
from console.domain.errors import SettingsError, UsageError
from console.settings import Settings

if TYPE_CHECKING:
    from console.domain.journal_entry import JournalEntry

JOURNAL_LIMIT = 200
"""Actions that the journal's screen shows."""


def view(given: Given) -> None:
    """Run the console until it is left. Raises UsageError, SettingsError, ThemeError or what ended the
    console."""
    target = choose(given)
    require_terminal()
    # Textual takes 200 ms to import, which no other verb should pay.
    from console.cli.late_bencher import LateBencher
    from console.cli.operator import TargetOperator
    from console.ui.app import ConsoleApp
    from console.ui.keymap import ids
    from console.ui.themes import DEFAULT_THEME, load_themes, native_colours
    from console.ui.widgets.meter import glyphs_for

    check_keys(target.settings, ids())
    themes, notices = load_themes(platformdirs.user_config_path("dsv4-console") / "themes")
    watch = target.watch()
    operator = TargetOperator(target, watch)
    app = ConsoleApp(
        watch.updates,
        themes=themes,
        theme=chosen_theme(target, [theme.name for theme in themes]) or DEFAULT_THEME,
        glyphs=glyphs_for(sys.stdout.encoding),
        keys=target.settings.keys,
        notices=notices,
        native_colours=native_colours(os.environ),
        source=watch,
        operator=operator,
        bencher=LateBencher(target, watch, operator),
        journal=functools.partial(_journal, target.name),
    )
    error = app.run()
    if error is not None:
        raise error
    sys.exit(app.return_code)


async def _journal(host: str) -> Sequence[JournalEntry]:
    """Raises ConsoleError when the file cannot be read."""
    from console.cli.journal import read

    return await read(host, JOURNAL_LIMIT)


def require_terminal() -> None:
    """Raises UsageError unless stdin and stdout are a terminal that can be drawn on."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the console needs a terminal, and stdin or stdout is not one",
            next_step="use `dsv4-console status` (or `status --json`) in scripts and pipes",
        )


def chosen_theme(target: Target, known: Sequence[str]) -> str | None:
    """The theme the settings ask for. Raises SettingsError for one that does not exist."""
    name = target.settings.theme
    if name is None or name in known:
        return name
    raise SettingsError(
        f"there is no theme {name!r}",
        cause=f"known are {', '.join(known)}",
        next_step="correct `theme` in config.toml or DSV4_CONSOLE_THEME",
    )


def check_keys(settings: Settings, known: frozenset[str]) -> None:
    """Raises SettingsError for a `[keys]` entry that names no action."""
    for name in settings.keys:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise SettingsError(
                f"[keys] in config.toml names no action {name!r}",
                cause=f"did you mean {near[0]!r}" if near else "",
                next_step="see the help screen (?) for the names",
            )
