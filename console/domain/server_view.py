"""A server as the operator wants to see it: the process, and what is known of its state and load."""

from __future__ import annotations

from typing import Literal

import msgspec

from .run_state import RunState
from .server import ServerProcess

ServerState = Literal["starting", "ready", "failed", "gone"]

SHOWN_AS: dict[RunState, ServerState] = {
    "unknown": "starting",
    "launching": "starting",
    "loading": "starting",
    "capturing graphs": "starting",
    "warming up": "starting",
    "stalled": "starting",
    "ready": "ready",
    "degraded": "ready",
    "failed": "failed",
    "crashed": "failed",
    "stopping": "gone",
    "gone": "gone",
}
"""The sign of each state; the reason beside it says the rest."""


class ServerView(msgspec.Struct, frozen=True, kw_only=True):
    """One server or router at one instant; None is what is not known."""

    process: ServerProcess
    state: ServerState
    phase: RunState | None = None
    """The state in full, of which `state` is the sign."""
    reason: str | None = None
    """One sentence: what it is doing while it starts, why it failed, how it went."""
    since: float | None = None
    """When the phase began: seconds on the host's wall clock in its own zone, the clock of its log lines."""
    next: str | None = None
    """What to do about a failure."""
    running: int | None = None
    queued: int | None = None
    kv_pct: float | None = None
    """Share of the KV cache in use."""
    gen_tok_s: float | None = None
    prompt_tok_s: float | None = None
    metrics_note: str | None = None
    """Why there are no metrics, when there are none."""
    health_note: str | None = None
    """What the health endpoint says, when it is not plainly well."""
    workers: str | None = None
    """A router's workers, prefill + decode, such as `1+1`."""
    open_breakers: int | None = None
    """A router's workers whose circuit breaker is open or half open."""
    log_note: str | None = None
    """Why its log cannot be followed, or what is odd about it."""

    @property
    def is_present(self) -> bool:
        """Whether its process is still there; one that is stopping is."""
        return (self.phase or self.state) != "gone"
