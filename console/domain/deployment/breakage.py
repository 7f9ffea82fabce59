"""How a deployment broke, in one sentence: who went first, how and when, and what followed from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from .parts import Part

SIGKILL = (137, -9)


def in_order(down: Sequence[Part]) -> list[Part]:
    """Those that are down, the cause first.

    By time where every time is known; else one that ended comes before one that only fails its health check.
    """
    known = all(part.down_at is not None for part in down)
    return sorted(down, key=lambda part: (not known and not part.is_dead, _time(part)))


def how_it_broke(down: Sequence[Part]) -> str:
    """`prefill died (exit 137) at 12:00:00; decode unhealthy as a consequence`; `down` is in order."""
    first, *others = down
    return "; ".join([_first(first), *map(_other, others)])


def clock(epoch: float) -> str:
    """`12:00:00`."""
    return f"{datetime.fromtimestamp(epoch, UTC):%H:%M:%S}"


def _time(part: Part) -> float:
    return math.inf if part.down_at is None else part.down_at


def _first(part: Part) -> str:
    reason = part.view.reason if part.view is not None else None
    if not part.is_dead:
        return f"{part.name} failed{_at(part)}: {(reason or 'no reason seen').rstrip('.')}"
    because = f": {reason.rstrip('.')}" if reason and part.run.exit_code not in SIGKILL else ""
    return f"{_ended(part)}{_at(part)}{because}"


def _other(part: Part) -> str:
    return f"{_ended(part)}{_at(part)}" if part.is_dead else f"{part.name} unhealthy as a consequence"


def _ended(part: Part) -> str:
    code = part.run.exit_code
    if code is None:
        return f"{part.name} died"
    how = f"signal {-code}" if code < 0 else f"exit {code}"
    return f"{part.name} {'died' if code else 'ended'} ({how})"


def _at(part: Part) -> str:
    return "" if part.down_at is None else f" at {clock(part.down_at)}"
