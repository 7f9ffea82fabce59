"""HTTP to servers on a host, each connection a stream made by the host: no port listens on this machine.

A port forwarded by a listener accepts first and then closes without a reason when the server is gone; here a
refused connection is httpx.ConnectError with its reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpcore
import httpx

from console.domain.errors import HostError
from console.remote.host import ByteStream, Host

KEEP_IDLE_S = 4.0
"""Less than the 5 s after which uvicorn closes an idle connection."""

MOST_CONNECTIONS = 16

ERRORS: dict[type[Exception], type[httpx.TransportError]] = {
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
}


class HostTransport(httpx.AsyncBaseTransport):
    """For `httpx.AsyncClient(transport=HostTransport(host))`: 127.0.0.1 in a URL is the host's own."""

    def __init__(self, host: Host) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=MOST_CONNECTIONS,
            keepalive_expiry=KEEP_IDLE_S,
            network_backend=_Backend(host),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx. Raises httpx.TransportError; https is not offered, for SSH already protects the way."""
        if request.url.scheme != "http":
            raise httpx.UnsupportedProtocol(f"only http goes through the host, not {request.url.scheme}")
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
    """httpcore's network, by way of the host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        with _as_httpcore(httpcore.ConnectTimeout, httpcore.ConnectError):
            async with asyncio.timeout(timeout):
                return _Stream(await self._host.open_tcp(host, port))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    """A ByteStream as httpcore wants it."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        with _as_httpcore(httpcore.ReadTimeout, httpcore.ReadError):
            async with asyncio.timeout(timeout):
                return await self._stream.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        with _as_httpcore(httpcore.WriteTimeout, httpcore.WriteError):
            async with asyncio.timeout(timeout):
                await self._stream.write(buffer)

    async def aclose(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        # The pool asks this of an idle connection, to see whether the server has closed it.
        return self._stream.at_eof() if info == "is_readable" else None


@contextlib.contextmanager
def _as_httpcore(timed_out: type[Exception], failed: type[Exception]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise timed_out("the host did not answer in time") from error
    except HostError as error:
        raise failed(str(error)) from error


@contextlib.contextmanager
def _as_httpx() -> Iterator[None]:
    try:
        yield
    except tuple(ERRORS) as error:
        raise ERRORS[type(error)](str(error)) from error
