"""The requests of a load over httpcore, on bare sockets of asyncio.

httpcore's own network is anyio, which costs as much as all else where every token is a read of its own,
and a client that is late measures itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any, AsyncIterator, Iterable, Iterator

import httpcore
import httpx


class LoadTransport(httpx.AsyncBaseTransport):
    """For `httpx.AsyncClient(transport=LoadTransport(), timeout=None)`: plain http, and a connection for
    each request, as sglang's client has it. Timeouts are not looked at.

    A connection that is used again is acknowledged late by the kernel (tcp(7), TCP_QUICKACK), and a server
    that does not set TCP_NODELAY, as the router, holds its first token back until then: 40 ms.
    """

    def __init__(self) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None, max_keepalive_connections=0, network_backend=_Backend()
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx. Raises httpx.TransportError."""
        assert isinstance(request.stream, httpx.AsyncByteStream)
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        with _as_httpx():
            response = await self._pool.handle_async_request(
                httpcore.Request(
                    request.method,
                    url,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    """The body as it arrives."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for part in self._response.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._response.aclose()


class _Backend(httpcore.AsyncNetworkBackend):
    """httpcore's network: TCP."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            return _Stream(await connected(host, port))
        except socket.gaierror as error:
            raise httpcore.ConnectError(error.strerror) from error
        except OSError as error:
            # asyncio's own words for it are Python's for an address.
            raise httpcore.ConnectError(os.strerror(error.errno or 0)) from error


class _Stream(httpcore.AsyncNetworkStream):
    """A connected socket, of which the loop is told once, and not at every read as loop.sock_recv does.

    Nothing is read ahead: TCP holds back a server that is too fast.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._watched = False
        self._asked: asyncio.Future[bytes] | None = None
        """The read under way, or the last one."""
        self._max_bytes = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._max_bytes = max_bytes
        self._asked = self._loop.create_future()
        if not self._watched:
            self._watched = True
            self._loop.add_reader(self._socket, self._receive)
        try:
            return await self._asked
        except OSError as error:
            raise httpcore.ReadError(error.strerror) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            await self._loop.sock_sendall(self._socket, buffer)
        except OSError as error:
            raise httpcore.WriteError(error.strerror) from error

    async def aclose(self) -> None:
        self._unwatch()
        self._socket.close()

    def _receive(self) -> None:
        if self._asked is None or self._asked.done():
            self._unwatch()
            return
        try:
            self._asked.set_result(self._socket.recv(self._max_bytes))
        except BlockingIOError:
            pass
        except OSError as error:
            self._asked.set_exception(error)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._socket)


async def connected(host: str, port: int) -> socket.socket:
    """A socket connected to the first address of `host` that takes it. Raises the OSError of the last."""
    loop = asyncio.get_running_loop()
    *others, last = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, address in others:
        with contextlib.suppress(OSError):
            return await connected_to(family, address)
    return await connected_to(last[0], last[4])


async def connected_to(family: int, address: tuple[Any, ...]) -> socket.socket:
    """A socket connected to one address. Raises OSError."""
    with contextlib.ExitStack() as unless_connected:
        sock = unless_connected.enter_context(socket.socket(family, socket.SOCK_STREAM))
        sock.setblocking(False)
        # The head and the body of a request are two writes.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, address)
        unless_connected.pop_all()
    return sock


@contextlib.contextmanager
def _as_httpx() -> Iterator[None]:
    try:
        yield
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        # Both name their errors alike.
        raise getattr(httpx, type(error).__name__)(str(error)) from error
