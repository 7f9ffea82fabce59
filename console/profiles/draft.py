"""One profile between its files and its value: tables laid over each other, variables put in, converted."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from console.domain.errors import ProfileError
from console.domain.misfit import Misfit, misfit
from console.domain.profile import (
    BenchShape,
    EnvironmentValue,
    Expectation,
    Kind,
    Limits,
    Profile,
    RouterSpec,
    ServerSpec,
)
from console.domain.sglang_flags import FlagValue

Key = tuple[str, ...]
"""A place in a file, such as ("servers", "decode", "port")."""

_PROSE = ("title", "why", "source", "known_failure", "requires")
"""Keys in whose text a dollar is a dollar."""
_GIVEN = ("name", "file")
"""Fields that a file does not write."""
_TABLES: dict[str, type[msgspec.Struct]] = {
    "router": RouterSpec,
    "limits": Limits,
    "bench": BenchShape,
    "expect": Expectation,
}
_VARIABLE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})?")
_NUMBER = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
_FROM_ENVIRONMENT = "DSV4_"


class Draft:
    """A profile on its way: the merged table, and for each key the file that wrote it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._table: dict[str, Any] = {}
        self._origins: dict[Key, Path] = {}

    def lay(self, table: Mapping[str, Any], file: Path) -> None:
        """Lay a file's table over what is there."""
        self._merge(self._table, table, file, ())

    def _merge(self, lower: dict[str, Any], upper: Mapping[str, Any], file: Path, at: Key) -> None:
        for name, value in upper.items():
            if not isinstance(value, dict):
                lower[name] = value
            elif isinstance(lower.get(name), dict):
                self._merge(lower[name], value, file, (*at, name))
                continue
            else:
                lower[name] = {}
                self._merge(lower[name], value, file, (*at, name))
            self._origins[*at, name] = file

    def expand(self) -> None:
        """Put the variables' texts in the place of their names."""
        variables = self._entries(("variables",), str)
        variables |= {name: text for name, text in os.environ.items() if name.startswith(_FROM_ENVIRONMENT)}
        self._table.pop("variables", None)
        self._table = {name: self._expanded(value, variables, (name,)) for name, value in self._table.items()}

    def _expanded(self, value: Any, variables: Mapping[str, str], at: Key) -> Any:
        if isinstance(value, dict):
            return {name: self._expanded(item, variables, (*at, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [self._expanded(item, variables, at) for item in value]
        return self._text(value, variables, at) if isinstance(value, str) else value

    def _text(self, text: str, variables: Mapping[str, str], at: Key) -> str | int:
        if at[0] in _PROSE:
            expanded, shown = text, text.replace("\n", "")
        else:
            shown = expanded = _VARIABLE.sub(lambda found: self._meaning(found, variables, at), text)
        if not shown.isprintable():
            raise self._wrong(at, "holds control characters")
        return int(expanded) if expanded != text and _NUMBER.fullmatch(expanded) else expanded

    def _meaning(self, found: re.Match[str], variables: Mapping[str, str], at: Key) -> str:
        if found[1]:
            return "$"
        name = found[2] or found[3] or ""
        if name not in variables:
            raise self._wrong(at, f"no variable ${name}", _advice(name))
        return variables[name]

    def converted(self) -> Profile:
        """The profile, well-formed in itself."""
        for key, kind in self._open_tables():
            self._entries(key, kind)
        servers = self._entries(("servers",), dict[str, Any])
        for key in ((name,) for name in _GIVEN):
            self._refuse(key)
        for server in servers:
            self._refuse(("servers", server, "name"))
        given = {"name": self._file.stem, "file": str(self._file)}
        listed = [{**table, "name": name} for name, table in servers.items()]
        return self._convert({**self._table, **given, "servers": listed}, list(servers))

    def _convert(self, table: dict[str, Any], servers: list[str]) -> Profile:
        try:
            return msgspec.convert(table, Profile, str_keys=True)
        except msgspec.ValidationError as error:
            found = misfit(error)
            key = found.path
            if key[:1] == ("servers",) and len(key) > 1:
                key = ("servers", servers[int(key[1])], *key[2:])
            raise self._misfit(key, found) from error

    def _misfit(self, key: Key, found: Misfit) -> ProfileError:
        if found.unknown:
            return self._wrong(key, found.reason, nearest(key[-1], _keys_of(key[:-1])))
        if key == ("kind",):
            return self._wrong(key, f"expected {', '.join(get_args(Kind))}, not {self._table['kind']!r}")
        return self._wrong(key, found.reason)

    def _open_tables(self) -> Iterator[tuple[Key, Any]]:
        """The tables with free keys, and the kind of their values: msgspec does not name the wrong entry."""
        servers = self._table.get("servers")
        names = servers if isinstance(servers, dict) else ()
        for at in ((), ("router",), *(("servers", name) for name in names)):
            yield (*at, "environment"), EnvironmentValue
            yield (*at, "flags"), FlagValue
            yield (*at, "expect", "server_info"), FlagValue

    def _entries(self, key: Key, kind: Any) -> dict[str, Any]:
        """The entries of a table, each of which must be of that kind; none when there is no such table."""
        table: Any = self._table
        for name in key:
            table = table.get(name, {}) if isinstance(table, dict) else {}
        self._check(table, dict[str, Any], key)
        for name, value in table.items():
            self._check(value, kind, (*key, name))
        return dict(table)

    def _check(self, value: object, kind: Any, key: Key) -> None:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._wrong(key, misfit(error).reason) from error

    def _refuse(self, key: Key) -> None:
        if key in self._origins:
            raise self._wrong(key, "follows from the name of the file or table", "leave it out")

    def _wrong(self, key: Key, reason: str, next_step: str = "correct that key") -> ProfileError:
        """An error about a key, in the file that wrote it or the table that it is in."""
        within = (key[:length] for length in range(len(key), 0, -1))
        file = next((self._origins[at] for at in within if at in self._origins), self._file)
        return error_at(file, key, reason, next_step)


def error_at(file: Path, key: Key, reason: str, next_step: str = "correct that key") -> ProfileError:
    """An error about a key of a file."""
    shown = ".".join(name if re.fullmatch(r"[\w-]+", name) else repr(name) for name in key)
    return ProfileError(f"{shown}: {reason}" if shown else reason, where=str(file), next_step=next_step)


def _advice(name: str) -> str:
    if not name:
        return "write $$ for a dollar"
    elsewhere = f", or set {name} in the console's environment" if name.startswith(_FROM_ENVIRONMENT) else ""
    return f"give it in [variables]{elsewhere}"


def _keys_of(at: Key) -> list[str]:
    """The keys that a table may have."""
    if not at:
        return [*Profile.__struct_fields__[len(_GIVEN) :], "extends", "variables"]
    kind = ServerSpec if len(at) == 2 and at[0] == "servers" else _TABLES.get(at[-1], Profile)
    return [field for field in kind.__struct_fields__ if field != "name"]


def nearest(name: str, names: Iterable[str]) -> str:
    """A next step for a name that is none of these."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"write {near[0]}" if near else f"use one of {', '.join(names) or 'none: there are no profiles'}"
