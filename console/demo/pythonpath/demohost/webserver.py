"""A small HTTP/1.1 server on asyncio: keep-alive, bodies by Content-Length, answers whole or chunked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

MAX_BODY = 64 * 1024 * 1024


class Request(NamedTuple):
    """One request. Header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    peer: str
    """HOST:PORT of the client."""

    def json(self) -> dict[str, Any]:
        """The body as a JSON object. Raises ValueError for anything else."""
        found = json.loads(self.body)
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        return found


class Response(NamedTuple):
    """One answer; a stream is sent in chunks as it comes."""

    status: int = 200
    body: bytes | AsyncGenerator[bytes, None] = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def phrase(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase


Handler = Callable[[Request], Awaitable[Response]]
OnAnswer = Callable[[Request, int], None]
"""Called when an answer begins, with its status: for access logs."""


def json_response(content: object, status: int = 200) -> Response:
    """An answer with a JSON body."""
    return Response(status, json.dumps(content, separators=(",", ":")).encode(), "application/json")


def text_response(text: str, status: int = 200) -> Response:
    """An answer in plain text."""
    return Response(status, text.encode(), "text/plain; charset=utf-8")


async def serve(handler: Handler, host: str, port: int, on_answer: OnAnswer | None = None) -> asyncio.Server:
    """Listen. Raises OSError when the port is taken."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = _Conversation(reader, writer, handler, on_answer)
        # The client may go at any time; what was being made for it is dropped.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while await conversation.turn():
                pass
        writer.close()

    return await asyncio.start_server(converse, host, port)


class _Conversation:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        on_answer: OnAnswer | None,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._handler, self._on_answer = handler, on_answer
        host, port = writer.get_extra_info("peername")[:2]
        self._peer = f"{host}:{port}"

    async def turn(self) -> bool:
        """One request and its answer. False when the conversation is over."""
        request = await self._request()
        if request is None:
            return False
        response = await self._answer(request)
        if response is None:
            return False
        if self._on_answer:
            self._on_answer(request, response.status)
        await self._send(response)
        return request.headers.get("connection", "").lower() != "close"

    async def _request(self) -> Request | None:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        method, _, rest = first.partition(" ")
        target = urlsplit(rest.rpartition(" ")[0])
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY:
            await self._send(text_response("Invalid HTTP request received.", 400))
            return None
        body = await self._reader.readexactly(int(length))
        return Request(method, unquote(target.path), dict(parse_qsl(target.query)), headers, body, self._peer)

    async def _answer(self, request: Request) -> Response | None:
        """The handler's answer; None when the client left before it was there."""
        task = asyncio.ensure_future(self._handler(request))
        gone = asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for waiting in (task, gone):
                waiting.cancel()

    async def _gone(self) -> None:
        """Returns when the client has closed. Nothing is read, so a pipelined request is left alone."""
        while not self._reader.at_eof():  # noqa: ASYNC110 - a StreamReader has no event for it
            await asyncio.sleep(0.2)

    async def _send(self, response: Response) -> None:
        self._writer.write(_head(response))
        if isinstance(response.body, bytes):
            self._writer.write(response.body)
        else:
            await self._stream(response.body)
        await self._writer.drain()

    async def _stream(self, body: AsyncGenerator[bytes, None]) -> None:
        async with aclosing(body) as chunks:
            async for chunk in chunks:
                self._writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                await self._writer.drain()
                if self._reader.at_eof():
                    raise ConnectionResetError("the client left")
        self._writer.write(b"0\r\n\r\n")


def _head(response: Response) -> bytes:
    headers = [*response.headers]
    if response.content_type:
        headers.append(("content-type", response.content_type))
    if isinstance(response.body, bytes):
        headers.append(("content-length", str(len(response.body))))
    else:
        headers.append(("transfer-encoding", "chunked"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {response.status} {response.phrase}\r\n{lines}\r\n".encode("latin-1")
