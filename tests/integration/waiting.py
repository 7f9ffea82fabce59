"""Waiting for something to become true, never for time to pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from console.remote.host import ByteStream

PATIENCE_S = 10.0


def wait_until(condition: Callable[[], object], otherwise: str) -> None:
    """Wait for `condition()` to be true; AssertionError after ten seconds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


async def eventually(condition: Callable[[], object], otherwise: str) -> None:
    """The same without holding up the event loop."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, otherwise
        await asyncio.sleep(0.01)


async def read_until(stream: ByteStream, mark: bytes) -> bytes:
    """Everything up to the piece that holds `mark`."""
    seen = b""
    async with asyncio.timeout(PATIENCE_S):
        while mark not in seen:
            piece = await stream.read(65536)
            assert piece, f"ended before {mark!r}: {seen!r}"
            seen += piece
    return seen
