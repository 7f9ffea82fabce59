"""Changes to a host from the command line: who acts, which profiles there are, where it is written down."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import platformdirs

from console.domain.errors import ConnectionLost
from console.domain.preflight.check import warning
from console.profiles import Folders, Profiles, for_host, load_profiles
from console.settings import shipped_folder

if TYPE_CHECKING:
    from console.cli.target import Target, TargetWatch
    from console.domain.bench.ab import Experiment
    from console.domain.operating import Execution, ProfileEntry
    from console.domain.plan import Plan
    from console.domain.preflight import Check
    from console.domain.run_record import Process
    from console.services.benchmark import BenchmarkRun
    from console.services.operating import HostOperator

NOT_YET = "the host is not connected yet"
MEASURING = warning(
    "benchmark", "this console measures what runs now, and would be cut off", "wait for its end, or abort it"
)


def profile_folders() -> Folders:
    """Where profiles are: the shipped ones, and the user's beside config.toml."""
    return Folders(shipped_folder("profiles"), platformdirs.user_config_path("dsv4-console") / "profiles")


def who() -> str:
    """user@machine, as other consoles are told."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


class TargetOperator:
    """See Operator. What it needs is imported when the watch has begun, so that a screen is there before."""

    def __init__(self, target: Target, watch: TargetWatch) -> None:
        self._target = target
        self._watch = watch
        self._operator: HostOperator | None = None
        self._measurement: BenchmarkRun | None = None

    def refusal(self) -> str | None:
        """See Operator."""
        if self._target.readonly_because is not None:
            return f"read-only: {self._target.readonly_because}"
        return NOT_YET if self._watch.begun is None else self._made().refusal()

    def set_readonly(self, on: bool) -> None:
        """See Operator."""
        self._made().set_readonly(on)

    def profiles(self) -> tuple[ProfileEntry, ...]:
        """See Operator."""
        return self._made().profiles()

    async def refresh(self) -> None:
        """Read again how the profiles did last."""
        await self._made().refresh()

    def interrupted(self) -> str | None:
        """See Operator."""
        return None if self._watch.begun is None else self._made().interrupted()

    async def switch_plan(self, profile: str) -> Plan:
        """See Operator."""
        return await self._made().switch_plan(profile)

    async def restart_plan(self) -> Plan:
        """See Operator."""
        return await self._made().restart_plan()

    async def stop_plan(self) -> Plan:
        """See Operator."""
        return await self._made().stop_plan()

    async def check(self, plan: Plan) -> tuple[Check, ...]:
        """See Operator. A benchmark of this console stands in no plan's way, but should not be forgotten."""
        checks = await self._made().check(plan)
        return (*checks, *([MEASURING] if self._measurement and self._measurement.under_way else ()))

    def measures(self, run: BenchmarkRun) -> None:
        """This console measures the host."""
        self._measurement = run

    async def note_refusal(self, plan: Plan, checks: Sequence[Check]) -> None:
        """See HostOperator."""
        await self._made().note_refusal(plan, checks)

    def recorded(self, experiment: Experiment) -> Experiment:
        """See HostOperator."""
        return self._made().recorded(experiment)

    def execute(self, plan: Plan, consent: Collection[Process] = ()) -> Execution:
        """See Operator."""
        return self._made().execute(plan, consent)

    def _made(self) -> HostOperator:
        if self._watch.begun is None:
            raise ConnectionLost(NOT_YET)
        if self._operator is None:
            from console.services.journal import Journal
            from console.services.operating import HostOperator

            self._operator = HostOperator(
                self._watch.begun,
                host=self._target.name,
                by=who(),
                python=self._target.host.python,
                profiles=self._profiles,
                journal=Journal(),
                readonly=self._target.readonly_because,
            )
        return self._operator

    def _profiles(self) -> Profiles:
        return for_host(load_profiles(profile_folders()), self._target.demo)
