"""What NCCL says of its settings, and what the simulation makes of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping

VERSION = "2.28.9"
_TEXTS = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_SOCKET_IFNAME")
"""Settings of which NCCL tells the text as it is; of the numbers it tells with a full stop."""
_SILENT = ("NCCL_DEBUG",)
_SPEEDS = {"LL": 1.6}
"""Decoding's speed by NCCL_PROTO, against NCCL's own choice: profiles/_nccl-ll.toml names the source."""


def decode_speed(environment: Mapping[str, str] = os.environ) -> float:
    """How many times as fast decoding is as with NCCL left to itself."""
    return _SPEEDS.get(environment.get("NCCL_PROTO", ""), 1.0)


def lines(rank: int, pid: int, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """What one rank says at its start with NCCL_DEBUG=INFO, without line ends; nothing without it."""
    if environment.get("NCCL_DEBUG") != "INFO":
        return
    head = f"{socket.gethostname()}:{pid}:{pid} [{rank}] NCCL INFO"
    if rank == 0:
        yield f"{head} NCCL version {VERSION}+cuda13.0"
    for name in sorted(environment):
        if name.startswith("NCCL_") and name not in _SILENT:
            stop = "" if name in _TEXTS else "."
            yield f"{head} {name} set by environment to {environment[name]}{stop}"
    yield f"{head} Channel 00/0 : {rank}[{rank}] -> {rank + 1}[{rank + 1}] via P2P/IPC"
