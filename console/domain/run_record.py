"""What the console keeps on a host of what it did there: runs, deployment, plan under way, lock.

The agent writes these as JSON into its state folder (see console/agent/__init__.py); any console on the same
host reads them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .profile import Profile
from .server import Role

Process = tuple[int, int]
"""(pid, start_ticks): a process within one boot."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One launch of one server process, as its run.json and a look at /proc tell."""

    id: str
    deployment: str
    """Id of the deployment that it is part of."""
    profile: str
    name: str
    """The server's name in the profile, or `router`."""
    role: Role
    pid: int
    start_ticks: int
    boot_id: str | None = None
    launched_at: float
    """Seconds since the epoch on the host's clock."""
    by: str
    """Who launched it, as user@machine of the console."""
    argv: tuple[str, ...]
    environment: dict[str, str] = {}
    """What it was given beside the host's own."""
    gpus: tuple[int, ...] = ()
    port: int
    ports: tuple[int, ...] = ()
    """Every port that it listens on."""
    log: str
    """Path of its log on the host."""
    sudo: bool = False
    alive: bool = True
    """Whether any process of it lives; a zombie does not."""
    exit_code: int | None = None
    """Of its first process, where an agent was there to see it; negative: the signal that ended it."""

    @property
    def process(self) -> Process:
        """The identity of its first process."""
        return (self.pid, self.start_ticks)


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """A real request with a nonce that went all the way, or did not."""

    passed: bool
    at: float
    """Seconds since the epoch on the host's clock."""
    seconds: float | None = None
    """From the request to its last token."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    sentence: str
    """What was seen, or what failed and how far it came."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that is not what the profile asks for."""

    server: str
    """The server's name in the profile."""
    setting: str
    """`flag --page-size`, `environment NCCL_PROTO`, `log "…"`, `graphs`."""
    wanted: str
    actual: str | None
    """None: it does not say."""
    kind: Literal["rewritten", "ignored", "missing", "unknown"]
    """`rewritten`: SGLang chose another value; `ignored`: it has the flag and never reads it; `missing`: what
    must be there is not; `unknown`: it could not be asked."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of running servers against the profile."""

    at: float
    differences: tuple[Difference, ...] = ()
    checked: int = 0
    """Settings that were compared."""

    @property
    def verified(self) -> bool:
        """Everything asked for was found; a flag that is dead in that version does not speak against it."""
        return self.checked > 0 and all(each.kind == "ignored" for each in self.differences)


DeploymentStage = Literal["starting", "up", "broken", "stopping", "stopped", "failed"]


class DeploymentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The deployment that stands on the host, or stood there last."""

    id: str
    profile: Profile
    """As it was when the deployment was launched: a restart needs no file."""
    runs: tuple[str, ...] = ()
    """Ids of its runs; the router's last."""
    by: str
    begun_at: float
    stage: DeploymentStage = "starting"
    note: str | None = None
    """One sentence to the stage, such as why it failed."""
    proof: Proof | None = None
    verification: Verification | None = None


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A plan under way, or the last one."""

    id: str
    verb: Literal["switch", "restart", "stop", "resume"]
    profile: str | None = None
    """What it leads to; None for a stop."""
    by: str
    begun_at: float
    steps: tuple[str, ...]
    """Titles, in order."""
    step: int = 0
    """Index of the step under way, or of the one that it ended at."""
    state: Literal["running", "done", "failed", "aborted"] = "running"
    note: str | None = None


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who may change the host now."""

    by: str
    what: str
    """As `switch to pd-ll`."""
    since: float
    pid: int
    """Of the agent that holds it: the lock ends with it."""


class HostRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of it, whenever something changes."""

    runs: tuple[RunRecord, ...] = ()
    """The runs of this boot that live, and those of the deployment."""
    deployment: DeploymentRecord | None = None
    plan: PlanRecord | None = None
    lock: LockHolder | None = None
    note: str | None = None
    """One sentence when the state folder cannot be used."""

    def of_deployment(self) -> tuple[RunRecord, ...]:
        """The runs of the deployment, in its order."""
        if self.deployment is None:
            return ()
        by_id = {run.id: run for run in self.runs}
        return tuple(by_id[run] for run in self.deployment.runs if run in by_id)

    @property
    def interrupted(self) -> bool:
        """A plan is under way and nobody holds the lock: its console has died."""
        return self.plan is not None and self.plan.state == "running" and self.lock is None
