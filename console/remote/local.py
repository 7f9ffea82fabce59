"""This machine as the host: the same agent and the same servers, without SSH."""

from __future__ import annotations

import asyncio
import weakref
from pathlib import Path

from console.domain.errors import ConnectionFailed, ConnectionLost
from console.remote.child import Child
from console.remote.host import OPEN_LIMIT_S, reason

BUFFER = 131072
GRACE_S = 2.0
"""The agent ends itself when its stdin does."""


class LocalHost:
    """This machine."""

    def __init__(self, name: str = "local") -> None:
        self.name = name
        self.address = "local"
        self._shells: list[LocalShell] = []
        self._streams: weakref.WeakSet[LocalStream] = weakref.WeakSet()

    async def connect(self) -> None:
        """Nothing to do: we are here."""

    async def run_shell(self) -> LocalShell:
        """Start /bin/sh in the home folder, as sshd would. Raises ConnectionFailed."""
        try:
            child = await Child.start("/bin/sh", buffer=BUFFER, folder=Path.home())
        except OSError as error:
            raise ConnectionFailed(
                "/bin/sh cannot be started", where=self.name, cause=reason(error)
            ) from error
        shell = LocalShell(child, self.name)
        self._shells.append(shell)
        return shell

    async def open_tcp(self, address: str, port: int) -> LocalStream:
        """Connect to `address`:`port`. Raises ConnectionFailed."""
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                reader, writer = await asyncio.open_connection(address, port, limit=BUFFER)
        except TimeoutError as error:
            raise ConnectionFailed(f"{address}:{port} does not answer", where=self.name) from error
        except OSError as error:
            raise ConnectionFailed(f"{address}:{port}: {reason(error)}", where=self.name) from error
        stream = LocalStream(reader, writer, self.name)
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        """End every shell and every stream opened here."""
        for stream in self._streams:
            stream.close()
        for shell in self._shells:
            shell.close()
        await asyncio.gather(*(shell.gone() for shell in self._shells))


class LocalStream:
    """A ByteStream over an asyncio stream pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    async def read(self, limit: int) -> bytes:
        """See ByteStream."""
        try:
            return await self._reader.read(limit)
        except OSError as error:
            raise self._lost(error) from error

    async def write(self, data: bytes) -> None:
        """See ByteStream."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise self._lost(error) from error

    def at_eof(self) -> bool:
        """See ByteStream."""
        return self._reader.at_eof()

    def close(self) -> None:
        """See ByteStream."""
        self._writer.close()

    def _lost(self, error: OSError) -> ConnectionLost:
        return ConnectionLost("the connection ended", where=self._host, cause=reason(error))


class LocalShell(LocalStream):
    """/bin/sh as a child. Once closed it has a moment to end by itself, then its process group is killed."""

    def __init__(self, child: Child, host: str) -> None:
        assert child.process.stdout
        assert child.process.stdin
        super().__init__(child.process.stdout, child.process.stdin, host)
        self._child = child
        self._ending: asyncio.Task[None] | None = None

    async def ended(self) -> str:
        """See ByteChannel."""
        return await self._child.why()

    def close(self) -> None:
        """See ByteStream."""
        super().close()
        if not self._ending:
            self._ending = asyncio.create_task(self._child.end(GRACE_S), name="end of a local shell")

    async def gone(self) -> None:
        """Wait until the child is gone; only after close."""
        if self._ending:
            await self._ending
