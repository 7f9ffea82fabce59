"""Ports of a demo host's own: two demos at once on a machine do not meet.

A block is the hundred ports with the same leading digits, below those that the kernel hands out by itself
(ip(7), ip_local_port_range). It is taken with an abstract unix socket (unix(7)): the kernel gives the name to
one process, and back when that process is gone.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

PREFIXES = (*range(312, 327), *range(211, 300))
"""The first is the one that profiles/_demo.toml names. 300 to 311 are where real servers usually are."""
WATCHED = range(40)
"""What the profiles use of a block."""


class NoPortsError(Exception):
    """Every block is taken."""


class PortBlock(NamedTuple):
    """The block, for as long as `reservation` is open."""

    prefix: int
    reservation: socket.socket


def take_block(prefixes: Iterable[int] = PREFIXES) -> PortBlock:
    """The first block that no other demo has and in which nobody listens. Raises NoPortsError."""
    for prefix in prefixes:
        reservation = socket.socket(socket.AF_UNIX)
        with suppress(OSError):
            reservation.bind(f"\0dsv4-demo-ports-{prefix}")
            if all(_is_free(prefix * 100 + offset) for offset in WATCHED):
                return PortBlock(prefix, reservation)
        reservation.close()
    raise NoPortsError("no free block of ports for another demo host on this machine")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
