"""One kind of power reading for all GPUs of a report.

The one-second average and the instant value differ by hundreds of watts when the load changes, so a table
that mixes them compares nothing.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .gpu_source import Row


class Power(NamedTuple):
    """Watts of one GPU, in order of preference. `plain` is a value that does not say what it is."""

    average: float | None = None
    instant: float | None = None
    plain: float | None = None


KIND = {"average": "average", "instant": "instant", "plain": None}


def common_kind(readings: Sequence[Power]) -> str | None:
    """The best kind that every GPU with any power reading has; failing that, the best that one has."""
    speaking = [reading for reading in readings if any(value is not None for value in reading)]
    for enough in (all, any):
        for kind in Power._fields:
            if speaking and enough(getattr(reading, kind) is not None for reading in speaking):
                return kind
    return None


def fill(rows: Sequence[Row], readings: Sequence[Power]) -> None:
    """Set `power_w` and `power_kind`, leaving out the GPUs that do not have the common kind."""
    kind = common_kind(readings)
    if kind is None:
        return
    for row, reading in zip(rows, readings):
        row["power_w"] = getattr(reading, kind)
        row["power_kind"] = KIND[kind] if row["power_w"] is not None else None
