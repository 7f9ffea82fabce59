"""Streams over one SSH connection: a program's stdin and stdout, and TCP connections made from the host.

asyncssh grants the sender a fresh window for each chunk that it hands on, however much it still holds back:
its own streams grow without limit under a slow reader (190 MB in 5 s were measured). Here reading resumes
only when everything was taken, and LIMIT is no less than WINDOW: what was held back is all handed on before
the next pause, and a stream never holds more than LIMIT and WINDOW together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import asyncssh

from console.domain.errors import ConnectionLost
from console.remote.last_words import STILL_RUNS, LastWords

WINDOW = 131072
"""Bytes the host may send ahead. Caps a stream at WINDOW / round trip: 2.6 MB/s at 50 ms."""

LIMIT = 131072
"""Unread bytes at which reading pauses."""

EXIT_STATUS_LIMIT_S = 2.0


class ChannelStream(asyncssh.SSHTCPSession[bytes]):
    """A ByteStream over a direct-tcpip channel."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._channel: Any = None
        self._unread = bytearray()
        self._paused = False
        self._eof = False
        self._over = asyncio.Event()
        self._loss: Exception | None = None
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    async def read(self, limit: int) -> bytes:
        """See ByteStream."""
        while not self._unread and not self._eof:
            self._news.clear()
            await self._news.wait()
        if self._unread:
            return self._take(limit)
        if self._loss:
            raise self._lost() from self._loss
        return b""

    async def write(self, data: bytes) -> None:
        """See ByteStream."""
        try:
            self._channel.write(data)
        except OSError as error:
            raise self._lost() from self._loss or error
        await self._writable.wait()
        if self._loss:
            raise self._lost() from self._loss

    def at_eof(self) -> bool:
        """See ByteStream."""
        return self._eof and not self._unread

    def close(self) -> None:
        """See ByteStream."""
        self._channel.close()

    def connection_made(self, chan: Any) -> None:
        """asyncssh: the channel is open."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """asyncssh: bytes from the host."""
        self._unread += data
        if len(self._unread) >= LIMIT and not self._paused:
            self._paused = True
            self._channel.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        """asyncssh: nothing more will come; what we send may still be wanted."""
        self._end_reading()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncssh: the channel is gone, with `exc` when the connection under it is."""
        self._loss = exc
        self._over.set()
        self._writable.set()
        self._end_reading()

    def pause_writing(self) -> None:
        """asyncssh: the host does not take what we send."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """asyncssh: the host takes again."""
        self._writable.set()

    def _take(self, limit: int) -> bytes:
        taken = bytes(self._unread[:limit])
        del self._unread[:limit]
        if self._paused and not self._unread:
            self._paused = False
            self._channel.resume_reading()
        return taken

    def _end_reading(self) -> None:
        self._eof = True
        self._news.set()

    def _lost(self) -> ConnectionLost:
        if self._loss:
            return ConnectionLost("the connection was lost", where=self._host, cause=str(self._loss))
        return ConnectionLost("the stream is closed", where=self._host)


class ProgramChannel(ChannelStream, asyncssh.SSHClientSession[bytes]):
    """A ByteChannel over a session channel."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self._words = LastWords()
        self._how: Callable[[], str] = lambda: "ended without an exit status"

    async def ended(self) -> str:
        """See ByteChannel."""
        try:
            async with asyncio.timeout(EXIT_STATUS_LIMIT_S):
                await self._over.wait()
        except TimeoutError:
            return STILL_RUNS
        return f"the connection was lost: {self._loss}" if self._loss else self._how()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """asyncssh: bytes from the program."""
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self._words.hear(data)
        else:
            super().data_received(data, datatype)

    def exit_status_received(self, status: int) -> None:
        """asyncssh: the program ended by itself."""
        self._how = partial(self._words.after_status, status)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """asyncssh: the program was killed."""
        self._how = partial(self._words.after_signal, signal)
