"""A server of the test's own loop that gives every request one answer, whole or not.

`async with serving(whole) as (server, url)`; a request is a POST of a body that begins with `ask`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

LIMIT_S = 20.0
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BEGUN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What a server does once it has read a request."""


class Server:
    """A server of one answer. `requests` counts those of each connection; `hung_up`: a client did."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[int] = []
        self.hung_up = asyncio.Event()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    @property
    def connections(self) -> int:
        return sum(not task.done() for task in self._tasks)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.requests)
        self.requests.append(0)
        try:
            while not writer.is_closing():
                await reader.readuntil(b"\r\n\r\nask")
                self.requests[number] += 1
                await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(answer: Answer, host: str = "127.0.0.1") -> AsyncIterator[tuple[Server, str]]:
    """A server, and its address."""
    served = Server(answer)
    async with await asyncio.start_server(served.accept, host, 0) as listener, asyncio.timeout(LIMIT_S):
        port = listener.sockets[0].getsockname()[1]
        yield served, f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        await served.close()


async def whole(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(WHOLE)


async def begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Half an answer; the rest never comes."""
    writer.write(BEGUN)
    await reader.readexactly(1)


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Half an answer, and RST."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.write(BEGUN)
    await writer.drain()
    writer.transport.abort()


def closing_after(data: bytes) -> Answer:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    return answer


def half_closing_after(data: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.write_eof()
        await reader.read()

    return answer
