"""Which processes belong together: those of a run, or of a server that somebody else started.

Never by name: by recorded identity, session, descent, and the token in the environment.
"""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple

from . import procfs
from .launchenv import RUN

DEAD = "ZX"
"""State letters of a process that has ended but is still listed."""
INIT = 1


class RunIdentity(NamedTuple):
    """By which the processes of a run are known. One without a record is known by its token alone.

    Without a pid it is None, not 0: the kernel's own threads are in session 0.
    """

    id: str
    pid: int | None = None
    start_ticks: int = 0
    sudo: bool = False


class ProcessTable:
    """One look at the host's processes: what was read once is not read again."""

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self._stats: dict[int, procfs.Stat | None] = {}
        self._tokens: dict[int, str | None] = {}

    def pids(self) -> list[int]:
        """All processes. Raises OSError."""
        return [int(name) for name in os.listdir(self.proc) if name.isdigit()]

    def stat(self, pid: int) -> procfs.Stat | None:
        """See procfs.stat."""
        if pid not in self._stats:
            self._stats[pid] = procfs.stat(self.proc, pid)
        return self._stats[pid]

    def is_same(self, pid: int, start_ticks: int) -> bool:
        """Whether the pid still names the process that started then; a zombie counts."""
        found = self.stat(pid)
        return found is not None and found.start_ticks == start_ticks

    def lives(self, pid: int) -> bool:
        """False for a zombie."""
        found = self.stat(pid)
        return found is not None and found.state not in DEAD

    def token(self, pid: int) -> str | None:
        """The run that the environment names, "" for none; None when the environment says nothing.

        It says nothing when it may not be read, or when a new title overwrote it.
        """
        if pid not in self._tokens:
            environment = procfs.environment(self.proc, pid)
            self._tokens[pid] = environment.get(RUN, "") if environment else None
        return self._tokens[pid]

    def uid(self, pid: int) -> int | None:
        """The real user of a process. The owner of its folder in /proc is root for some who are not."""
        for line in (procfs.read(f"{self.proc}/{pid}/status") or b"").splitlines():
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
        return None


class RunMembers:
    """The processes of one run: `pid in members`."""

    def __init__(self, table: ProcessTable, run: RunIdentity, uid: int | None = None) -> None:
        self._table = table
        self._run = run
        self._uids = {os.getuid() if uid is None else uid, *([0] if run.sudo else [])}
        leader = None if run.pid is None else table.stat(run.pid)
        self._leader_stands = leader is not None and leader.start_ticks == run.start_ticks
        self._pid_is_anothers = leader is not None and not self._leader_stands
        self._decided: dict[int, bool] = {}

    def __contains__(self, pid: int) -> bool:
        if pid not in self._decided:
            # Until it is decided: a parent that is read late may seem to descend from its child.
            self._decided[pid] = False
            self._decided[pid] = self._belongs(pid)
        return self._decided[pid]

    def all(self) -> list[int]:
        """Every one, the first process first. Raises OSError when /proc cannot be listed."""
        found = [pid for pid in self._table.pids() if pid in self]
        return sorted(found, key=lambda pid: (pid != self._run.pid, pid))

    def _belongs(self, pid: int) -> bool:
        found = self._table.stat(pid)
        if pid <= INIT or found is None or found.start_ticks < self._run.start_ticks:
            return False
        if pid == self._run.pid and self._leader_stands:
            return True
        token = self._table.token(pid)
        if token:
            return token == self._run.id and self._is_user(pid)
        return (self._is_in_session(found, token) or found.ppid in self) and self._is_user(pid)

    def _is_in_session(self, found: procfs.Stat, token: str | None) -> bool:
        """Without its leader a session's number may have come to be another's, so nothing may speak against.

        While the session has members its number is given to no new process.
        """
        if found.sid != self._run.pid or self._pid_is_anothers:
            return False
        return self._leader_stands or token is None

    def _is_user(self, pid: int) -> bool:
        return self._table.uid(pid) in self._uids


def server_of(table: ProcessTable, run: RunIdentity) -> int | None:
    """The process of a run that was launched: under sudo it is below sudo itself. Raises OSError.

    None when it has ended.
    """
    if run.pid is None or not table.is_same(run.pid, run.start_ticks):
        return None
    if not run.sudo:
        return run.pid
    first = table.stat(run.pid)
    below = [(stat.start_ticks, pid, stat.comm) for pid, stat in stats(table, RunMembers(table, run).all())]
    return next((pid for _, pid, comm in sorted(below) if first and comm != first.comm), None)


def stats(table: ProcessTable, pids: Iterable[int]) -> list[tuple[int, procfs.Stat]]:
    """Those that are there still."""
    found = [(pid, table.stat(pid)) for pid in pids]
    return [(pid, stat) for pid, stat in found if stat is not None]


def members_of_server(table: ProcessTable, pid: int, start_ticks: int) -> list[int]:
    """A server that no console launched, its descendants, and its process group if it leads one.

    A group outlives its leader, and until it ends its number is given to no new process. Raises OSError when
    /proc cannot be listed.
    """
    leader = table.stat(pid)
    if leader is not None and leader.start_ticks != start_ticks:
        return []
    led = leader is None or leader.pgid == pid
    found = [
        each
        for each in table.pids()
        if each == pid or descends(table, each, pid) or (led and is_in_group(table, each, pid, start_ticks))
    ]
    return sorted(found, key=lambda each: (each != pid, each))


def is_in_group(table: ProcessTable, pid: int, group: int, start_ticks: int) -> bool:
    """Whether a process is in the group that a process of that start leads or led."""
    found = table.stat(pid)
    return found is not None and found.pgid == group and found.start_ticks >= start_ticks


def descends(table: ProcessTable, pid: int, ancestor: int) -> bool:
    """Whether a process was started by another, or by one that it started, and so on."""
    seen: set[int] = set()
    found = table.stat(pid)
    while found is not None and found.ppid > INIT and found.ppid not in seen:
        if found.ppid == ancestor:
            return True
        seen.add(found.ppid)
        found = table.stat(found.ppid)
    return False
