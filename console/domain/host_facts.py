"""What a look at the host finds for a plan: processes, holders of GPUs and ports, what is installed."""

from __future__ import annotations

from typing import Literal

import msgspec

from .run_record import Process


class ProcessFact(msgspec.Struct, frozen=True, kw_only=True):
    """One process, as /proc tells."""

    pid: int
    start_ticks: int
    name: str
    """Its title or program, such as `sglang::scheduler_TP0` or `python3 -m sglang.launch_server`."""
    state: str = "S"
    """Kernel state letter: R, S, D, T, Z."""
    user: str | None = None
    started: float | None = None
    """Seconds since the epoch on the host's clock."""
    run: str | None = None
    """Id of the run that it belongs to; None: the console did not launch it."""
    unit: str | None = None
    """The systemd unit or container that it lives in, when that may start it again."""
    waits_in: str | None = None
    """The kernel function or driver that a process in state D or R hangs in, where it may be read."""

    @property
    def process(self) -> Process:
        """Its identity."""
        return (self.pid, self.start_ticks)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of one run, or of one server that somebody else started."""

    members: tuple[ProcessFact, ...] = ()
    """Those that live; zombies are among them, with state Z, while their parent does not collect them."""
    exit_code: int | None = None

    @property
    def living(self) -> tuple[ProcessFact, ...]:
        """Those that are no zombies."""
        return tuple(member for member in self.members if member.state not in "ZX")


class PortFact(msgspec.Struct, frozen=True, kw_only=True):
    """A port on which somebody listens. TIME_WAIT is nobody."""

    port: int
    holder: ProcessFact | None = None
    """None: it belongs to a user whose processes may not be read."""


class GpuFact(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, and who computes on it."""

    index: int
    mem_used_mib: float | None = None
    mem_total_mib: float | None = None
    holders: tuple[GpuHolder, ...] = ()
    note: str | None = None
    """Why it cannot be used or read: lost, needs a reset."""


class GpuHolder(msgspec.Struct, frozen=True, kw_only=True):
    """A process with memory on a GPU."""

    process: ProcessFact
    mem_mib: float | None = None


class Holders(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the order `holders`."""

    ports: tuple[PortFact, ...] = ()
    """Those of the ports asked for on which somebody listens."""
    gpus: tuple[GpuFact, ...] = ()
    """All GPUs of the host; empty where there are none."""
    gpu_note: str | None = None
    """Why no GPU could be read."""


class PythonFact(msgspec.Struct, frozen=True, kw_only=True):
    """One Python on the host and what it has."""

    path: str
    usable: bool
    version: str | None = None
    packages: dict[str, str] = {}
    """Distribution to version: of sglang, sglang-router, nixl, torch, httpx, nvidia-ml-py, those that are
    installed."""


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the order `inspect`."""

    user: str
    state_folder: str
    """Where runs and their logs are kept."""
    paths: dict[str, Literal["folder", "file", "missing", "denied"]] = {}
    pythons: dict[str, PythonFact] = {}
    """By the path that was asked for."""
    driver: str | None = None
    mem_available_mib: float | None = None
    shm_free_mib: float | None = None
    """Of /dev/shm, through which ranks and NCCL talk."""
    disk_free_mib: dict[str, float] = {}
    """By the path that was asked for, and of the state folder."""
    sudo: str | None = None
    """Why `sudo -n` cannot be used, in its own words; None: it can, or was not asked for."""
    kills_on_logout: bool = False
    """systemd-logind ends what a login has started when the login ends (KillUserProcesses=yes)."""
    inherited: tuple[str, ...] = ()
    """Variables of the login's environment that would tune a server (NCCL_…, SGLANG_…); launches leave them
    out."""


class FlagCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What the parser of the host's own SGLang says to one command line."""

    refused: str | None = None
    """Its own words."""
    warnings: tuple[str, ...] = ()


class FlagChecks(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the order `check_flags`."""

    lines: tuple[FlagCheck, ...] = ()
    """In the order of the question; empty when nothing could be parsed."""
    cached: bool = False
    seconds: float = 0.0
    note: str | None = None
    """Why nothing could be parsed."""
