"""One HTTP request to a port on a host, and what came of it. A port that refuses, keeps silent or speaks
nonsense is a reply too, never an exception.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, TypeVar

import httpx
import msgspec

from console.domain.readiness import Health as HealthState

_T = TypeVar("_T")

MAX_BODY = 4 * 1024 * 1024
"""Bytes. A page of metrics has 0.1 MiB; a port that never stops sending is no SGLang."""

_REFUSED = ("Connection refused", "[Errno 111]")
"""As OpenSSH and as servers written in Python pass it on."""


class Reply(NamedTuple):
    """A response, or why there is none."""

    path: str = ""
    status: int | None = None
    body: bytes = b""
    state: HealthState = "unknown"
    note: str | None = None

    def decoded(self, kind: type[_T], statuses: tuple[int, ...] = (200,)) -> _T | None:
        """The JSON body; None when it is another status or another shape."""
        if self.status not in statuses:
            return None
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.DecodeError:
            return None


async def ask(
    http: httpx.AsyncClient, method: str, port: int, path: str, limit_s: float, **options: Any
) -> Reply:
    """The whole body within the limit; `options` are those of httpx.AsyncClient.stream."""
    try:
        async with (
            asyncio.timeout(limit_s),
            http.stream(method, f"http://127.0.0.1:{port}{path}", **options) as response,
        ):
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_BODY:
                    return Reply(path, note=f"port {port} sends more than {MAX_BODY >> 20} MiB")
            return Reply(path, response.status_code, bytes(body))
    except (TimeoutError, httpx.TimeoutException):
        return Reply(path, state="silent", note=f"no answer from port {port} within {limit_s:g} s")
    except httpx.HTTPError as error:
        if _is_refused(error):
            return Reply(path, state="refused", note=f"nothing listens on port {port}")
        return Reply(path, note=f"port {port}: {str(error) or 'the connection broke off'}")


def _is_refused(error: BaseException | None) -> bool:
    """Refused by the port itself: neither by sshd nor for any other reason on the way there."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError) or any(words in str(error) for words in _REFUSED):
            return True
        error = error.__cause__ or error.__context__
    return False
