"""What goes wrong now and then: a failed transfer, a request that is too long, things that only look bad.

Like the load it is a function of the wall clock alone, so both roles log the same incident.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal, NamedTuple

SLOT_S = 30
"""At most one incident in each."""

Kind = Literal["transfer failed", "too long", "client left", "old endpoint"]

_CHANCES: tuple[tuple[Kind, float], ...] = (
    ("transfer failed", 0.07),
    ("too long", 0.08),
    ("client left", 0.22),
    ("old endpoint", 0.12),
)


class Incident(NamedTuple):
    """One thing that happens; `number` names its request."""

    kind: Kind
    number: int

    @property
    def rid(self) -> str:
        """The request's id."""
        return f"{random.Random(self.number).getrandbits(128):032x}"


def incidents_between(start: float, end: float) -> Iterator[Incident]:
    """What happens after `start`, up to `end`; seconds since the epoch."""
    for slot in range(int(start // SLOT_S), int(end // SLOT_S) + 1):
        chance = random.Random(slot)
        at, lot = (slot + chance.random()) * SLOT_S, chance.random()
        if start < at <= end and (kind := _drawn(lot)):
            yield Incident(kind, chance.getrandbits(62))


def _drawn(lot: float) -> Kind | None:
    for kind, share in _CHANCES:
        if lot < share:
            return kind
        lot -= share
    return None
