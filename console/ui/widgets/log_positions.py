"""An index into a log: positions of rows, ascending."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice

_WASTE = 1024
"""Dropped positions that may stay in memory, so that a drop seldom moves the rest."""


class Positions:
    """Ascending numbers of up to 63 bits, cheap to add at the end and to drop at the start."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._start = 0

    def __len__(self) -> int:
        return len(self._numbers) - self._start

    def __iter__(self) -> Iterator[int]:
        return islice(self._numbers, self._start, None)

    def __getitem__(self, index: int) -> int:
        return self._numbers[self._start + index if index >= 0 else index]

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and self.after(position - 1) == position

    def __copy__(self) -> Positions:
        copied = Positions()
        copied._numbers = self._numbers[self._start :]
        return copied

    def index(self, position: int) -> int:
        """How many are lower."""
        return bisect_left(self._numbers, position, self._start) - self._start

    def add(self, position: int) -> None:
        """Adds one that is higher than all."""
        self._numbers.append(position)

    def insert(self, position: int) -> None:
        """Adds one anywhere."""
        if not len(self) or position > self[-1]:
            self._numbers.append(position)
        else:
            self._numbers.insert(self._start + self.index(position), position)

    def discard(self, position: int) -> bool:
        """Takes one out; returns whether it was there."""
        found = position in self
        if found:
            del self._numbers[self._start + self.index(position)]
        return found

    def drop_before(self, position: int) -> None:
        """Forgets all that are lower."""
        self._start += self.index(position)
        if self._start > _WASTE:
            del self._numbers[: self._start]
            self._start = 0

    def drop_from(self, position: int) -> None:
        """Forgets this one and all that are higher."""
        del self._numbers[self._start + self.index(position) :]

    def after(self, position: int) -> int | None:
        """The lowest one above; None when there is none."""
        index = bisect_right(self._numbers, position, self._start)
        return self._numbers[index] if index < len(self._numbers) else None

    def before(self, position: int) -> int | None:
        """The highest one below; None when there is none."""
        index = self.index(position)
        return self[index - 1] if index else None
