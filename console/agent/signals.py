"""Sends a signal to exactly the processes that are meant, each known by pid and start."""

from __future__ import annotations

import os
import signal
from typing import Any, NamedTuple, Sequence

from . import procfs, sudo
from .groups import DEAD, INIT

NUMBERS = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "CONT": signal.SIGCONT}


class Target(NamedTuple):
    """A process to be signalled."""

    pid: int
    start_ticks: int
    sudo: bool = False


def deliver(proc: str, targets: Sequence[Target], name: str) -> dict[str, Any]:
    """Signal all of them in turn; those that have ended need none and are not refused.

    Answers {"signalled": [pid, ...], "refused": [{"pid", "why"}, ...]}.
    """
    signalled: list[int] = []
    refused: list[dict[str, Any]] = []
    as_root: list[Target] = []
    own = own_line(proc)
    for target in targets:
        if target.pid in own:
            refused.append({"pid": target.pid, "why": "the agent runs below it"})
            continue
        try:
            if send(proc, target, NUMBERS[name]):
                signalled.append(target.pid)
        except PermissionError:
            if target.sudo:
                as_root.append(target)
            else:
                owner = procfs.user(proc, target.pid) or "another user"
                refused.append({"pid": target.pid, "why": f"it belongs to {owner}"})
    still = [target.pid for target in as_root if lives(proc, target)]
    why = sudo.kill(still, name) if still else None
    if why is None:
        signalled += still
    else:
        refused += [{"pid": pid, "why": why} for pid in still]
    return {"signalled": signalled, "refused": refused}


def own_line(proc: str) -> set[int]:
    """Pid 1, this process and its ancestors."""
    return {INIT, os.getpid(), *(pid for pid, _ in procfs.ancestors(proc, os.getpid()))}


def lives(proc: str, target: Target) -> bool:
    """Whether the process is still the one meant, and no zombie."""
    found = procfs.stat(proc, target.pid)
    return found is not None and found.start_ticks == target.start_ticks and found.state not in DEAD


def send(proc: str, target: Target, number: int) -> bool:
    """Signal one process; False when it has ended. Raises PermissionError.

    Held by a descriptor, a pid cannot come to name another process between the look and the signal.
    """
    handle = hold(target.pid)
    try:
        if not lives(proc, target):
            return False
        if handle is None:
            os.kill(target.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def hold(pid: int) -> int | None:
    """A descriptor of the process; None where Python (before 3.9) or the kernel (before 5.3) has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
