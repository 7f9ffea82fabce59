"""From a name and a port, or a ProxyCommand, to a connected socket that SSH can be spoken on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

from console.remote.child import Child
from console.remote.ssh.background import in_background

ONE_ADDRESS_LIMIT_S = 4.0
"""An address that drops packets (often IPv6) must not use up the time of the next one."""

GRACE_S = 0.5

Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


async def resolve(name: str, port: int, family: int) -> list[Address]:
    """The addresses of a name in the resolver's order. Raises socket.gaierror."""
    found = await in_background(
        lambda: socket.getaddrinfo(name, port, family=family, type=socket.SOCK_STREAM)
    )
    return [(family_found, address) for family_found, _, _, _, address in found]


async def dial(addresses: list[Address], bind: tuple[str, int] | None) -> socket.socket:
    """Connect to the first address that answers; `bind` is the local address. Raises OSError."""
    *early, last = addresses
    for address in early:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(ONE_ADDRESS_LIMIT_S):
                return await _dial_one(address, bind)
    return await _dial_one(last, bind)


async def _dial_one(address: Address, bind: tuple[str, int] | None) -> socket.socket:
    family, place = address
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        if bind:
            connection.bind(bind)
        await asyncio.get_running_loop().sock_connect(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


class ProxyCommand:
    """A ProxyCommand of ssh_config, run as ssh(1) does: `exec` in the user's shell, SSH on stdin and stdout.

    asyncssh's own runner splits the words itself and takes the program's stderr for SSH data, so that one
    warning breaks the connection.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self._child: Child | None = None

    async def start(self) -> socket.socket:
        """Run it; returns our end of its stdin and stdout. Raises OSError."""
        ours, theirs = socket.socketpair()
        shell = os.environ.get("SHELL") or "/bin/sh"
        try:
            self._child = await Child.start(
                shell, "-c", f"exec {self.command}", stdin=theirs.fileno(), stdout=theirs.fileno()
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    async def why(self) -> str:
        """Why it ended, as a clause."""
        return await self._child.why() if self._child else "was not started"

    async def close(self) -> None:
        """End it, if its closed stdin does not."""
        if self._child:
            await self._child.end(GRACE_S)
