"""Whether the simulated users' requests can flow: a pair needs both roles and a router."""

from __future__ import annotations

import time
from pathlib import Path

from demohost import state
from demohost.clock import scaled

from sglang.log import ServerLog
from sglang.server_args import ServerArgs

_HEARTBEAT_S = 5.0
_MISSES = 2


class Peers:
    """What else serves on this host, from what it publishes."""

    def __init__(self, folder: Path, args: ServerArgs, log: ServerLog) -> None:
        self._folder, self._args, self._log = folder, args, log
        self._prefill_port: int | None = None
        self._lost_at: float | None = None
        self._affected = 0

    def complete(self, running: int) -> bool:
        """Is everything there that a request needs? Decode also says when it loses its prefill server."""
        if self._args.role == "single":
            return True
        serving = [found for found in state.occupants(self._folder) if found.phase == "serving"]
        if self._args.role == "decode":
            self._watch_prefill(next((found for found in serving if found.role == "prefill"), None), running)
        return {"prefill", "decode", "router"} <= {found.role for found in serving} | {self._args.role}

    def _watch_prefill(self, prefill: state.Occupant | None, running: int) -> None:
        """A heartbeat every 5 s; after two misses the connection is given up."""
        if prefill:
            self._prefill_port, self._lost_at = prefill.bootstrap_port, None
        elif self._prefill_port is not None:
            self._count_misses(self._prefill_port, running)

    def _count_misses(self, port: int, running: int) -> None:
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at, self._affected = now, running
            self._log.line(f"Attempting to reconnect to 127.0.0.1:{port}...", rank=0)
        elif now - self._lost_at > scaled(_HEARTBEAT_S * _MISSES):
            self._prefill_port = None
            self._log.line(
                f"Lost connection with prefill instance (bootstrap_addr: 127.0.0.1:{port}), "
                f"{self._affected} requests affected",
                rank=0,
            )
