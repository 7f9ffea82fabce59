"""Everything that a deployment with records is judged by."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from console.domain.gpu import GpuReport
from console.domain.run_record import DeploymentRecord, HostRecords
from console.domain.server_view import ServerView

from .breakage import clock
from .parts import Part
from .state import Deployment, DeploymentState, since_when, unlaunched

RESTART_PAIR = "restart the pair (R)"


class Seen(NamedTuple):
    """Everything that a rule judges by."""

    record: DeploymentRecord
    records: HostRecords
    parts: tuple[Part, ...]
    views: tuple[ServerView, ...]
    report: GpuReport
    zone_s: float
    """The host's zone, in seconds east of UTC."""

    @property
    def servers(self) -> list[Part]:
        """Its parts but the router."""
        return [part for part in self.parts if part.run.role != "router"]

    def without_it(self) -> Deployment:
        """What the servers amount to that are no part of it; a run that crashed is seen for long after."""
        parts = [part.view for part in self.parts]
        return unlaunched([view for view in self.views if view not in parts], self.zone_s)

    @property
    def is_pair(self) -> bool:
        """Whether KV must move between its servers."""
        return self.record.profile.kind == "pd"

    @property
    def restart(self) -> str:
        """The advice to launch it anew."""
        return RESTART_PAIR if self.is_pair else "restart it (R)"

    def called(
        self,
        state: DeploymentState,
        sentence: str | None = None,
        *,
        next: str | None = None,
        since: float | None = None,
    ) -> Deployment:
        """A state of this deployment."""
        name = self.record.profile.name
        return Deployment(profile=name, state=state, sentence=sentence, next=next, since=since)

    def going_on(
        self,
        state: DeploymentState,
        sentence: str | None = None,
        *,
        next: str | None = None,
        since: float | None = None,
    ) -> Deployment:
        """The same where the runs are those that were proven and verified, if they were."""
        proof, verification = self.record.proof, self.record.verification
        return msgspec.structs.replace(
            self.called(state, sentence, next=next, since=since),
            verified=None if verification is None else verification.verified,
            proven_at=proof.at if proof is not None and proof.passed else None,
        )

    def settled(
        self, state: DeploymentState, sentence: str | None = None, *, next: str | None = None
    ) -> Deployment:
        """The same since the last of its servers became ready."""
        views = [part.view or part.successor for part in self.parts]
        known = [view for view in views if view is not None]
        return self.going_on(state, sentence, next=next, since=since_when(known, self.zone_s))

    def epoch(self, log_time: float | None) -> float | None:
        """A time of the log clock, which runs in the host's zone."""
        return None if log_time is None else log_time - self.zone_s

    def shown(self, epoch: float) -> str:
        """A time of day in the host's zone."""
        return clock(epoch + self.zone_s)
