"""How the execution of a plan goes: events while it runs, and the result at its end."""

from __future__ import annotations

from typing import Literal

import msgspec

from .preflight import Check
from .run_record import DeploymentRecord

EventKind = Literal["began", "said", "done", "failed", "skipped"]


class StepEvent(msgspec.Struct, frozen=True, kw_only=True):
    """News of one step."""

    index: int
    """Of the step in the plan; steps of the clean-up after a failure go on counting."""
    kind: EventKind
    text: str = ""
    """`said`: how far it is, or a line of a log that matters; `done`, `failed`: what came of it."""
    seconds: float = 0.0
    """Since the step began."""
    title: str = ""
    """Of a step that the plan does not have: the clean-up's."""


class PlanResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the whole plan."""

    state: Literal["done", "failed", "aborted"]
    sentence: str
    """What happened, and what stands on the host now."""
    next: str | None = None
    """What to do."""
    checks: tuple[Check, ...] = ()
    """Of the preflight."""
    deployment: DeploymentRecord | None = None
    rollback: str | None = None
    """Name of the last verified profile, where going back to it is on offer."""
    seconds: float = 0.0
    overhead_s: float | None = None
    """Of that, what neither the engine's start nor its stop took."""


PlanEvent = StepEvent | PlanResult
