"""A host reached through SSH."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh

from console.domain.errors import ConnectionFailed, ConnectionLost, HostError
from console.remote.host import CONNECT_LIMIT_S, OPEN_LIMIT_S
from console.remote.ssh.background import in_background
from console.remote.ssh.channels import WINDOW, ChannelStream, ProgramChannel
from console.remote.ssh.errors import FOREIGN, channel_refused, not_opened
from console.remote.ssh.login import Keepalive, Login
from console.remote.ssh.route import Config, Hop, Overrides

SHELL = "exec /bin/sh"
"""Read alike by every login shell: sh, bash, zsh, fish, tcsh."""


KEEPALIVE = Keepalive()


class SshHost:
    """A host that `ssh ALIAS` reaches, by the same ssh_config, keys, agent and known_hosts.

    Nothing is asked and nothing is stored: an unknown host key is refused, an encrypted key is used through
    the agent. `config` names the files to read instead of the usual ones. `port`, `username`, `client_keys`
    (the only key files to offer, and no agent) and `known_hosts` (the only files of host keys) override
    ssh_config for the last hop.
    """

    def __init__(
        self,
        alias: str,
        *,
        name: str | None = None,
        config: Sequence[str | Path] | None = None,
        port: int | None = None,
        username: str | None = None,
        client_keys: Sequence[str | Path] | None = None,
        known_hosts: Sequence[str | Path] | None = None,
        keepalive: Keepalive = KEEPALIVE,
        connect_limit_s: float = CONNECT_LIMIT_S,
        open_limit_s: float = OPEN_LIMIT_S,
    ) -> None:
        self.name = name or alias
        self.address = alias
        self._alias = alias
        self._files = _texts(config)
        self._overrides = Overrides(
            port=port, username=username, client_keys=_texts(client_keys), known_hosts=_texts(known_hosts)
        )
        self._keepalive = keepalive
        self._connect_limit_s = connect_limit_s
        self._open_limit_s = open_limit_s
        self._logins: list[Login] = []

    async def connect(self) -> None:
        """See Host. May be called again, which makes a new connection."""
        await self.close()
        try:
            async with asyncio.timeout(self._connect_limit_s):
                await self._travel()
        except FOREIGN as error:
            failure = await self._explain(error)
            await self.close()
            raise failure from error
        except BaseException:
            await self.close()
            raise

    async def run_shell(self) -> ProgramChannel:
        """See Host."""
        shell = ProgramChannel(self.name)
        opening = self._connection().create_session(
            lambda: shell, SHELL, encoding=None, window=WINDOW, request_pty=False, x11_forwarding=False
        )
        await self._open(shell, opening, "a shell")
        return shell

    async def open_tcp(self, address: str, port: int) -> ChannelStream:
        """See Host. It is a channel of the connection: nothing listens on this machine."""
        stream = ChannelStream(self.name)
        opening = self._connection().create_connection(
            lambda: stream, address, port, encoding=None, window=WINDOW
        )
        await self._open(stream, opening, f"{address}:{port}")
        return stream

    async def close(self) -> None:
        """See Host."""
        logins, self._logins = self._logins, []
        for login in reversed(logins):
            await login.close()

    async def _travel(self) -> None:
        config = Config(self._files)
        hops = await in_background(lambda: config.route(self._alias, self._overrides))
        self.address = _address(hops)
        for hop in hops:
            login = Login(hop, config.command(hop), self._logins[-1] if self._logins else None)
            self._logins.append(login)
            await login.open(self._keepalive, self._connect_limit_s)

    async def _explain(self, error: Exception) -> HostError:
        if self._logins:
            return await self._logins[-1].explain(error)
        return ConnectionFailed(
            "the SSH configuration cannot be read in time",
            where=self.name,
            cause="the home folder, or a command of `Match exec`, does not answer",
            next_step=f"try `ssh -G {self._alias}`",
        )

    def _connection(self) -> asyncssh.SSHClientConnection:
        connection = self._logins[-1].connection if self._logins else None
        if not connection:
            raise ConnectionLost("there is no connection", where=self.name)
        return connection

    async def _open(self, stream: ChannelStream, opening: Coroutine[Any, Any, object], target: str) -> None:
        """Wait for a channel, but not for ever; one that opens after that is closed."""
        task = asyncio.create_task(opening, name=f"opening {target}")
        try:
            async with asyncio.timeout(self._open_limit_s):
                await asyncio.shield(task)
        except TimeoutError as error:
            raise not_opened(self.name, target, self._open_limit_s) from error
        except asyncssh.ChannelOpenError as error:
            # Nobody is logged in any more when `close` came meanwhile.
            loss = self._logins[-1].loss if self._logins else "it was closed here"
            raise channel_refused(error, self.name, target, loss) from error
        finally:
            if not task.done():
                task.add_done_callback(partial(_close_late, stream))


def _close_late(stream: ChannelStream, task: asyncio.Task[object]) -> None:
    if not task.cancelled() and not task.exception():
        stream.close()


def _address(hops: Sequence[Hop]) -> str:
    """`user@host:port via jump, jump`."""
    *jumps, last = hops
    place = last.host if last.port == 22 else f"{last.host}:{last.port}"
    via = f" via {', '.join(hop.alias for hop in jumps)}" if jumps else ""
    return f"{last.user}@{place}{via}"


def _texts(paths: Sequence[str | Path] | None) -> tuple[str, ...] | None:
    return None if paths is None else tuple(str(path) for path in paths)
