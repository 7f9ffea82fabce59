"""One request of a load, from its dispatch to the last byte of its answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any, AsyncIterator, Callable, Dict

import httpx

from .loadanswer import Answer, refusal
from .loadtransport import LoadTransport
from .sse import EventReader

REFUSAL_BYTES = 4096

Spec = Dict[str, Any]
At = Callable[[float], None]
"""Is told the time of something, on the monotonic clock."""


class Turn:
    """The moment at which a request is written, one request after the other.

    When many places become free at once, each request would otherwise wait, between its time stamp and its
    last byte, for the work of all others. httpcore calls `trace` around each of its steps.
    """

    def __init__(self, turns: asyncio.Lock, at: At) -> None:
        self._turns = turns
        self._at = at
        self._has_it = False

    async def trace(self, step: str, _info: dict[str, Any]) -> None:
        """The connection stands, and the request is written; or it has been."""
        if step == "http11.send_request_headers.started":
            await self._turns.acquire()
            self._has_it = True
            self._at(time.monotonic())
        elif step == "http11.send_request_body.complete":
            self.end()

    def end(self) -> None:
        """Let the next one write, also when this could not."""
        if self._has_it:
            self._has_it = False
            self._turns.release()


class Endpoint:
    """Where the requests of one process go. Made where its loop runs."""

    def __init__(self, spec: Spec) -> None:
        self.url: str = spec["url"]
        self._spec = spec
        self._turns = asyncio.Lock()
        self.client = client(spec.get("api_key"))

    @contextlib.asynccontextmanager
    async def answered(self, body: bytes, sent: At) -> AsyncIterator[httpx.Response]:
        """The response to a request. Raises httpx.TransportError."""
        turn = Turn(self._turns, sent)
        request = self.client.build_request("POST", self.url, content=body, extensions={"trace": turn.trace})
        try:
            response = await self.client.send(request, stream=True)
        finally:
            turn.end()
        try:
            yield response
        finally:
            await response.aclose()

    def body(self, prompt: str) -> bytes:
        """The request for one prompt."""
        content = {
            "model": self._spec["model"],
            "prompt": prompt,
            "max_tokens": self._spec["output_tokens"],
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return json.dumps(content).encode()


class Flight:
    """A request under way. It is told when the request is written, and when each chunk with text arrives."""

    def __init__(self, index: int, sent: At, chunk: At) -> None:
        self.answer = Answer(index)
        self.heard_at = time.monotonic()
        self._sent = sent
        self._chunk = chunk
        self._cut: tuple[str, str] | None = None
        """Why it was cut, as kind and reason."""
        self._task: asyncio.Task[None] | None = None

    def end(self, kind: str, reason: str) -> None:
        """Cut it."""
        if self._cut is None and self._task is not None:
            self._cut = (kind, reason)
            self._task.cancel()

    async def fly(self, endpoint: Endpoint, prompt: str) -> None:
        """Ask, and read the answer to its end, whatever that is."""
        # A task of its own, so that it can be cut alone.
        self._task = asyncio.create_task(self._ask(endpoint, prompt))
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()
        elif self._cut is not None:
            self.answer.fail(*self._cut, at=time.monotonic())
        self.answer.close(time.monotonic())

    def _was_sent(self, at: float) -> None:
        self.answer.sent = self.heard_at = at
        self._sent(at)

    async def _ask(self, endpoint: Endpoint, prompt: str) -> None:
        answer, body = self.answer, endpoint.body(prompt)
        answer.sent = time.monotonic()
        try:
            async with endpoint.answered(body, self._was_sent) as response:
                await self._read(response)
        except asyncio.CancelledError:
            if self._cut is None:
                raise
            answer.fail(*self._cut, at=time.monotonic())
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            answer.fail("refused", f"no connection to {endpoint.url}: {error}", time.monotonic())
        except httpx.TransportError as error:
            said = str(error) or type(error).__name__
            answer.fail("cut off", f"the connection broke off: {said}", time.monotonic())

    async def _read(self, response: httpx.Response) -> None:
        answer = self.answer
        answer.status = response.status_code
        if response.status_code != httpx.codes.OK:
            reason = refusal(response.status_code, await beginning(response))
            answer.fail("rejected", reason, time.monotonic())
            return
        events = EventReader()
        async for data in response.aiter_raw():
            at = self.heard_at = time.monotonic()
            for event in events.feed(data):
                if answer.take(event, at):
                    self._chunk(at)
            if answer.over:
                return


def client(api_key: str | None) -> httpx.AsyncClient:
    """A client whose only limit is ours."""
    headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    return httpx.AsyncClient(transport=LoadTransport(), headers=headers, timeout=None, trust_env=False)


async def beginning(response: httpx.Response) -> bytes:
    """As much of a refusal as tells why."""
    body = b""
    async for data in response.aiter_raw():
        body += data
        if len(body) >= REFUSAL_BYTES:
            break
    return body
