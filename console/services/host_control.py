"""The host as the execution of a plan needs it: a watched host, or in tests the model of one.

Every method that goes to the host raises ConnectionLost when the connection breaks, and HostRefused when the
host does not do what it was told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from console.domain.host_facts import Group, Holders
from console.domain.launch import Launch
from console.domain.plan import Plan, Target
from console.domain.preflight import Check
from console.domain.profile import Profile
from console.domain.run_record import (
    DeploymentRecord,
    HostRecords,
    PlanRecord,
    Process,
    Proof,
    RunRecord,
    Verification,
)
from console.domain.server_view import ServerView

Signal = Literal["TERM", "KILL", "CONT"]


class Refusal(msgspec.Struct, frozen=True):
    """A process that could not be signalled."""

    pid: int
    why: str


class Signalled(msgspec.Struct, frozen=True):
    """What became of a signal."""

    signalled: tuple[int, ...] = ()
    refused: tuple[Refusal, ...] = ()


class RouterStanding(msgspec.Struct, frozen=True):
    """What a router says of itself."""

    ready: bool
    workers: int = 0
    """Those that it calls healthy."""
    sentence: str = ""


class LastWords(msgspec.Struct, frozen=True):
    """Why a run has ended, by the end of its log."""

    sentence: str
    """The first cause; where none is known, the last line."""
    next: str | None = None
    """What to do about the cause."""


class HostControl(Protocol):
    """One host under the hands of one console."""

    @property
    def by(self) -> str:
        """Who acts: user@machine of the console."""
        ...

    def now(self) -> float:
        """Seconds on a monotonic clock."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch on the host's clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass; returns earlier when something about the host's servers has changed."""
        ...

    async def reconnected(self) -> None:
        """Wait until the connection is up again. Raises ConnectionLost when it stays away."""
        ...

    def records(self) -> HostRecords:
        """What is kept on the host, as last heard."""
        ...

    def servers(self) -> tuple[ServerView, ...]:
        """The servers present."""
        ...

    def view(self, run: RunRecord) -> ServerView | None:
        """How a run does; None while its process was not seen yet, or is not any more."""
        ...

    async def preflight(self, plan: Plan) -> tuple[Check, ...]:
        """What must hold before the plan touches anything."""
        ...

    async def holders(self, ports: Sequence[int]) -> Holders:
        """Who listens on these ports, and who computes on the GPUs."""
        ...

    async def look(self, targets: Sequence[Target]) -> tuple[Group, ...]:
        """The processes of each."""
        ...

    async def signal(self, targets: Sequence[Target], signal: Signal) -> Signalled:
        """Signal every process of them that is still the one meant."""
        ...

    async def lock(self, what: str) -> None:
        """Become the only one who changes the host. Raises Locked, naming who is."""
        ...

    async def unlock(self) -> None:
        """Let others."""
        ...

    async def launch(self, run: str, deployment: str, profile: str, launch: Launch) -> RunRecord:
        """Start one process as the run with this id, unless it is there."""
        ...

    async def last_words(self, run: RunRecord) -> LastWords | None:
        """What the log of a run that has ended says of why; None where it says nothing."""
        ...

    async def keep(self, record: DeploymentRecord | PlanRecord) -> None:
        """Write a record on the host."""
        ...

    async def router(self, port: int) -> RouterStanding:
        """Ask a router for its readiness and its workers."""
        ...

    async def prove(self, profile: Profile, limit_s: float) -> Proof:
        """Send a real request through the deployment."""
        ...

    async def verify(self, profile: Profile, runs: Sequence[RunRecord]) -> Verification:
        """Compare what its servers report with the profile."""
        ...


def same(server: ServerView, target: Target) -> bool:
    """Whether a server that was seen is the one that a plan ends."""
    return _identity(server) == target.server or server.process.pid in target.pids


def _identity(server: ServerView) -> Process:
    return server.process.key
