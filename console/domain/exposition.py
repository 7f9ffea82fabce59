"""A page in the Prometheus text format 0.0.4: the samples in use, and what is wrong with it.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Sample(NamedTuple):
    """One series' value. Labels are a set: their order and further ones mean nothing."""

    value: float
    labels: Mapping[str, str]


class Page(NamedTuple):
    """Samples by family, and one sentence when the page was not what it should be."""

    families: Mapping[str, tuple[Sample, ...]]
    note: str | None = None

    @property
    def samples(self) -> Iterator[Sample]:
        """All samples, of whatever family."""
        return (sample for family in self.families.values() for sample in family)


def read_page(text: str, families: frozenset[str]) -> Page:
    """The samples of the named families. Never raises: the good lines are used and the rest is noted.

    Each line goes through the parser by itself, because one bad line would lose it the whole page; only the
    lines in use do, about 20 of 450, because it takes 10 µs a line.
    """
    if text.lstrip()[:1] in ("<", "{", "["):
        return Page({}, "not a metrics page")
    found: dict[str, tuple[Sample, ...]] = {}
    bad = 0
    for name, line in _lines_of(text, families):
        sample = _sample(line)
        if sample is None:
            bad += 1
        else:
            found[name] = (*found.get(name, ()), sample)
    return Page(found, _note(text, bool(found), bad))


def _lines_of(text: str, families: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Family and line. The last line counts only when it is finished: `12.0` cut short would read as 1."""
    for line in text[: text.rfind("\n") + 1].split("\n"):
        name = line.partition("{")[0].partition(" ")[0]
        if name in families:
            yield name, line


def _sample(line: str) -> Sample | None:
    # Kept out of start-up: the package brings an HTTP server.
    from prometheus_client.parser import text_string_to_metric_families

    try:
        (family,) = text_string_to_metric_families(line)
        _, labels, value, *_ = family.samples[0]
        return Sample(float(value), labels)
    # IndexError: prometheus_client 0.26 on an empty label name. OverflowError: an integer beyond any float.
    except (ValueError, IndexError, OverflowError):
        return None


def _note(text: str, found: bool, bad: int) -> str | None:
    if not text.strip():
        return "an empty page"
    said = []
    if not text.endswith("\n"):
        said.append("the page was cut short")
    if bad:
        said.append(f"{bad} {'line' if bad == 1 else 'lines'} could not be read")
    if not found:
        said.append("no metrics of SGLang on the page")
    return "; ".join(said) or None
