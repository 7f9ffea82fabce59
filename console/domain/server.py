"""SGLang servers and routers as found on a host by reading /proc."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["single", "prefill", "decode", "router"]

LogKind = Literal["file", "deleted", "pipe", "terminal", "socket", "null", "denied", "unknown"]


class LogPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server's stdout points."""

    kind: LogKind
    path: str | None = None
    """A path the agent can open; set for `file` and `deleted` (then /proc/PID/fd/1)."""
    detail: str | None = None
    """One sentence why there is no log to follow, or what is odd about it."""


class ServerProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One SGLang server or router process. Identity is (pid, start_ticks) within one boot."""

    pid: int
    start_ticks: int
    """Process start in clock ticks since boot (field 22 of /proc/PID/stat, proc(5))."""
    start_time: float
    """The same, as seconds since the epoch on the host's clock."""
    role: Role
    state: str = "R"
    """Kernel state letter of proc(5): R, S, D, T (stopped), Z (zombie)."""
    user: str | None = None
    command: tuple[str, ...] = ()
    pgid: int | None = None
    sid: int | None = None
    port: int | None = None
    """HTTP port from the command line; None for a router that renamed itself before it was first seen."""
    metrics_port: int | None = None
    """Port of /metrics when it differs from `port` (routers)."""
    bootstrap_port: int | None = None
    listening: tuple[int, ...] | None = None
    """TCP ports on which the process itself listens, ascending; None when it may not be read."""
    python: str | None = None
    version: str | None = None
    """Version of the sglang (or sglang_router) package in the process's own environment."""
    gpus: tuple[int, ...] | None = None
    """GPU indices that its flags and CUDA_VISIBLE_DEVICES ask for; None when they do not tell."""
    workers: tuple[str, ...] = ()
    """Worker URLs on a router's command line."""
    log: LogPlace

    @property
    def key(self) -> tuple[int, int]:
        """The identity: a pid that was used again has another start."""
        return (self.pid, self.start_ticks)
