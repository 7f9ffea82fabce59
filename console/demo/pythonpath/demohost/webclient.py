"""A small HTTP/1.1 client on asyncio: one connection a request, answers read whole or as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Reply(NamedTuple):
    """One answer whose body is still to be read."""

    status: int
    headers: Mapping[str, str]
    reader: asyncio.StreamReader

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Raises ConnectionError when it is cut off."""
        try:
            if self.headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readline() or b"0", 16):
                    yield (await self.reader.readexactly(size + 2))[:-2]
            else:
                yield await self.reader.readexactly(int(self.headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ValueError) as error:
            raise ConnectionResetError("the answer was cut off") from error

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def json(self) -> Any:
        """The whole body, as JSON."""
        return json.loads(await self.read())


@asynccontextmanager
async def request(method: str, url: str, content: object = None) -> AsyncIterator[Reply]:
    """Ask, and read the answer's head. Raises OSError, as ConnectionError is; set a time-out around it."""
    target = urlsplit(url)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    try:
        body = b"" if content is None else json.dumps(content).encode()
        path = target.path + (f"?{target.query}" if target.query else "")
        writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: {target.netloc}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        yield await _head(reader)
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> Reply:
    try:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("no answer") from error
    pairs = (line.partition(":") for line in lines)
    return Reply(int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}, reader)
