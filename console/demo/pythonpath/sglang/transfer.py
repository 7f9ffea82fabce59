"""The KV transfer between the two roles: prefill's bootstrap server, and decode that asks it.

A request goes to both roles with the same room number. Decode asks prefill for the room; prefill answers when
the prompt is computed, and its own part of the request is done when decode has taken it.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from demohost import webclient
from demohost.webserver import Request, Response, json_response, text_response

BOOTSTRAP_TIMEOUT_S = 300.0


class TransferError(Exception):
    """The KV cache of a request did not arrive. The text is SGLang's."""


class ComputedPrompt(NamedTuple):
    """What is known of a prompt once prefill has been through it."""

    tokens: int
    cached_tokens: int


class _Room:
    def __init__(self) -> None:
        self.ready: asyncio.Future[ComputedPrompt] = asyncio.get_running_loop().create_future()
        self.taken = asyncio.Event()


class Outbox:
    """Prefill's side."""

    def __init__(self) -> None:
        self._rooms: dict[int, _Room] = {}

    async def deliver(self, room: int, computed: ComputedPrompt) -> None:
        """Offer what was computed, and wait until decode has it. Raises TransferError."""
        place = self._room(room)
        place.ready.set_result(computed)
        try:
            await asyncio.wait_for(place.taken.wait(), BOOTSTRAP_TIMEOUT_S)
        except TimeoutError as error:
            raise TransferError(
                f"Request {room} timed out after {BOOTSTRAP_TIMEOUT_S:.1f}s in KVPoll.Bootstrapping"
            ) from error
        finally:
            del self._rooms[room]

    async def answer(self, request: Request) -> Response:
        """The bootstrap server: /health, and /room/NUMBER, which waits for the prompt."""
        if request.path == "/health":
            return text_response("OK")
        kind, _, number = request.path.removeprefix("/").partition("/")
        if kind != "room" or not number.isdigit():
            return text_response("Not Found", 404)
        place = self._room(int(number))
        computed = await asyncio.shield(place.ready)
        place.taken.set()
        return json_response(computed._asdict())

    def _room(self, number: int) -> _Room:
        return self._rooms.setdefault(number, _Room())


async def fetch(host: str, port: int, room: int) -> ComputedPrompt:
    """Decode's side: wait for the KV cache of a room. Raises TransferError."""
    try:
        async with (
            asyncio.timeout(BOOTSTRAP_TIMEOUT_S),
            webclient.request("GET", f"http://{host}:{port}/room/{room}") as reply,
        ):
            return ComputedPrompt(**await reply.json())
    except TimeoutError as error:
        raise TransferError(
            f"Request {room} timed out after {BOOTSTRAP_TIMEOUT_S:.1f}s in KVPoll.WaitingForInput"
        ) from error
    except OSError as error:
        raise TransferError(
            f"Lost connection with prefill instance (bootstrap_addr: {host}:{port})"
        ) from error
