"""Themes: one TOML file each, named after its theme. A user's file adds a theme, or replaces a shipped one.

A file has the key `dark` and five tables, whose fields are those of the structs below; every value in them is
a colour "#rrggbb". A user's file may instead begin with `extends = "dsv4-dark"` (any shipped theme) and give
only what differs. Beside Textual's own variables a theme sets these, for style sheets and widgets:

    $role-prefill $role-decode $role-single $role-router $role-other $role-free
    $state-ready $state-starting $state-failed $state-gone $stale
    $log-ready $log-error $log-fatal $log-warning $log-stats $log-progress $log-config $log-benign $log-note
    $bar-low $bar-mid $bar-high $bar-track

Colour says role and state, nothing else, and never alone: a word or a sign stands beside it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from textual.theme import Theme

from console.domain.errors import ThemeError
from console.settings import shipped_folder

DEFAULT_THEME = "dsv4-dark"

Colour = Annotated[str, msgspec.Meta(pattern=r"^#[0-9a-fA-F]{6}$")]


class Colors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[colors]`: what Textual builds its own widgets from."""

    background: Colour
    surface: Colour
    panel: Colour
    foreground: Colour
    muted: Colour
    """Text of less weight."""
    border: Colour
    """Borders without focus; `primary` is the colour of the focus."""
    primary: Colour
    secondary: Colour
    accent: Colour
    success: Colour
    warning: Colour
    error: Colour


class Roles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[roles]`: whose GPU, server or log it is."""

    prefill: Colour
    decode: Colour
    single: Colour
    router: Colour
    other: Colour
    """Somebody else's."""
    free: Colour


class States(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[states]` of a server, and of what is shown about it."""

    ready: Colour
    starting: Colour
    failed: Colour
    gone: Colour
    stale: Colour
    """No longer known to be true."""


class Log(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[log]`: text of a line by its class; a plain line has the foreground."""

    ready: Colour
    error: Colour
    fatal: Colour
    warning: Colour
    stats: Colour
    progress: Colour
    config: Colour
    benign: Colour
    note: Colour
    """The console's own remarks between the lines."""


class Bars(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[bars]` by how full they are, and their empty part."""

    low: Colour
    mid: Colour
    high: Colour
    track: Colour


class ThemeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of a theme's file."""

    dark: bool
    colors: Colors
    roles: Roles
    states: States
    log: Log
    bars: Bars


class Themes(NamedTuple):
    """What was found: the themes, the default one first, and a sentence for each user's file left out."""

    themes: tuple[Theme, ...]
    notices: tuple[str, ...]


def load_themes(user_folder: Path | None = None) -> Themes:
    """The shipped themes and the user's. Raises ThemeError only for a shipped one."""
    files = _files(shipped_folder("themes"))
    shipped = {file.stem: _table(file) for file in files}
    themes = {file.stem: _theme(file.stem, shipped[file.stem], file) for file in files}
    notices = []
    for file in _files(user_folder) if user_folder else ():
        try:
            themes[file.stem] = _theme(file.stem, _extended(_table(file), shipped, file), file)
        except ThemeError as error:
            notices.append(str(error))
    ordered = sorted(themes.values(), key=lambda theme: (theme.name != DEFAULT_THEME, theme.name))
    return Themes(tuple(ordered), tuple(notices))


def native_colours(environment: Mapping[str, str]) -> bool | None:
    """`App(ansi_color=…)` for which NO_COLOR means no colour at all; by itself Textual still sends greys."""
    return True if "NO_COLOR" in environment else None


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml"))


def _table(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ThemeError("cannot be read", where=str(file), cause=str(error.strerror)) from error
    except ValueError as error:  # TOML and UTF-8 alike
        raise ThemeError("is not TOML", where=str(file), cause=str(error)) from error


def _extended(table: dict[str, Any], shipped: Mapping[str, dict[str, Any]], file: Path) -> dict[str, Any]:
    """The table over the shipped one that it extends."""
    if "extends" not in table:
        return table
    base = table["extends"]
    if not isinstance(base, str) or base not in shipped:
        raise ThemeError(f"expected one of {', '.join(shipped)}, not {base!r}", where=f"{file}: extends")
    below = shipped[base]
    return below | {key: _merged(below.get(key), value) for key, value in table.items() if key != "extends"}


def _merged(below: object, above: object) -> object:
    return {**below, **above} if isinstance(below, dict) and isinstance(above, dict) else above


def _theme(name: str, table: dict[str, Any], file: Path) -> Theme:
    try:
        palette = msgspec.convert(table, ThemeFile)
    except msgspec.ValidationError as error:
        raise _wrong(file, str(error)) from error
    return _textual_theme(name, palette)


_MESSAGE = re.compile(r"(?P<said>.*?)(?: - at `\$\.?(?P<path>.*)`)?")
_TABLES: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(ThemeFile)}
_A_COLOUR = 'a colour as "#rrggbb"'
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")


def _wrong(file: Path, message: str) -> ThemeError:
    """msgspec's sentence as file, key and what was expected."""
    found = _MESSAGE.fullmatch(message)
    said, path = (found["said"], found["path"] or "") if found else (message, "")
    field = _FIELD.fullmatch(said)
    key = ".".join(filter(None, (path, field[2] if field else "")))
    if field and field[1] == "contains unknown":
        known = _TABLES.get(path, ThemeFile).__struct_fields__
        said = f"unknown key, expected one of {', '.join(known)}"
    elif field:
        said = "missing, expected " + (_A_COLOUR if path else "this key or table")
    elif said.startswith("Expected `str`"):
        said = f"expected {_A_COLOUR}"
    return ThemeError(said.replace("`object`", "a table"), where=f"{file}: {key}")


def _textual_theme(name: str, palette: ThemeFile) -> Theme:
    colors = palette.colors
    return Theme(
        name=name,
        dark=palette.dark,
        background=colors.background,
        surface=colors.surface,
        panel=colors.panel,
        foreground=colors.foreground,
        primary=colors.primary,
        secondary=colors.secondary,
        accent=colors.accent,
        success=colors.success,
        warning=colors.warning,
        error=colors.error,
        variables={**_own_variables(palette), **_textual_variables(colors)},
    )


def _own_variables(palette: ThemeFile) -> dict[str, str]:
    """The variables of the module's docstring."""
    tables = (("role", palette.roles), ("state", palette.states), ("log", palette.log), ("bar", palette.bars))
    variables = {
        f"{prefix}-{key}": colour
        for prefix, table in tables
        for key, colour in msgspec.structs.asdict(table).items()
    }
    variables["stale"] = variables.pop("state-stale")
    return variables


def _textual_variables(colors: Colors) -> dict[str, str]:
    """What Textual would else derive from `primary`, too loud for borders and scroll bars."""
    return {
        "foreground-muted": colors.muted,
        "text-muted": colors.muted,
        "border": colors.primary,
        "border-blurred": colors.border,
        "scrollbar": colors.border,
        "scrollbar-hover": colors.muted,
        "scrollbar-active": colors.primary,
        "scrollbar-background": colors.background,
        "footer-background": colors.background,
        "footer-key-foreground": colors.accent,
        "footer-description-foreground": colors.muted,
        "block-cursor-foreground": colors.background,
        "block-cursor-background": colors.primary,
    }
