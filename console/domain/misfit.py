"""Where and how a table of TOML does not fit its struct: msgspec's sentence, taken apart and put plainly."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_WORDS = {
    "object": "a table",
    "array": "an array",
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


class Misfit(NamedTuple):
    """The first thing that does not fit."""

    path: tuple[str, ...]
    """Names and array positions from the top; "..." stands for an entry of a table with free keys."""
    unknown: bool
    """The last name of the path is no field of the struct there."""
    reason: str
    """Part of a sentence, such as `expected a string, got a whole number`."""


def misfit(error: msgspec.ValidationError) -> Misfit:
    """What msgspec.convert says about a value that came from TOML."""
    said, _, place = str(error).partition(" - at `")
    path = tuple(re.findall(r"[^.\[\]`$]+|\.\.\.", place.removeprefix("key` in `")))
    if field := _FIELD.fullmatch(said):
        unknown = field[1] == "contains unknown"
        return Misfit((*path, field[2]), unknown, "no such key" if unknown else "missing")
    return Misfit(path, False, _plainly(said))


def _plainly(said: str) -> str:
    plain = re.sub(r"`([^`]*)`", lambda quoted: _kinds(quoted[1]), said)
    return plain[:1].lower() + plain[1:] if plain.startswith("Expected") else plain


def _kinds(types: str) -> str:
    words = [_WORDS.get(kind, kind) for kind in types.removesuffix(" | null").split(" | ")]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
