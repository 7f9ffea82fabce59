"""What one process is: the fields of console.domain.host_facts.ProcessFact."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any, Sequence

from . import procfs
from .cmdlines import PYTHON, base_name, program_of

NAME_CHARS = 80
TICKS = os.sysconf("SC_CLK_TCK")

CONTAINER = re.compile(
    r"(?:(docker|containerd|crio|libpod)[-/])?([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?(?:/|$)"
)
"""The part of a cgroup's path that a container runtime gives: its own name or nothing, and 64 digits."""
SERVICE = re.compile(r"[^/]+\.service(?=/|$)")
LOGINS = re.compile(r"user@\d+\.service|sshd?(@.*)?\.service")
"""Services that hold what people start by hand, and start none of it again."""
FRAME = re.compile(r"(?:\[<[0-9a-f]*>\] )?([^+\s]+)\S*(?: (\[\w+\]))?")
"""A line of /proc/PID/stack: `[<0>] function+0xb4/0x100 [module]`; a function of the kernel has no module."""

HANGS = "DR"
"""States in which a process that should be gone may hang in the kernel. Any other waits there by right."""


def fact(proc: str, pid: int, run: str | None = None) -> dict[str, Any] | None:
    """The process of this moment, which belongs to `run`; None when there is none."""
    found = procfs.stat(proc, pid)
    if found is None:
        return None
    booted = boot_time(proc)
    return {
        "pid": pid,
        "start_ticks": found.start_ticks,
        "name": name(procfs.arguments(proc, pid) or (), found.comm),
        "state": found.state,
        "user": procfs.user(proc, pid),
        "started": booted + found.start_ticks / TICKS if booted else None,
        "run": run,
        "unit": unit_of(proc, pid),
        "waits_in": waits_in(proc, pid) if found.state in HANGS else None,
    }


@lru_cache(maxsize=None)
def boot_time(proc: str) -> float:
    """As procfs tells; /proc/stat is a long file where there are many processors."""
    return procfs.boot_time(proc)


def name(argv: Sequence[str], comm: str) -> str:
    """The title that a process gave itself, else the program that it runs; `comm` where it has neither.

    Never its arguments: a command line may hold an API key.
    """
    if not argv:
        return comm
    said = title(argv[0]) if len(argv) == 1 and " " in argv[0] else program(argv)
    return said[:NAME_CHARS] or comm


def title(text: str) -> str:
    """A title in words, up to the first option: some programs put their whole command line there."""
    return text.partition(" -")[0].strip()


def program(argv: Sequence[str]) -> str:
    """`python3 -m sglang.launch_server`, `python3 run.py`, `nvidia-smi`."""
    executable = base_name(argv[0])
    ran, rest = program_of(argv)
    if not ran or not PYTHON.fullmatch(executable):
        return executable
    before = argv[len(argv) - len(rest) - 2]
    as_module = before.startswith("-") and before.endswith("m")
    return f"{executable} -m {ran}" if as_module else f"{executable} {ran}"


def unit_of(proc: str, pid: int) -> str | None:
    """The container or service of a process; not the agent's own, where things are started by hand."""
    found = unit(cgroups_of(proc, str(pid)))
    return None if found == own_unit(proc) else found


@lru_cache(maxsize=None)
def own_unit(proc: str) -> str | None:
    """The container or service that the agent lives in."""
    return unit(cgroups_of(proc, "self"))


def cgroups_of(proc: str, pid: str) -> str:
    """The text of /proc/PID/cgroup; empty where it cannot be read."""
    return (procfs.read(f"{proc}/{pid}/cgroup") or b"").decode("utf-8", "replace")


def unit(cgroups: str) -> str | None:
    """The container or systemd service in the text of /proc/PID/cgroup (cgroups(7)), if it may restart it."""
    paths = [line.split(":", 2)[-1] for line in cgroups.splitlines()]
    for path in paths:
        container = CONTAINER.search(path)
        if container:
            return f"{container.group(1) or 'container'}-{container.group(2)}"
    services = (service for path in paths for service in reversed(SERVICE.findall(path)))
    return next((service for service in services if not LOGINS.fullmatch(service)), None)


def waits_in(proc: str, pid: int) -> str | None:
    """The kernel function that a process is in, and the driver's name behind it; None where nobody may know.

    The stack is root's alone to read, and names drivers; wchan is its owner's.
    """
    for table in ("stack", "wchan"):
        line = (procfs.read(f"{proc}/{pid}/{table}") or b"").decode("ascii", "replace").partition("\n")[0]
        frame = FRAME.match(line)
        if frame and line != "0":
            return " ".join(part for part in frame.groups() if part)
    return None
