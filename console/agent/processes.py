"""Finds SGLang servers and routers on a host by reading /proc."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, NamedTuple

from . import procfs
from .cmdlines import Launch, recognise
from .watched import WatchedServer

YOUNG_S = 10.0
"""A new process may still turn into a server (a shell that execs it), so it is looked at in every scan;"""
REREAD_S = 10.0
"""an older one this often."""
NEVER = float("inf")
KTHREADD = 2
"""The parent of all kernel threads."""


class Look(NamedTuple):
    """When a process's command line is to be read again, and until when the process counts as young."""

    due: float
    young_until: float


DEMO = "DSV4_DEMO"
"""In the environment of everything that a demo host runs."""


class ProcessScan:
    """A view of the host's servers that is cheap to renew: a scan reads little more than what is new.

    `only_env` ("NAME=value") hides every process that was not started with exactly that in its environment;
    without it, only a demo host's simulated servers are hidden.
    """

    def __init__(
        self, proc: str = "/proc", only_env: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = proc
        self._only_env = only_env
        self._clock = clock
        self._looks: dict[str, Look] = {}
        self._watched: dict[int, WatchedServer] = {}
        self._owners: dict[int, int | None] = {}
        self._owners_until = 0.0
        self._last_created: bytes | None = None
        self.note: str | None = None
        """One sentence when part of the host cannot be seen."""

    def servers(self) -> list[dict[str, Any]]:
        """The servers and routers of this moment, by pid: fields of console.domain.server.ServerProcess.

        One that has ended stays, with state Z, for as long as its parent does not collect it.
        """
        now = self._clock()
        before = set(self._watched)
        if self._processes_were_created():
            self._list_processes(now)
        for pid in [pid for pid, look in self._looks.items() if look.due <= now]:
            self._looks[pid] = Look(self._next_look(pid, now), self._looks[pid].young_until)
        self._refresh(now)
        if before != set(self._watched):
            self._owners = {}
        return [dict(self._watched[pid].report) for pid in sorted(self._watched)]

    @property
    def starting(self) -> bool:
        """Whether one of the servers found is on its way up."""
        return any(server.starting for server in self._watched.values())

    def owner_of(self, pid: int) -> int | None:
        """The pid of the server, among those last found, that a process belongs to."""
        now = self._clock()
        if now >= self._owners_until:
            self._owners = {}
            self._owners_until = now + REREAD_S
        if pid not in self._owners:
            self._owners[pid] = self._find_owner(pid)
        return self._owners[pid]

    def _processes_were_created(self) -> bool:
        """False when the pid last given out, the fifth word of /proc/loadavg, is still the same."""
        words = (procfs.read(self._proc + "/loadavg") or b"").split()
        last_created = words[4] if len(words) == 5 else None
        changed = last_created is None or last_created != self._last_created
        self._last_created = last_created
        return changed

    def _list_processes(self, now: float) -> None:
        """Note which processes came and went. At the first look none is young: all have been there."""
        try:
            names = {name for name in os.listdir(self._proc) if name.isdigit()}
        except OSError as error:
            names = set()
            self.note = f"processes cannot be seen: {self._proc}: {error.strerror}"
        else:
            self.note = (
                None if "1" in names else "only own processes can be seen: /proc is mounted with hidepid"
            )
        young_until = now + YOUNG_S if self._looks else now
        known = self._looks.keys()
        for name in known - names:
            del self._looks[name]
        for name in names - known:
            self._looks[name] = Look(now, young_until)

    def _next_look(self, name: str, now: float) -> float:
        """Read one command line; the time at which to read it again."""
        pid = int(name)
        argv = procfs.arguments(self._proc, pid)
        if argv:
            launch = recognise(argv)
            if launch is None:
                self._watched.pop(pid, None)
            elif not self._keep_or_watch(pid, argv, launch):
                return NEVER
        elif argv is not None and self._is_kernel_thread(pid):
            return NEVER
        return now if now < self._looks[name].young_until else now + REREAD_S

    def _is_kernel_thread(self, pid: int) -> bool:
        found = procfs.stat(self._proc, pid)
        return found is not None and KTHREADD in (pid, found.ppid)

    def _keep_or_watch(self, pid: int, argv: tuple[str, ...], launch: Launch) -> bool:
        """Watch a server that is new or has become another one. False for a child or hidden one."""
        found = procfs.stat(self._proc, pid)
        if found is None:
            return True
        known = self._watched.get(pid)
        if known and known.start_ticks == found.start_ticks and (known.argv == argv or launch.renamed):
            return True
        if self._is_child(pid, launch) or not self._may_be_seen(pid):
            return False
        self._watched[pid] = WatchedServer(self._proc, pid, found, argv, launch)
        return True

    def _is_child(self, pid: int, launch: Launch) -> bool:
        """True for a fork of a server: it keeps the command line until it gives itself a name."""
        for parent, _ in procfs.ancestors(self._proc, pid):
            above = recognise(procfs.arguments(self._proc, parent) or ())
            if above is not None and above.router == launch.router:
                return True
        return False

    def _may_be_seen(self, pid: int) -> bool:
        environment = procfs.environment(self._proc, pid) or {}
        if self._only_env is None:
            # A demo on this machine is not part of it.
            return DEMO not in environment
        name, _, value = self._only_env.partition("=")
        return environment.get(name) == value

    def _refresh(self, now: float) -> None:
        """Bring all reports up to date and drop the servers that are gone."""
        for pid, server in list(self._watched.items()):
            found = procfs.stat(self._proc, pid)
            if found is None or found.start_ticks != server.start_ticks:
                del self._watched[pid]
            else:
                server.refresh(found, now, self._looks.keys())

    def _find_owner(self, pid: int) -> int | None:
        own = procfs.stat(self._proc, pid)
        if own is None:
            return None
        line = [(pid, own), *procfs.ancestors(self._proc, pid)]
        for relative, _ in line:
            if relative in self._watched:
                return relative
        return self._owner_of_orphan(line)

    def _owner_of_orphan(self, line: list[tuple[int, procfs.Stat]]) -> int | None:
        """The server whose process group or session a process still is in after its parent has died.

        `line` is the process and its ancestors. Below a living session leader nothing is an orphan.
        """
        own = line[0][1]
        if own.sid in [relative for relative, _ in line]:
            return None
        reports = [server.report for server in self._watched.values()]
        in_group = [report["pid"] for report in reports if report["pgid"] == own.pgid]
        if len(in_group) == 1:
            return int(in_group[0])
        return own.sid if own.sid in self._watched else None
