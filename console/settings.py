"""config.toml as frozen `Settings`. A command-line flag goes before the environment, that before the file.

The string under each field is its manual. Environment: DSV4_CONSOLE_CONFIG (path of the file),
DSV4_CONSOLE_HOST (`default_host`) and DSV4_CONSOLE_THEME (`theme`).
"""

from __future__ import annotations

import difflib
import os
import re
import time
import tomllib
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec
import platformdirs

from console.domain.errors import SettingsError
from console.domain.logclass import REGEX_REACH, LinePattern
from console.domain.worstcase import REPEATS_LIMIT, shape_of

_T = TypeVar("_T")

PATTERNS_LIMIT = 50
PATTERN_LENGTH = 200
SLOWEST_S = 0.02
"""An expression may take so long for a line: every such line costs it again."""

_SSH = re.compile(r"(?:[^\s@-]\S*@)?(?:\[[^\s\]]+\]|[^\s@:\[\]-][^\s@:\[\]]*)(?::(\d{1,5}))?")


class HostSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table `[hosts.NAME]`. Raises ValueError when a value is out of its range."""

    ssh: str | None = None
    """An alias of ~/.ssh/config, or user@host or user@host:port. Default: the table's name."""
    python: str | None = None
    """Path of the Python on the host, best SGLang's own. Default: looked for on the host."""
    interval_s: float = 1.0
    """Seconds between two samples of the GPUs, from 0.2 to 10."""
    readonly: bool = False
    """true: refuse everything that would change this host."""
    protected: bool = False
    """true: ask for the host's name before anything on it is changed."""

    def __post_init__(self) -> None:
        if self.ssh is not None and not _is_ssh_target(self.ssh):
            raise ValueError(f"ssh must be an ssh_config alias or user@host[:port], not {self.ssh!r}")
        if self.python is not None and not self.python.strip():
            raise ValueError("python must be the path of a Python on the host, not empty")
        if not 0.2 <= self.interval_s <= 10:
            raise ValueError(
                f"interval_s must be a number of seconds from 0.2 to 10, not {self.interval_s:g}"
            )


_PatternClass = Literal["fatal", "error", "warning", "benign", "stats", "progress", "config", "plain"]


class LogPattern(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"line_class": "class"}
):
    """One table `[[log_patterns]]`: what a line of a log is, before the console's own tables are asked.

    Raises ValueError when an expression is wrong, or slow on a long line.
    """

    line_class: _PatternClass
    """The class of the lines that it fits. A line that says `ready` only the console knows."""
    contains: str
    """What such a line contains, letter for letter: 3 to 200 characters."""
    regex: str | None = None
    """A regular expression of Python's, to be found in the line's first 1024 characters as well."""

    def __post_init__(self) -> None:
        if not 3 <= len(self.contains) <= PATTERN_LENGTH:
            raise ValueError(f"contains must have 3 to {PATTERN_LENGTH} characters, not {len(self.contains)}")
        if self.regex is not None:
            _check_regex(self.regex)

    @property
    def line_pattern(self) -> LinePattern:
        """Ready for use."""
        return LinePattern(self.line_class, self.contains, re.compile(self.regex) if self.regex else None)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of config.toml."""

    default_host: str | None = None
    """The host to open when --host names none: a table under [hosts], an ssh_config alias, local or demo."""
    theme: str | None = None
    """Name of a theme: a file of the themes folder, without .toml. Default: the console's own."""
    hosts: dict[str, HostSettings] = {}
    """Tables [hosts.NAME], one for each host that needs more than its ssh_config entry."""
    keys: dict[str, str] = {}
    """Table [keys]: action = "key", or "key,key" for several. Names of actions are in the help screen (?)."""
    log_patterns: tuple[LogPattern, ...] = ()
    """Tables [[log_patterns]], at most 50: lines that mean something to you. The first that fits holds."""

    @property
    def line_patterns(self) -> tuple[LinePattern, ...]:
        """The patterns of `log_patterns`, ready for use."""
        return tuple(pattern.line_pattern for pattern in self.log_patterns)


def load_settings(path: Path | None = None) -> Settings:
    """The settings in `path`, else in DSV4_CONSOLE_CONFIG, else in the user's config folder.

    A file that is named must exist; without a file in the config folder the defaults hold. Raises
    SettingsError.
    """
    named = path or _environment_path()
    file = named or platformdirs.user_config_path("dsv4-console") / "config.toml"
    settings = Settings() if named is None and not file.exists() else _read(file)
    return msgspec.structs.replace(
        settings,
        default_host=os.environ.get("DSV4_CONSOLE_HOST") or settings.default_host,
        theme=os.environ.get("DSV4_CONSOLE_THEME") or settings.theme,
    )


def shipped_folder(name: Literal["profiles", "themes"]) -> Path:
    """The folder that came with the console: inside an installed wheel, else at the top of the checkout."""
    package = Path(__file__).parent
    installed = package / "_shipped" / name
    return installed if installed.is_dir() else package.parent / name


def _environment_path() -> Path | None:
    value = os.environ.get("DSV4_CONSOLE_CONFIG")
    return Path(value) if value else None


