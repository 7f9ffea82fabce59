"""Who holds ports and GPUs: the answer to the order `holders`, as console.domain.host_facts.Holders."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Iterator, Sequence

from . import processfacts, sockets
from .gpus import STALLED_S

Fact = Dict[str, Any]
VANISHED = "gone from /proc"


def holders(proc: str, ports: Sequence[int], report: dict[str, Any]) -> dict[str, Any]:
    """Who listens on these ports, and who has memory on any GPU by a report of the sampler's."""
    rows = report["gpus"]
    return {
        "ports": port_facts(proc, set(ports)),
        "gpus": [gpu_fact(proc, row) for row in rows],
        "gpu_note": report["reason"] if not rows or report["age_s"] >= STALLED_S else None,
    }


def processes_in(found: dict[str, Any]) -> Iterator[Fact]:
    """Every process in an answer."""
    yield from (port["holder"] for port in found["ports"] if port["holder"])
    yield from (holder["process"] for gpu in found["gpus"] for holder in gpu["holders"])


def port_facts(proc: str, ports: set[int]) -> list[dict[str, Any]]:
    """One for each of the ports that is listened on, whatever the address, ascending."""
    listening: dict[bytes, int] = {}
    for table in ("tcp", "tcp6"):
        listening.update(
            (inode, port) for inode, port in sockets.listeners(f"{proc}/net/{table}") if port in ports
        )
    owners: dict[int, list[Fact]] = {port: [] for port in listening.values()}
    for port, pid in owners_of(proc, listening):
        found = processfacts.fact(proc, pid)
        if found is not None:
            owners[port].append(found)
    return [{"port": port, "holder": eldest(owners[port])} for port in sorted(owners)]


def owners_of(proc: str, listening: dict[bytes, int]) -> Iterator[tuple[int, int]]:
    """(port, pid) of every process that has one of the sockets open, in one pass over all processes."""
    for name in os.listdir(proc) if listening else ():
        if name.isdigit():
            own = sockets.socket_inodes(proc, int(name)) or set()
            for port in {listening[inode] for inode in own & listening.keys()}:
                yield port, int(name)


def eldest(facts: Iterable[Fact]) -> Fact | None:
    """The process that opened the socket: others who have it too inherited it."""
    return min(facts, key=lambda fact: (fact["start_ticks"], fact["pid"]), default=None)


def gpu_fact(proc: str, row: dict[str, Any]) -> dict[str, Any]:
    """One GPU of the report, and its processes."""
    sick = row["state"] != "ok"
    return {
        "index": row["index"],
        "mem_used_mib": row["mem_used_mib"],
        "mem_total_mib": row["mem_total_mib"],
        "holders": [
            {"process": gpu_process(proc, process), "mem_mib": process["mem_mib"]}
            for process in row["processes"] or ()
        ],
        "note": (row["note"] or row["state"]) if sick else None,
    }


def gpu_process(proc: str, process: dict[str, Any]) -> Fact:
    """A process that the driver names. One that only the driver still knows holds its memory all the same."""
    pid = process["pid"]
    vanished = {"pid": pid, "start_ticks": 0, "name": VANISHED, "state": "X"}
    return processfacts.fact(proc, pid) or vanished
