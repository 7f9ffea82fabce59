"""The TCP ports on which one process listens."""

from __future__ import annotations

import os
from typing import Iterator, NamedTuple

from . import procfs

LISTEN = b"0A"
"""The state TCP_LISTEN in /proc/net/tcp."""


class Listener(NamedTuple):
    """A listening socket, and the user who opened it."""

    inode: bytes
    port: int
    uid: int


def listening_ports(proc: str, pid: int) -> list[int] | None:
    """Ports of the process's own listening sockets, ascending; None when its descriptors may not be read."""
    own = socket_inodes(proc, pid)
    if own is None:
        return None
    if not own:
        return []
    tables = (f"{proc}/{pid}/net/{table}" for table in ("tcp", "tcp6"))
    return sorted({each.port for table in tables for each in listeners(table) if each.inode in own})


def socket_inodes(proc: str, pid: int) -> set[bytes] | None:
    """Inodes of the sockets that a process has open."""
    folder = f"{proc}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    targets = (procfs.link(folder + "/" + name) for name in names)
    return {target[8:-1].encode("ascii") for target in targets if target and target.startswith("socket:[")}


def listeners(path: str) -> Iterator[Listener]:
    """The listening sockets in a table like /proc/net/tcp.

    The kernel lists listeners first (tcp_get_idx), so the long rest of a busy host is never read.
    """
    try:
        with open(path, "rb", buffering=4096) as table:
            next(table, None)
            for line in table:
                fields = line.split()
                if fields[3] != LISTEN:
                    return
                yield Listener(fields[9], int(fields[1].rpartition(b":")[2], 16), int(fields[7]))
    except OSError:
        return
