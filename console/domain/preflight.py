"""What must hold on the host before a plan touches anything, judged from facts. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["ok", "warning", "refused"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at."""

    subject: str
    """As `model`, `python`, `flags of decode`, `GPU 4`, `port 30000`, `memory`."""
    outcome: Outcome
    sentence: str
    """What was found; for `refused` also why it must not be."""
    next: str | None = None
    """What to do about it."""


def refused(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """Those that forbid the plan."""
    return tuple(check for check in checks if check.outcome == "refused")
