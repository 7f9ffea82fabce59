"""What the journal tells of one action, and the marks that actions leave on the chart.

Times are seconds since the epoch on the clock of the console that wrote them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

StepState = Literal["running", "done", "failed", "skipped"]
ActionState = Literal["running", "done", "failed", "aborted"]
"""`running` for ever: its console ended in the middle of it."""
MarkKind = Literal["action", "result", "bench", "note"]


class JournalStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an action."""

    index: int
    title: str
    state: StepState
    seconds: float
    text: str = ""


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One action."""

    id: str
    host: str
    """By the name under which the operator knows it."""
    verb: str
    profile: str | None = None
    by: str
    """Who began it, as user@machine of the console."""
    begun_at: float
    ended_at: float | None = None
    state: ActionState = "running"
    sentence: str = ""
    """What came of it."""
    seconds: float | None = None
    verified: bool | None = None
    """Whether it left a deployment that is proven and as its profile asks; None where it made none."""
    steps: tuple[JournalStep, ...] = ()
    commands: tuple[str, ...] = ()
    """What would have done the same by hand."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A moment worth seeing on the chart."""

    at: float
    text: str
    """A word or two, such as `switch pd-ll`, `verified`, `bench C=16`."""
    kind: MarkKind = "note"
