"""The log of one server in memory: rows come at the end, and go at the start."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from console.domain.logline import LogLine
from console.domain.printable import Colour

from .log_rows import ALARMS, ROW_LIMIT, KeptRows, Kind, text_size

COLOURED = 5_000
"""Lines that keep the colours of their writer: a router colours every line, at some hundred bytes."""


class LogBuffer(KeptRows):
    """The last rows of a log; their positions count from 0."""

    def __init__(self, limit: int = ROW_LIMIT) -> None:
        super().__init__(limit)
        self._colours: dict[int, tuple[Colour, ...]] = {}

    @property
    def first_number(self) -> int:
        """The number of the oldest line that is still here; 1 when there is none."""
        lines = zip(self._numbers, self._kinds, strict=True)
        return next((number for number, kind in lines if kind not in ("note", "mark")), 1)

    @property
    def first(self) -> int:
        """The position of the oldest row that is still here."""
        return self.added - len(self._texts)

    def position(self, index: int) -> int:
        """See Rows."""
        return self.first + index

    def index(self, position: int) -> int:
        """See Rows."""
        return min(max(0, position - self.first), len(self._texts))

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Adds lines at the end, and drops as many at the start as are too many."""
        if not lines:
            return
        numbers, texts, kinds, heads = zip(*lines, strict=True)
        if not ALARMS.keys().isdisjoint(kinds):
            for position, (kind, head) in enumerate(zip(kinds, heads, strict=True), self.added):
                if kind in ALARMS and head is None:
                    self._alarmed(position, kind)
        self._add(numbers, texts, kinds)

    def prepend(self, lines: Sequence[LogLine], note: str | None = None) -> None:
        """Puts older lines before all others, and a remark before these; positions go below those known."""
        numbers, texts = [line.number for line in lines], [line.text for line in lines]
        kinds: list[Kind] = [line.line_class for line in lines]
        if note is not None:
            numbers = [numbers[0] if numbers else self.first_number, *numbers]
            texts, kinds = [note, *texts], ["note", *kinds]
        for position, line in enumerate(lines, self.first - len(lines)):
            if line.line_class in ALARMS and line.head is None:
                self.alarms[ALARMS[line.line_class]].insert(position)
        self._numbers[:0] = array("q", numbers)
        self._texts[:0], self._kinds[:0] = texts, kinds
        self._size += text_size(texts)

    def colour(self, colours: Mapping[int, tuple[Colour, ...]]) -> None:
        """Gives lines, by number, the colours of their writer; only the newest are kept."""
        if colours:
            kept = list((self._colours | dict(colours)).items())[-COLOURED:]
            self._colours = dict(kept)

    def colours(self, index: int) -> tuple[Colour, ...]:
        """See KeptRows."""
        return self._colours.get(self._numbers[index], ())

    def note(self, text: str) -> None:
        """Adds a remark at the end."""
        self._add((self._last_number,), (text,), ("note",))

    def mark(self, text: str, second: int) -> None:
        """Adds a mark at the end."""
        self._add((self._last_number,), (text,), ("mark",))

    def revise(self, lines: Iterable[LogLine]) -> int | None:
        """Gives lines that are still here another class; returns the lowest position that changed."""
        changed = [position for line in lines if (position := self._revise(line)) is not None]
        return min(changed, default=None)

    def excess(self, lines: Sequence[LogLine] = ()) -> int:
        """See KeptRows."""
        size = self._size + text_size([line.text for line in lines])
        return min(len(self._texts), self._surplus(len(self._texts) + len(lines), size))

    @property
    def _last_number(self) -> int:
        return self._numbers[-1] if self._numbers else 0

    def _add(self, numbers: Sequence[int], texts: Sequence[str], kinds: Sequence[Kind]) -> None:
        self._numbers.extend(numbers)
        self._texts.extend(texts)
        self._kinds.extend(kinds)
        self._size += text_size(texts)
        self.added += len(texts)
        self._trim()

    def _revise(self, line: LogLine) -> int | None:
        index = bisect_left(self._numbers, line.number)
        # A note has the number of the line before it, which may be dropped by now.
        if index == len(self._texts) or self._numbers[index] != line.number:
            return None
        return None if self._kinds[index] in ("note", "mark") else self._change(index, line)
