"""What screens and verbs ask of whoever changes the host."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from typing import Protocol

import msgspec

from .plan import Plan
from .plan_progress import PlanEvent
from .preflight import Check
from .profile import Profile
from .run_record import Process


class LastResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a profile did when it was last launched on this host."""

    at: float
    """Seconds since the epoch."""
    sentence: str
    """As `verified after 38 s`, `failed: flags of decode refused`."""
    verified: bool


class ProfileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One profile in the list, or why it cannot be used."""

    name: str
    profile: Profile | None = None
    error: str | None = None
    last: LastResult | None = None
    running: bool = False


class Execution(Protocol):
    """A plan being carried out."""

    def events(self) -> AsyncGenerator[PlanEvent, None]:
        """Carry it out; the last event is a PlanResult. Raises HostError when the host stays away."""
        ...

    def abort(self) -> str:
        """Ask it to stop where the host is left in a consistent state; what that will be, in a sentence."""
        ...


class Operator(Protocol):
    """Changes the host. Each method that would change it raises ReadOnly where that is asked for."""

    def refusal(self) -> str | None:
        """Why nothing may be changed now (read-only, not connected, somebody else's plan); None: it may."""
        ...

    def set_readonly(self, on: bool) -> None:
        """The user's own switch. Raises ReadOnly when the command line or the settings hold it."""
        ...

    def interrupted(self) -> str | None:
        """One sentence about a plan whose console died; a restart finishes it, a stop undoes it."""
        ...

    async def refresh(self) -> None:
        """Read again what `profiles` tells of last results."""
        ...

    def profiles(self) -> tuple[ProfileEntry, ...]:
        """All profiles: the one that runs first, then by name."""
        ...

    async def switch_plan(self, profile: str) -> Plan:
        """From what runs to this profile. Raises ProfileError, HostError."""
        ...

    async def restart_plan(self) -> Plan:
        """The deployment anew. Raises NotRunning when there is none to restart, HostError."""
        ...

    async def stop_plan(self) -> Plan:
        """End what runs. Raises NotRunning when nothing does, HostError."""
        ...

    async def check(self, plan: Plan) -> tuple[Check, ...]:
        """The plan's preflight, which changes nothing. Raises HostError."""
        ...

    def execute(self, plan: Plan, consent: Collection[Process] = ()) -> Execution:
        """Begin; `consent` are the processes of others that may be ended. Raises ReadOnly."""
        ...
