"""A line being typed: its text, and where the next letter goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

_LAST_WORD = re.compile(r"\S*\s*$")


class TypedLine(NamedTuple):
    """A text with a cursor in front of its character `cursor`."""

    text: str = ""
    cursor: int = 0

    @classmethod
    def of(cls, text: str) -> TypedLine:
        """With the cursor at the end."""
        return cls(text, len(text))

    @property
    def before(self) -> str:
        """What stands left of the cursor."""
        return self.text[: self.cursor]

    @property
    def after(self) -> str:
        """What stands under the cursor and right of it."""
        return self.text[self.cursor :]

    def insert(self, text: str) -> TypedLine:
        """With this text before the cursor, as far as it can be shown; of several lines the first."""
        first = next(iter(text.splitlines()), "")
        typed = "".join(char for char in first if char.isprintable())
        return TypedLine(self.before + typed + self.after, self.cursor + len(typed))

    def press(self, key: str) -> TypedLine | None:
        """As it is after a key of editing; None for any other key."""
        edit = _EDITS.get(key)
        return None if edit is None else edit(self)

    def _to(self, cursor: int) -> TypedLine:
        return TypedLine(self.text, min(max(0, cursor), len(self.text)))

    def _without_before(self, count: int) -> TypedLine:
        kept = self.before[: max(0, self.cursor - count)]
        return TypedLine(kept + self.after, len(kept))

    def _without_after(self, count: int) -> TypedLine:
        return TypedLine(self.before + self.after[count:], self.cursor)

    def _without_word(self) -> TypedLine:
        found = _LAST_WORD.search(self.before)
        return self._without_before(len(found[0]) if found else 0)


# As in readline; Ctrl+H is the backspace of some terminals.
_EDITS: Mapping[str, Callable[[TypedLine], TypedLine]] = {
    "left": lambda line: line._to(line.cursor - 1),
    "right": lambda line: line._to(line.cursor + 1),
    "home": lambda line: line._to(0),
    "ctrl+a": lambda line: line._to(0),
    "end": lambda line: line._to(len(line.text)),
    "ctrl+e": lambda line: line._to(len(line.text)),
    "backspace": lambda line: line._without_before(1),
    "ctrl+h": lambda line: line._without_before(1),
    "delete": lambda line: line._without_after(1),
    "ctrl+d": lambda line: line._without_after(1),
    "ctrl+w": TypedLine._without_word,
    "ctrl+u": lambda line: line._without_before(line.cursor),
    "ctrl+k": lambda line: line._without_after(len(line.text)),
}
