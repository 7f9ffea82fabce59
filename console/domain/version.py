"""Versions of SGLang, and ranges of them as a profile's `requires` writes them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import NamedTuple

Version = tuple[int, ...]
"""(0, 5, 15) for 0.5.15 and (0, 5, 15, 1) for 0.5.15.post1, so that tuples compare as versions do."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:\.post(\d+))?(?![\d])")
_BOUND = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(\d+\.\d+\.\d+(?:\.post\d+)?)\s*")
_OPERATORS: dict[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


class Bound(NamedTuple):
    """One side of a range, such as `>=0.5.12`."""

    operator: str
    version: Version

    def admits(self, version: Version) -> bool:
        """A post-release counts as the release unless the bound names one."""
        return _OPERATORS[self.operator](version[: len(self.version)], self.version)


def parse_version(text: str | None) -> Version | None:
    """The version that `text` begins with; pre-release and local parts (rc1, +cu130) are not looked at.

    None for what is no version, and for 0.0.0, as a build from a checkout without tags calls itself.
    """
    found = _VERSION.match(text or "")
    if found is None:
        return None
    version = tuple(int(part) for part in found.groups() if part is not None)
    return version if any(version) else None


def parse_range(text: str) -> tuple[Bound, ...]:
    """The bounds in `>=0.5.12,<0.5.24`; none in an empty text. Raises ValueError."""
    return tuple(_bound(part) for part in text.split(",")) if text.strip() else ()


def allows(requires: str, version: str | None) -> bool | None:
    """Does the range hold this version? None when the version is not known."""
    parsed = parse_version(version)
    return None if parsed is None else all(bound.admits(parsed) for bound in parse_range(requires))


def _bound(text: str) -> Bound:
    found = _BOUND.fullmatch(text)
    version = parse_version(found[2]) if found else None
    if found is None or version is None:
        raise ValueError(f"expected versions such as >=0.5.12,<0.5.24, not {text.strip()!r}")
    return Bound(found[1], version)
