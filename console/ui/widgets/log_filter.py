"""Which lines of a log are shown: those of a level, with what is wanted in them and without what is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from .log_finds import Finds
from .log_pattern import Pattern
from .log_rows import ALARMS, KeptRows, Kind, Row, Source

Level = Literal["all", "warnings", "errors"]
LEVELS: tuple[Level, ...] = get_args(Level)


class LogFilter(NamedTuple):
    """A row passes when it has the level, matches every pattern wanted and none unwanted.

    What the console itself wrote between the lines always passes.
    """

    level: Level = "all"
    wanted: tuple[Pattern, ...] = ()
    unwanted: tuple[Pattern, ...] = ()

    @property
    def is_open(self) -> bool:
        """Everything passes."""
        return self == LogFilter()

    @property
    def words(self) -> str:
        """As it is typed: `&TP0 &!health errors`."""
        patterns = [f"&{pattern.typed}" for pattern in self.wanted]
        patterns += [f"&!{pattern.typed}" for pattern in self.unwanted]
        return " ".join([*patterns, *([] if self.level == "all" else [_LEVEL_WORDS[self.level]])])

    def passes(self, text: str, kind: Kind) -> bool:
        """Whether a row is shown."""
        if kind in ("note", "mark"):
            return True
        if self.level != "all" and ALARMS.get(kind) not in _ALARMS_OF[self.level]:
            return False
        return all(pattern.regex.search(text) for pattern in self.wanted) and not any(
            pattern.regex.search(text) for pattern in self.unwanted
        )

    def with_typed(self, typed: str) -> LogFilter:
        """One more pattern, unwanted when it begins with `!`; without any, none. Raises BadPattern."""
        if typed.startswith("!") and len(typed) > 1:
            return self._replace(unwanted=(*self.unwanted, Pattern.of(typed[1:])))
        if typed and typed != "!":
            return self._replace(wanted=(*self.wanted, Pattern.of(typed)))
        return self._replace(wanted=(), unwanted=())

    def next_level(self) -> LogFilter:
        """All lines, then warnings and errors, then errors."""
        return self._replace(level=LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)])


_LEVEL_WORDS: dict[Level, str] = {"warnings": "warnings+", "errors": "errors"}
_ALARMS_OF: dict[Level, tuple[str, ...]] = {"warnings": ("warning", "error"), "errors": ("error",)}


class FilteredRows(Finds):
    """The rows of a buffer that pass a filter, as rows."""

    def __init__(self, buffer: KeptRows, log_filter: LogFilter) -> None:
        super().__init__(buffer, log_filter.passes)
        self._buffer = buffer

    def __len__(self) -> int:
        return len(self.positions)

    def row(self, index: int) -> Row:
        """See Rows."""
        return self._buffer.row(self._buffer.index(self.positions[index]))

    def source(self, index: int) -> Source | None:
        """See Rows."""
        return self._buffer.source(self._buffer.index(self.positions[index]))

    def position(self, index: int) -> int:
        """See Rows."""
        return self.positions[index]

    def index(self, position: int) -> int:
        """See Rows."""
        return self.positions.index(position)

    def columns(self, start: int, stop: int) -> Iterable[tuple[str, Kind]]:
        """See Rows."""
        indexes = [self._buffer.index(self.positions[index]) for index in range(start, stop)]
        return [next(iter(self._buffer.columns(index, index + 1))) for index in indexes]
