"""Command lines from a table: one flag a line, as the real argument parser of that version has it.

Columns, parted by tabs: option strings, attribute, kind, default as JSON, choices as JSON or nothing. A kind
is store_true, toggle (with a --no- form), str, int, float, count (8192, 8k, 8Ki), json or append; `+`, `*`,
`?` or `1` after it say how many values, `!` that it must be given.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def add_flags(parser: argparse.ArgumentParser, table: Path) -> None:
    """Teach a parser the table's flags. Like the real ones it will take unambiguous prefixes."""
    for line in table.read_text().splitlines():
        options, dest, kind, default, choices = line.split("\t")
        parser.add_argument(
            *options.split(),
            dest=dest,
            default=json.loads(default),
            **_form(kind, json.loads(choices) if choices else None),
        )


def _form(kind: str, choices: list[Any] | None) -> dict[str, Any]:
    if kind == "store_true":
        return {"action": "store_true"}
    if kind == "toggle":
        return {"action": argparse.BooleanOptionalAction}
    name = kind.rstrip("+*?!1")
    many = kind[len(name) :]
    form: dict[str, Any] = {"type": _TYPES[name], "choices": choices}
    if name == "append":
        form["action"] = "append"
    if many == "!":
        form["required"] = True
    elif many:
        form["nargs"] = 1 if many == "1" else many
    return form


def _count(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|k|M|G)?", text.strip())
    if found is None:
        raise ValueError(text)
    number, unit = found.groups()
    return int(float(number) * _MULTIPLIERS.get(unit, 1))


_TYPES: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "count": _count,
    "json": json.loads,
    "append": str,
}
