"""A search through the rows that are shown."""

from __future__ import annotations

from .log_finds import Finds
from .log_pattern import Pattern
from .log_rows import Kind, Rows


class Search(Finds):
    """All rows in which a pattern matches."""

    def __init__(self, rows: Rows, pattern: Pattern) -> None:
        super().__init__(rows, self._matches)
        self.pattern = pattern

    def ordinal(self, position: int | None) -> int | None:
        """Which match this row is, from 1; None when it is none."""
        if position is None or position not in self.positions:
            return None
        return self.positions.index(position) + 1

    def _matches(self, text: str, kind: Kind) -> bool:
        return self.pattern.regex.search(text) is not None
