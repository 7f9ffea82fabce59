"""The demo host for one console: a child process that lives as long as the console does."""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from console.domain.errors import ConnectionFailed
from console.remote.host import ByteChannel, ByteStream
from console.remote.ssh import SshHost

START_LIMIT_S = 15.0


class Doors(msgspec.Struct, frozen=True):
    """The line with which the demo says where it listens."""

    host: str
    port: int
    username: str
    client_key: str
    known_hosts: str
    variables: dict[str, str]
    """What the demo's profiles want in this process's environment: where its model is, and its ports."""


class DemoProcess:
    """Starts `python -m console.demo` once; each connection goes to the same simulated host."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._doors: Doors | None = None

    def open_host(self) -> DemoHost:
        """A connection to be made."""
        return DemoHost(self)

    async def doors(self) -> Doors:
        """Where the demo listens; starts it when it is not running. Raises ConnectionFailed."""
        if self._doors is None or self._child is None or self._child.returncode is not None:
            # Its stdin is its life line: held open here, it ends with this process however that ends.
            self._child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "console.demo"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # Ctrl-C is for the console: a plan that is aborted still needs its host.
                start_new_session=True,
            )
            self._doors = await self._first_line(self._child)
            os.environ.update(self._doors.variables)
        return self._doors

    @staticmethod
    async def _first_line(child: asyncio.subprocess.Process) -> Doors:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            # Not wait_for: before Python 3.12 it swallows a cancellation that comes with the line.
            async with asyncio.timeout(START_LIMIT_S):
                line = await child.stdout.readline()
            return msgspec.json.decode(line, type=Doors)
        except (TimeoutError, msgspec.DecodeError) as error:
            if child.returncode is None:
                child.kill()
            words = (await child.stderr.read()).decode(errors="replace").strip().splitlines()
            raise ConnectionFailed(
                "the demo host did not start", cause=words[-1] if words else "it said nothing"
            ) from error


class DemoHost:
    """A connection to the demo host: SSH like any other, with the keys that the demo made."""

    name = "demo"

    def __init__(self, process: DemoProcess) -> None:
        self._process = process
        self._ssh: SshHost | None = None

    @property
    def address(self) -> str:
        """Where the demo listens."""
        return "demo" if self._ssh is None else self._ssh.address

    async def connect(self) -> None:
        """See Host."""
        doors = await self._process.doors()
        self._ssh = SshHost(
            doors.host,
            name=self.name,
            config=[],
            port=doors.port,
            username=doors.username,
            client_keys=[doors.client_key],
            known_hosts=[doors.known_hosts],
        )
        await self._ssh.connect()

    async def run_shell(self) -> ByteChannel:
        """See Host."""
        return await self._connected().run_shell()

    async def open_tcp(self, address: str, port: int) -> ByteStream:
        """See Host."""
        return await self._connected().open_tcp(address, port)

    async def close(self) -> None:
        """See Host."""
        if self._ssh is not None:
            await self._ssh.close()

    def _connected(self) -> SshHost:
        if self._ssh is None:
            raise ConnectionFailed("not connected", where=self.name)
        return self._ssh
