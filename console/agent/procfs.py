"""Single facts about one process, read from /proc (proc(5)).

Every reader answers None for what cannot be read: the process may have gone, or belong to another user.
"""

from __future__ import annotations

import os
import pwd
from functools import lru_cache
from typing import Iterator, NamedTuple

READ_SIZE = 1 << 17


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that are used here. `start_ticks` is in clock ticks since boot."""

    comm: str
    state: str
    ppid: int
    pgid: int
    sid: int
    start_ticks: int


def read(path: str, size: int = READ_SIZE) -> bytes | None:
    """The first `size` bytes of a file, or None when it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(fd, size)
    except OSError:
        return None
    finally:
        os.close(fd)


def read_all(path: str) -> bytes:
    """A whole file, for the tables that /proc hands out page by page; empty when it cannot be read."""
    try:
        with open(path, "rb") as source:
            return source.read()
    except OSError:
        return b""


def legible(name: str) -> str:
    """A file name as text: bytes in it that are no UTF-8 cannot travel as JSON."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def link(path: str) -> str | None:
    """Where a symbolic link points, or None when it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def stat(proc: str, pid: int) -> Stat | None:
    """State, parents and start of a process. Its name may itself hold spaces and parentheses."""
    data = read(f"{proc}/{pid}/stat")
    if not data:
        return None
    head, _, tail = data.rpartition(b")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    comm = head.partition(b"(")[2].decode("utf-8", "replace")
    return Stat(
        comm, fields[0].decode("ascii"), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19])
    )


def arguments(proc: str, pid: int) -> tuple[str, ...] | None:
    """The argument vector; empty for kernel threads and zombies.

    A process that renamed itself leaves its title, padded with NULs over the old arguments.
    """
    data = read(f"{proc}/{pid}/cmdline")
    if data is None:
        return None
    data = data.rstrip(b"\0")
    return tuple(part.decode("utf-8", "replace") for part in data.split(b"\0")) if data else ()


def environment(proc: str, pid: int) -> dict[str, str] | None:
    """The environment at the start of the process; None also when a new title overwrote it with NULs."""
    data = read(f"{proc}/{pid}/environ")
    if data is None or (data and not data.strip(b"\0")):
        return None
    return variables(data.decode("utf-8", "replace"))


def variables(text: str) -> dict[str, str]:
    """What the text of /proc/PID/environ sets."""
    entries = (entry.partition("=") for entry in text.split("\0"))
    return {name: value for name, equals, value in entries if equals}


def user(proc: str, pid: int) -> str | None:
    """The name of the user that a process runs as."""
    try:
        return user_name(os.stat(f"{proc}/{pid}").st_uid)
    except OSError:
        return None


@lru_cache(maxsize=None)
def user_name(uid: int) -> str:
    """A user's name, or the number where the host does not know it. To ask may mean another machine."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def ancestors(proc: str, pid: int) -> Iterator[tuple[int, Stat]]:
    """Parents of a process, nearest first, up to but without pid 1."""
    found = stat(proc, pid)
    while found is not None and found.ppid > 1:
        pid = found.ppid
        found = stat(proc, pid)
        if found is not None:
            yield pid, found


def boot_time(proc: str) -> float:
    """When the machine booted, in seconds since the epoch; 0.0 where /proc does not say."""
    for line in (read(proc + "/stat") or b"").splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return 0.0
