"""What the servers on a host amount to together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from console.domain.server_view import ServerView

DeploymentState = Literal["none", "starting", "roles up", "ready", "degraded", "stopping", "failed"]
"""`roles up`: every role of a pair is ready, but no request has shown that KV moves between them (only a
proof can; health checks of the roles use a fake peer). `degraded`: some server works and another does not.
`ready` is said of single servers only."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """The deployment as far as watching alone can tell."""

    profile: str | None = None
    state: DeploymentState = "none"
    verified: bool | None = None
    """None: it was not started from a profile, so there is nothing to compare with."""


def observed(views: Sequence[ServerView]) -> Deployment:
    """The deployment that these servers make."""
    return Deployment(state=_state([view for view in views if view.is_present]))


def _state(views: Sequence[ServerView]) -> DeploymentState:
    if not views:
        return "none"
    states = {view.state for view in views}
    if any(view.phase == "stopping" for view in views):
        return "stopping"
    if any(view.phase == "degraded" for view in views):
        return "degraded"
    if states == {"ready"}:
        return "roles up" if _is_pair(views) else "ready"
    if "failed" in states:
        return "failed" if states == {"failed"} else "degraded"
    return "starting"


def _is_pair(views: Sequence[ServerView]) -> bool:
    return bool({view.process.role for view in views} & {"prefill", "decode"})
