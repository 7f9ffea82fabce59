"""Who holds ports and GPUs: the answer to the order `holders`, as console.domain.host_facts.Holders."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Iterator, Mapping, Sequence

from . import processfacts, sockets
from .gpus import STALLED_S

Fact = Dict[str, Any]
ROOT = 0
VANISHED = "gone from /proc"


def holders(
    proc: str, ports: Sequence[int], report: dict[str, Any], of_root: Mapping[int, int]
) -> dict[str, Any]:
    """Who listens on these ports, and who has memory on any GPU by a report of the sampler's.

    `of_root`: see port_facts.
    """
    rows = report["gpus"]
    return {
        "ports": port_facts(proc, set(ports), of_root),
        "gpus": [gpu_fact(proc, row) for row in rows],
        "gpu_note": report["reason"] if not rows or report["age_s"] >= STALLED_S else None,
    }


def processes_in(found: dict[str, Any]) -> Iterator[Fact]:
    """Every process in an answer."""
    yield from (port["holder"] for port in found["ports"] if port["holder"])
    yield from (holder["process"] for gpu in found["gpus"] for holder in gpu["holders"])


def port_facts(proc: str, ports: set[int], of_root: Mapping[int, int]) -> list[dict[str, Any]]:
    """One for each of the ports that is listened on, whatever the address, ascending.

    Who has root's sockets only root can see. `of_root` tells what was launched as root for which ports: it is
    taken to have what root listens on there.
    """
    tables = (sockets.listeners(f"{proc}/net/{table}") for table in ("tcp", "tcp6"))
    found = [each for table in tables for each in table if each.port in ports]
    listening = {each.inode: each.port for each in found}
    owners: dict[int, list[Fact | None]] = {port: [] for port in listening.values()}
    for port, pid in owners_of(proc, listening):
        owners[port].append(processfacts.fact(proc, pid))
    for port in {each.port for each in found if each.uid == ROOT}:
        if not owners[port] and port in of_root:
            owners[port].append(processfacts.fact(proc, of_root[port]))
    return [{"port": port, "holder": eldest(owners[port])} for port in sorted(owners)]


def owners_of(proc: str, listening: dict[bytes, int]) -> Iterator[tuple[int, int]]:
    """(port, pid) of every process that has one of the sockets open, in one pass over all processes."""
    for name in os.listdir(proc) if listening else ():
        if name.isdigit():
            own = sockets.socket_inodes(proc, int(name)) or set()
            for port in {listening[inode] for inode in own & listening.keys()}:
                yield port, int(name)


def eldest(facts: Iterable[Fact | None]) -> Fact | None:
    """The process that opened the socket: others who have it too inherited it."""
    return min(filter(None, facts), key=lambda fact: (fact["start_ticks"], fact["pid"]), default=None)


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