def _is_ssh_target(text: str) -> bool:
    match = _SSH.fullmatch(text)
    return match is not None and (match[1] is None or 1 <= int(match[1]) <= 65535)


def _read(file: Path) -> Settings:
    data = _parsed(_text(file), file)
    # Entry by entry, because msgspec does not say which entry of a table is wrong.
    tables = {
        "hosts": _entries(data, "hosts", HostSettings, file),
        "keys": _entries(data, "keys", str, file),
        "log_patterns": _patterns(data, file),
    }
    return _converted({**data, **tables}, Settings, file)


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
    except FileNotFoundError as error:
        raise _error(file, "no such file", "create it, or name another with --config") from error
    except IsADirectoryError as error:
        raise _error(file, "a folder, not a file", f"name the file in it: {file / 'config.toml'}") from error
    except OSError as error:
        raise _error(file, f"cannot be read: {error.strerror}", "check its owner and permissions") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _error(file, f"not UTF-8 at line {line}", "save the file as UTF-8") from error


def _parsed(text: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    # Not only TOMLDecodeError: int() refuses a number of more than 4300 digits with a plain ValueError.
    except ValueError as error:
        raise _error(file, f"not TOML: {error}", "correct that line") from error


def _entries(data: dict[str, Any], table: str, kind: type[_T], file: Path) -> dict[str, _T]:
    entries = _converted(data.get(table, {}), dict[str, Any], file, table)
    return {name: _converted(value, kind, file, f"{table}.{_shown(name)}") for name, value in entries.items()}


def _patterns(data: dict[str, Any], file: Path) -> list[LogPattern]:
    tables = _converted(data.get("log_patterns", []), list[dict[str, Any]], file, "log_patterns")
    if len(tables) > PATTERNS_LIMIT:
        what = f"log_patterns: {len(tables)} tables, where {PATTERNS_LIMIT} are the most"
        raise _error(file, what, "take some out: each costs time on every line")
    return [_pattern(table, file, f"log_patterns[{index}]") for index, table in enumerate(tables)]


def _pattern(table: dict[str, Any], file: Path, key: str) -> LogPattern:
    classes = get_args(_PatternClass)
    if table.get("class") not in classes:
        what = f"{table['class']!r} is no class of lines" if "class" in table else "missing"
        raise _error(file, f"{key}.class: {what}", f"use one of {', '.join(classes)}")
    return _converted(table, LogPattern, file, key)


def _check_regex(pattern: str) -> None:
    if len(pattern) > PATTERN_LENGTH:
        raise ValueError(f"regex must have at most {PATTERN_LENGTH} characters, not {len(pattern)}")
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"regex is no regular expression: {error}") from error
    shape = shape_of(pattern)
    if shape.nested or len(shape.pumps) > REPEATS_LIMIT:
        raise ValueError("regex may take for ever on a long line: it repeats what repeats or chooses itself")
    # Longer and longer lines, so that a slow one is caught before it takes minutes.
    for length in (16, 32, 64, 128, 256, 512, REGEX_REACH):
        for line in shape.worst_lines(length):
            if (took := _search_time(regex, line)) > SLOWEST_S:
                raise ValueError(f"regex is too slow: {took * 1000:.0f} ms on a line of {length} characters")


def _search_time(regex: re.Pattern[str], line: str) -> float:
    """The best of two: the first may have to wait for the processor."""
    times: list[float] = []
    while len(times) < 2 and (not times or times[0] > SLOWEST_S):
        began = time.perf_counter()
        regex.search(line)
        times.append(time.perf_counter() - began)
    return min(times)


def _converted(value: object, kind: type[_T], file: Path, key: str = "") -> _T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$")
        if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", said, re.DOTALL):
            raise _unknown(file, key, unknown[1], getattr(kind, "__struct_encode_fields__", ())) from error
        full_key = (key + path.rstrip("`")).lstrip(".")
        raise _error(file, f"{full_key}: {_in_words(said)}", "correct that key") from error


def _unknown(file: Path, key: str, name: str, names: tuple[str, ...]) -> SettingsError:
    near = difflib.get_close_matches(name, names, n=1)
    next_step = f"write {near[0]}" if near else f"use one of {', '.join(names)}"
    return _error(file, f"{key}{'.' if key else ''}{_shown(name)}: no such setting", next_step)


def _in_words(said: str) -> str:
    """A sentence of msgspec's in the words of TOML: `Expected `bool`, got `int`` and the like."""
    words = {"object": "a table", "str": "a string", "float": "a number", "int": "a whole number"}
    words |= {"bool": "true or false", "array": "an array", "null": "nothing"}
    plain = re.sub(r"`([^`]*)`", lambda quoted: words.get(quoted[1].removesuffix(" | null"), quoted[1]), said)
    return plain[:1].lower() + plain[1:] if plain.startswith("Expected") else plain


def _shown(name: str) -> str:
    """A key as TOML writes it: quoted when it is not a bare one."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else repr(name)


def _error(file: Path, what: str, next_step: str) -> SettingsError:
    return SettingsError(what, where=str(file), next_step=next_step)
