"""What the console asks of a host, whether it is reached through SSH, is this machine, or is simulated.

Doors raise only HostError and its kind: foreign errors are translated where they arise, `from exc`.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol

CONNECT_LIMIT_S = 15.0
"""The longest a person waits for a connection: name, jump hosts, TCP, greeting and login together."""

OPEN_LIMIT_S = 10.0
"""The longest to wait for a channel on a connection that is up; a frozen host answers nothing."""


class ByteStream(Protocol):
    """Bytes both ways. What is not read holds the sender back; it is never buffered without limit."""

    async def read(self, limit: int) -> bytes:
        """At least one and at most `limit` bytes; b"" at the end. Raises ConnectionLost."""
        ...

    async def write(self, data: bytes) -> None:
        """Send, and wait while the other side takes nothing. Raises ConnectionLost."""
        ...

    def at_eof(self) -> bool:
        """True once nothing more will ever be read, which makes an idle stream a dead one."""
        ...

    def close(self) -> None:
        """Send what was written, then end the stream both ways. Closing again does nothing."""
        ...


class ByteChannel(ByteStream, Protocol):
    """A program's stdin and stdout on the host. Closing is EOF on its stdin."""

    async def ended(self) -> str:
        """Why the program ended, as a clause: its exit or signal and its last words on stderr."""
        ...


class Host(Protocol):
    """A machine that the console works on. One object is one connection's life: connect, use, close."""

    @property
    def name(self) -> str:
        """What the operator calls it."""
        ...

    @property
    def address(self) -> str:
        """Where it is, for people: `user@host:port via jump`, or `local`."""
        ...

    async def connect(self) -> None:
        """Connect within 15 s.

        Raises HostKeyUnknown, HostKeyChanged, AuthenticationFailed or ConnectionFailed.
        """
        ...

    async def run_shell(self) -> ByteChannel:
        """Start `/bin/sh`, which reads its script from stdin, whatever the login shell is.

        Raises ConnectionFailed when the host refuses, ConnectionLost when it does not answer.
        """
        ...

    async def open_tcp(self, address: str, port: int) -> ByteStream:
        """Connect from the host to `address`:`port`.

        Raises ConnectionFailed when the target cannot be reached, ConnectionLost when the host is silent.
        """
        ...

    async def close(self) -> None:
        """End the connection and everything opened on it. Never raises."""
        ...


def reason(error: OSError) -> str:
    """What the system says, as in `Connection refused`; asyncio's own wording names the address instead."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    said = os.strerror(error.errno)
    return f"{error.filename}: {said}" if error.filename else said
