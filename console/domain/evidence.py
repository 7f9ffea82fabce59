"""What is known of one server's run, and how answers of its endpoints and looks at its process change it.

What its log adds is logevidence's affair. Times are seconds on the clock of the log lines: the host's wall
clock in its own zone.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from console.domain.incident import Incident
from console.domain.server import Role
from console.domain.startup import Phase, Progress

Health = Literal["unknown", "green", "red", "refused", "silent"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one run."""

    role: Role | None = None
    log_alone: bool = False
    """A saved log: neither process nor endpoint can be asked, so the log's word stands."""
    alive: bool = True
    kernel_state: str = "S"
    exit_code: int | None = None
    log_reaches_start: bool = False
    """False while the log's beginning was not read, or there is no log: then no ready line can be asked
    for."""
    heard_at: float | None = None
    """When the log last grew."""
    begun_at: float | None = None
    has_arguments: bool = False
    """The server has told its arguments, so what tells them again is another run."""
    phase: Phase = "launching"
    phase_at: float | None = None
    progress: Progress = Progress()
    ready_line: bool = False
    ready_at: float | None = None
    ready_number: int | None = None
    served: bool = False
    """It was seen at work by a log that does not reach back to its start."""
    workers: int = 0
    workers_wanted: int | None = None
    failure: Incident | None = None
    """The first thing that ended or broke the server."""
    trouble: Incident | None = None
    """An error that the server survived, until it answers requests again."""
    failing: int = 0
    """Requests in a row that ended in a server error."""
    stop_ordered: bool = False
    stop_at: float | None = None
    draining: int | None = None
    """Requests that were left when it last said so on its way down."""
    health: Health = "unknown"
    health_note: str | None = None
    reds: int = 0
    """Answers in a row that were not green."""
    was_ready: bool = False
    pending: int = 0
    """Requests that it says it has."""
    moved_at: float | None = None
    """When a token was last made, or there was nothing to do."""

    @property
    def fatal(self) -> str | None:
        """The line that names the failure."""
        return None if self.failure is None else self.failure.said.text

    @property
    def has_started(self) -> bool:
        """By its log alone: the start-up came to its end."""
        return self.ready_line or self.served or self.was_ready

    @property
    def is_serving(self) -> bool:
        """As far as line and endpoint tell; a failure or the end of the process speaks against it."""
        if self.log_alone:
            return self.ready_line or self.served
        return self.health == "green" and (self.ready_line or not self.log_reaches_start)


def after_output(evidence: Evidence, at: float) -> Evidence:
    """The evidence after the log has grown, by whatever: it is not silent."""
    return msgspec.structs.replace(evidence, heard_at=at)


def after_health(evidence: Evidence, health: Health, note: str | None = None) -> Evidence:
    """The evidence with one more answer of the health (for routers: readiness) endpoint."""
    evidence = msgspec.structs.replace(
        evidence,
        health=health,
        health_note=note,
        reds=0 if health == "green" else evidence.reds + (health != "unknown"),
    )
    if not evidence.is_serving or evidence.failure is not None:
        return evidence
    return msgspec.structs.replace(evidence, was_ready=True)


def after_look(
    evidence: Evidence, *, alive: bool, kernel_state: str = "S", exit_code: int | None = None
) -> Evidence:
    """The evidence after another look at the process table; `exit_code` where somebody waited for it."""
    return msgspec.structs.replace(
        evidence, alive=alive and kernel_state != "Z", kernel_state=kernel_state, exit_code=exit_code
    )


def after_work(evidence: Evidence, *, pending: int | None, moving: bool, at: float) -> Evidence:
    """The evidence after a reading of its metrics: how many requests it has, and whether tokens flow."""
    if moving and evidence.role != "prefill":
        # Tokens are made, so requests are served again; a prompt that was computed proves no transfer.
        evidence = msgspec.structs.replace(evidence, trouble=None, failing=0)
    moved_at = at if moving or not pending else evidence.moved_at
    return msgspec.structs.replace(
        evidence, pending=pending or 0, moved_at=at if moved_at is None else moved_at
    )
