"""The runs of a deployment beside the servers that are seen: which is whose, which is down, since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from console.domain.run_record import HostRecords, RunRecord
from console.domain.server_view import ServerView

SUDO_START_S = 10.0
"""The server of a run under sudo is a child, begun so soon after the run at the latest."""


class Part(NamedTuple):
    """One run of the deployment."""

    run: RunRecord
    view: ServerView | None = None
    """Its server, as far as it is seen."""
    successor: ServerView | None = None
    """The server that somebody else started in its place."""

    @property
    def name(self) -> str:
        """As it is spoken of: `prefill`, `the router`."""
        return "the router" if self.run.role == "router" else self.run.name

    @property
    def is_dead(self) -> bool:
        """Its server has ended; processes that it left behind may live on."""
        return not self.run.alive or (self.view is not None and not self.view.is_present)

    @property
    def is_down(self) -> bool:
        """Dead, or alive and failed."""
        return self.is_dead or (self.view is not None and self.view.state == "failed")

    @property
    def is_ready(self) -> bool:
        """Alive and ready by its own measures."""
        return not self.is_dead and self.view is not None and self.view.state == "ready"

    @property
    def is_well(self) -> bool:
        """Ready, and its requests get somewhere."""
        return self.is_ready and self.view is not None and not is_ailing(self.view)

    @property
    def down_at(self) -> float | None:
        """When it went down, on the clock of its log lines; None when that was not seen."""
        return self.view.since if self.is_down and self.view is not None else None

    @property
    def started_at(self) -> float:
        """When what stands in its place now was started: seconds since the epoch on the host's clock."""
        return self.run.launched_at if self.successor is None else self.successor.process.start_time


def parts_of(records: HostRecords, views: Sequence[ServerView]) -> tuple[Part, ...]:
    """Every run of the deployment with its server, or with the one that took its place."""
    return tuple(_part(run, views) for run in records.of_deployment())


def _part(run: RunRecord, views: Sequence[ServerView]) -> Part:
    part = Part(run, next((view for view in views if _is_of(view, run)), None))
    if not part.is_dead:
        return part
    others = (view for view in views if view is not part.view and view.is_present)
    return part._replace(successor=next((view for view in others if _stands_for(view, run)), None))


def _is_of(view: ServerView, run: RunRecord) -> bool:
    if view.process.key == run.process:
        return True
    soon = 0 <= view.process.start_time - run.launched_at < SUDO_START_S
    return run.sudo and soon and _stands_for(view, run)


def _stands_for(view: ServerView, run: RunRecord) -> bool:
    return view.process.role == run.role and view.process.port in (run.port, None)


def is_ailing(view: ServerView) -> bool:
    """It answers its health check, and its requests fail or do not move."""
    return view.state == "ready" and view.phase in ("degraded", "stalled")
