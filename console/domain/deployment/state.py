"""The states of a deployment, and how it is seen where nothing is known of its launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from console.domain.server_view import ServerView

from .parts import is_ailing

DeploymentState = Literal["none", "starting", "roles up", "ready", "degraded", "broken", "stopping", "failed"]
"""`roles up`: every role of a pair is ready, but no request has shown that KV moves between them (only a
proof can; health checks of the roles use a fake peer). `degraded`: it serves, and something about it does
not. `broken`: it cannot serve, and must be launched anew as a whole. Without records of a launch nothing is
called `broken`, and `ready` is said of single servers only."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """The deployment at one instant. Times are seconds since the epoch on the host's clock."""

    profile: str | None = None
    """None: it was not launched from a profile."""
    state: DeploymentState = "none"
    verified: bool | None = None
    """Whether its settings are what the profile asks for; None: they were not compared."""
    sentence: str | None = None
    """Why it is not ready, where there is more to say than the state does."""
    next: str | None = None
    """What to do about it."""
    since: float | None = None
    """Since when it is in this state, as far as that is known."""
    proven_at: float | None = None
    """When a real request last went all the way through what runs now."""


NO_DEPLOYMENT = Deployment()


def unlaunched(views: Sequence[ServerView], zone_s: float) -> Deployment:
    """The deployment that these servers make, by what can be seen of them alone."""
    present = [view for view in views if view.is_present]
    state = _state(present)
    settled = state in ("ready", "roles up")
    return Deployment(state=state, since=since_when(present, zone_s) if settled else None)


def since_when(views: Sequence[ServerView], zone_s: float) -> float | None:
    """When the last of them became what it is."""
    known = [view.since for view in views if view.since is not None]
    return max(known) - zone_s if known and len(known) == len(views) else None


def _state(views: Sequence[ServerView]) -> DeploymentState:
    if not views:
        return "none"
    states = {view.state for view in views}
    if any(view.phase == "stopping" for view in views):
        return "stopping"
    if any(is_ailing(view) for view in views):
        return "degraded"
    if states == {"ready"}:
        return "roles up" if _is_pair(views) else "ready"
    if "failed" in states:
        return "failed" if states == {"failed"} else "degraded"
    return "starting"


def _is_pair(views: Sequence[ServerView]) -> bool:
    return any(view.process.role in ("prefill", "decode") for view in views)
