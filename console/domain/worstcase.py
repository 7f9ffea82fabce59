"""How slow a regular expression can get: what it must not hold, and the lines on which it is slowest.

Python's matcher goes back over every choice that it made. A repeated group that holds a choice itself
(`(a+)+`, `(a|b)*`) can take exponential time and is told by its looks; the rest takes time that grows with a
power of the line's length, and lines made from the expression show it.
"""

from __future__ import annotations

import re
import string
from typing import NamedTuple

REPEATS_LIMIT = 6
"""So many `*` and `+` may stand in an expression: the power that time grows with is at most one more."""

_TOKEN = re.compile(
    r"(?P<atom>\\.|\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<flags>\(\?[aiLmsux]+\))"
    r"|(?P<open>\((?:\?(?:P<\w+>|[:>=!]|<[=!]|[aiLmsux-]+:))?)"
    r"|(?P<close>\))"
    r"|(?P<either>\|)"
    r"|(?P<repeat>(?:[*+?]|\{\d*(?:,\d*)?\})[+?]?)"
    r"|(?P<char>.)",
    re.DOTALL,
)
_UNBOUNDED = re.compile(r"[*+]|\{\d*,\}")
_ONCE = ("?", "??", "?+")
_NO_MATCH = "\u00ac"


class Shape(NamedTuple):
    """What the text of an expression tells of its cost."""

    nested: bool
    """Something repeated holds a choice of its own."""
    pumps: tuple[tuple[str, str], ...]
    """For each unbounded repeat: text that leads up to it, and what it repeats."""

    def worst_lines(self, length: int) -> list[str]:
        """Lines of about this length that match up to a repeat, feed it, and then fail."""
        return [
            lead + pump * max(1, (length - len(lead)) // len(pump)) + _NO_MATCH for lead, pump in self.pumps
        ]


class _Group:
    def __init__(self) -> None:
        self.sample = ""
        self.last = ""
        self.last_chooses = False
        self.chooses = False
        self.closed = False
        """The samples are those of the first branch."""

    def add(self, sample: str, *, chooses: bool = False) -> None:
        """The next atom or group."""
        if not self.closed:
            self.sample += self.last
            self.last = sample
        self.last_chooses = chooses
        self.chooses |= chooses


def shape_of(pattern: str) -> Shape:
    """The shape of a valid expression."""
    groups, nested, pumps = [_Group()], False, []
    for token in _TOKEN.finditer(pattern):
        group = groups[-1]
        match token.lastgroup:
            case "open":
                groups.append(_Group())
            case "close" if len(groups) > 1:
                groups.pop()
                groups[-1].add(group.sample + group.last, chooses=group.chooses)
            case "either":
                group.chooses = group.closed = True
            case "repeat":
                nested |= group.last_chooses and token[0] not in _ONCE
                if _UNBOUNDED.match(token[0]) and group.last:
                    lead = "".join(outer.sample + outer.last for outer in groups[:-1]) + group.sample
                    pumps.append((lead, group.last))
                group.last_chooses = group.chooses = True
            case "atom" | "char":
                group.add(_example(token[0]))
    return Shape(nested, tuple(pumps))


def _example(atom: str) -> str:
    """A character that the atom matches; none for one without width."""
    try:
        return next((char for char in string.printable if re.fullmatch(atom, char)), "")
    except re.error:
        return ""
