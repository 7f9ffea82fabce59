"""Which server each GPU works for: what its processes say first, what a command line asked for second.

CUDA may number devices in another order than the driver (CUDA_DEVICE_ORDER), so the GPUs on a command line
are only a plan; a process that holds memory on a card is a fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from .gpu import GpuProcess, GpuReport, GpuSample
from .server import ServerProcess

OwnerRole = Literal["single", "prefill", "decode", "router", "other", "free", "unknown"]
"""`other`: held by something that is not SGLang. `unknown`: the processes could not be read."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a GPU works for."""

    role: OwnerRole
    planned: bool = False
    """Asked for on the server's command line; no process of it was seen on the card."""
    pid: int | None = None
    """The server's, or the foreign process's that holds most memory."""
    port: int | None = None
    foreign: tuple[str, ...] = ()
    """Names of processes on the card that belong to no server, the largest first."""


class Misplaced(msgspec.Struct, frozen=True, kw_only=True):
    """A server that works on other GPUs than its command line seems to say."""

    server: ServerProcess
    asked: tuple[int, ...]
    held: tuple[int, ...]


FREE = Owner(role="free")
UNKNOWN = Owner(role="unknown")


def gpu_owners(report: GpuReport, servers: Sequence[ServerProcess]) -> dict[int, Owner]:
    """The owner of each GPU of the report, by index."""
    by_pid = {server.pid: server for server in servers}
    plans = _plans(report, servers)
    return {gpu.index: _owner(gpu, by_pid, plans.get(gpu.index)) for gpu in report.gpus}


def misplaced(report: GpuReport, servers: Iterable[ServerProcess]) -> list[Misplaced]:
    """Servers whose processes sit on a GPU that their command line does not name."""
    found = []
    for server in servers:
        held = held_gpus(report, server)
        if server.gpus is not None and not set(held) <= set(server.gpus):
            found.append(Misplaced(server=server, asked=server.gpus, held=held))
    return found


def held_gpus(report: GpuReport, server: ServerProcess) -> tuple[int, ...]:
    """Indices of the GPUs on which a process of the server was seen, ascending."""
    return tuple(
        sorted(
            gpu.index
            for gpu in report.gpus
            if any(process.server_pid == server.pid for process in gpu.processes or ())
        )
    )


def _plans(report: GpuReport, servers: Iterable[ServerProcess]) -> dict[int, ServerProcess]:
    plans: dict[int, ServerProcess] = {}
    for server in servers:
        asked = server.gpus or ()
        # One card outside the plan proves that its numbers mean something else.
        if set(held_gpus(report, server)) <= set(asked):
            plans |= {index: server for index in asked if index not in plans}
    return plans


def _owner(gpu: GpuSample, by_pid: Mapping[int, ServerProcess], plan: ServerProcess | None) -> Owner:
    if gpu.processes is None:
        return UNKNOWN if plan is None else _of_server(plan, planned=True)
    processes = sorted(gpu.processes, key=lambda process: process.mem_mib or 0.0, reverse=True)
    foreign = tuple(_name(process) for process in processes if process.server_pid is None)
    for process in processes:
        if process.server_pid is not None:
            server = by_pid.get(process.server_pid)
            # Found on the card before the server itself was found in /proc.
            unseen = Owner(role="unknown", pid=process.server_pid, foreign=foreign)
            return unseen if server is None else _of_server(server, foreign=foreign)
    if processes:
        return Owner(role="other", pid=processes[0].pid, foreign=foreign)
    return FREE if plan is None else _of_server(plan, planned=True)


def _of_server(server: ServerProcess, *, planned: bool = False, foreign: tuple[str, ...] = ()) -> Owner:
    return Owner(role=server.role, planned=planned, pid=server.pid, port=server.port, foreign=foreign)


def _name(process: GpuProcess) -> str:
    return process.name or f"pid {process.pid}"
