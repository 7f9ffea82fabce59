"""Metrics and their page in the Prometheus text format 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

Labels = tuple[tuple[str, str], ...]


class Series:
    """A counter or a gauge: one value for each set of labels."""

    def __init__(self, kind: str, name: str, help_text: str | None = None) -> None:
        self.kind, self.name, self.help = kind, name, help_text
        self._values: dict[Labels, float] = {}

    def set(self, value: float, *labels: tuple[str, str]) -> None:
        """Set a gauge."""
        self._values[labels] = value

    def add(self, value: float, *labels: tuple[str, str]) -> None:
        """Count. Counting 0 makes the series visible."""
        self._values[labels] = self._values.get(labels, 0.0) + value

    def value(self, *labels: tuple[str, str]) -> float:
        """The value; 0 before anything was counted."""
        return self._values.get(labels, 0.0)

    def samples(self, common: Labels) -> Iterator[str]:
        """The lines of the page."""
        for labels, value in self._values.items():
            yield f"{self.name}{_braces(common + labels)} {_number(value)}"


class Histogram:
    """Counts of observations by upper bound, one set of them for each set of labels."""

    kind = "histogram"

    def __init__(self, name: str, bounds: Sequence[float], help_text: str | None = None) -> None:
        self.name, self.help = name, help_text
        self._bounds = [*map(float, bounds), math.inf]
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: tuple[str, str]) -> None:
        """Count one observation."""
        counts = self._counts.setdefault(labels, [0] * len(self._bounds))
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def samples(self, common: Labels) -> Iterator[str]:
        """The lines of the page; buckets are cumulative."""
        for labels, counts in self._counts.items():
            name, own = self.name, common + labels
            yield f"{name}_sum{_braces(own)} {_number(self._sums[labels])}"
            running = 0
            for bound, count in zip(self._bounds, counts, strict=True):
                running += count
                yield f"{name}_bucket{_braces((*own, ('le', _number(bound))))} {_number(running)}"
            yield f"{name}_count{_braces(own)} {_number(running)}"


Metric = Series | Histogram


def page(metrics: Sequence[Metric], common: Labels = ()) -> str:
    """The page of all metrics that have a value, with the common labels on each."""
    lines: list[str] = []
    for metric in metrics:
        samples = list(metric.samples(common))
        if samples:
            if metric.help is not None:
                lines.append(f"# HELP {metric.name} {metric.help}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            lines += samples
    return "\n".join(lines) + "\n"


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))
