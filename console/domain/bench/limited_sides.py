"""What can be said of two sides where the client may have been the limit of one.

A client that comes late hears the end of an answer late, and sends the next request late: it takes tokens per
second away, and adds none. So where it may have limited one side only, and this side has the more tokens per
second all the same, it is the faster one, by at least what was measured. That is all that can be said then:
nothing of latencies, nor of a side that was offered fewer requests than were asked for, which spares a
server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from .result import BenchResult

Name = Literal["A", "B"]
Results = Sequence[BenchResult]


def limited_sides(a: Results, b: Results) -> tuple[Name, ...]:
    """Of which the client may have been the limit, in one of its runs or more."""
    sides: tuple[tuple[Name, Results], ...] = (("A", a), ("B", b))
    return tuple(name for name, side in sides if any(each.client.limited for each in side))


def faster_though_limited(a: Results, b: Results) -> Name | None:
    """The one side that was limited, where each of its runs has more tokens per second than the other's."""
    limited = limited_sides(a, b)
    if len(limited) != 1 or any(each.client.offered_less for each in (*a, *b)):
        return None
    (name,) = limited
    faster, slower = (a, b) if name == "A" else (b, a)
    ahead = min(map(_throughput, faster)) > max(map(_throughput, slower))
    return name if ahead else None


def client_obstacles(a: Results, b: Results) -> Iterator[str]:
    """One sentence for each run that the client may have limited; none where the faster side is so anyway."""
    if faster_though_limited(a, b) is None:
        for name, side in (("A", a), ("B", b)):
            for each in side:
                if each.client.limited:
                    yield f"the client may have been the limit of {name}: {each.client.limited}"


def limit_notes(a: Results, b: Results) -> Iterator[str]:
    """What to say beside a comparison of them."""
    if (name := faster_though_limited(a, b)) is not None:
        limit = f"the client may have been the limit of {name}"
        yield f"{limit}, which may be faster still; of latencies there is no verdict"


def _throughput(result: BenchResult) -> float:
    return result.figures.output_throughput
