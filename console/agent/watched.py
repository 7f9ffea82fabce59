"""One SGLang server or router under observation, from when it was first seen until it is gone."""

from __future__ import annotations

import os
from typing import Any, Iterable

from . import installs, launchflags, logplaces, procfs, sockets
from .cmdlines import Launch

LOG_EVERY_S = 10.0
PORTS_EVERY_S = 60.0
"""Reading a server's descriptors costs about a millisecond, so it is done seldom,"""
PORTS_SOON_S = 0.5
"""and oftener until the server listens where it should,"""
STARTS_WITHIN_S = 3600.0
"""which one that was seen for so long will not do any more."""

DEAD = "ZX"
"""State letters of a process that has ended but is still listed."""


class WatchedServer:
    """Its report has the fields of console.domain.server.ServerProcess.

    A router renames itself over its command line and environment a few seconds after its start; what they
    said before stays in the report.
    """

    def __init__(
        self, proc: str, pid: int, found: procfs.Stat, argv: tuple[str, ...], launch: Launch
    ) -> None:
        self._proc = proc
        self.pid = pid
        self.argv = argv
        self.launch = launch
        self.start_ticks = found.start_ticks
        self.report = dict(launch_facts(launch), **process_facts(proc, pid, found, argv, launch))
        self.report.update(log=logplaces.place("unknown"), listening=None)
        self._log_at = self._ports_at = float("-inf")
        self._seen_for_s = 0.0
        self._seen_at: float | None = None

    def refresh(self, found: procfs.Stat, now: float, pids: Iterable[str]) -> None:
        """Bring the report up to date. `pids` are the processes among which a pipe's reader may be."""
        self.report.update(state=found.state, pgid=found.pgid, sid=found.sid)
        if found.state in DEAD:
            self.report["listening"] = []
            return
        self._seen_at = now if self._seen_at is None else self._seen_at
        self._seen_for_s = now - self._seen_at
        if now >= self._log_at:
            self.report["log"] = logplaces.log_place(self._proc, self.pid, pids)
            self._log_at = now + LOG_EVERY_S
        if now >= self._ports_at:
            self._find_ports()
            self._ports_at = now + (PORTS_SOON_S if self.starting else PORTS_EVERY_S)

    def _find_ports(self) -> None:
        listening = sockets.listening_ports(self._proc, self.pid)
        self.report["listening"] = listening
        if self.launch.renamed and listening is not None:
            self.report["port"], self.report["metrics_port"] = router_ports(listening)

    @property
    def starting(self) -> bool:
        """Whether it does not yet listen where it should, and may still come to it."""
        listening, port = self.report["listening"], self.report["port"]
        return (
            self._seen_for_s < STARTS_WITHIN_S
            and port is not None
            and listening is not None
            and port not in listening
        )


def router_ports(listening: list[int]) -> tuple[int | None, int | None]:
    """(HTTP, metrics) ports of a router that only its sockets can tell about.

    A router listens on exactly these two; which is which shows only where metrics are on their default port.
    """
    if len(listening) != 2 or launchflags.ROUTER_METRICS_PORT not in listening:
        return None, None
    other = [port for port in listening if port != launchflags.ROUTER_METRICS_PORT]
    return other[0], launchflags.ROUTER_METRICS_PORT


def launch_facts(launch: Launch) -> dict[str, Any]:
    """What the command line alone tells."""
    return {
        "role": launchflags.role(launch),
        "port": launchflags.port(launch),
        "metrics_port": launchflags.metrics_port(launch),
        "bootstrap_port": launchflags.bootstrap_port(launch),
        "workers": launchflags.workers(launch),
    }


def process_facts(
    proc: str, pid: int, found: procfs.Stat, argv: tuple[str, ...], launch: Launch
) -> dict[str, Any]:
    """What does not change while the process lives."""
    environment = procfs.environment(proc, pid)
    interpreter = installs.interpreter_of(proc, pid, argv, environment)
    package = "sglang_router" if launch.router else "sglang"
    return {
        "pid": pid,
        "start_ticks": found.start_ticks,
        "start_time": procfs.boot_time(proc) + found.start_ticks / os.sysconf("SC_CLK_TCK"),
        "user": procfs.user(proc, pid),
        "command": list(argv),
        "gpus": launchflags.gpus(launch, environment),
        "python": interpreter and interpreter.usable,
        "version": interpreter and interpreter.version_of(package, environment),
    }
