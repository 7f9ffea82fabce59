"""A request for text on its way to a prefill and a decode worker, and back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from demohost import webclient
from demohost.webserver import Request, Response, json_response

from sglang_router.gateway_metrics import GatewayMetrics
from sglang_router.router_args import RouterArgs
from sglang_router.tracing_log import log, request_span
from sglang_router.workers import Worker, Workers

_FIRST_BACKOFF_S, _BACKOFF_GROWTH = 0.05, 1.5
_ROOMS = 2**63
_MODEL = "default"


class _Route(NamedTuple):
    """The workers of one attempt: a pair, or one alone."""

    decode: Worker
    prefill: Worker | None = None

    @property
    def workers(self) -> tuple[Worker, ...]:
        return (self.decode,) if self.prefill is None else (self.prefill, self.decode)


class _RouteError(Exception):
    """An attempt did not work."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Forwarding:
    """Sends requests on, tries again, and says what failed."""

    def __init__(self, args: RouterArgs, workers: Workers, metrics: GatewayMetrics) -> None:
        self._args, self._workers, self._metrics = args, workers, metrics
        self._idle = asyncio.Event()
        self._idle.set()
        self._active = 0

    async def drain(self) -> None:
        """Wait for what is on its way."""
        await self._idle.wait()

    async def forward(self, request: Request, request_id: str) -> Response:
        """The answer of the decode worker, or an error of the router's own."""
        if not request.headers.get("content-type", "").startswith("application/json"):
            return Response(415, b"Expected request with `Content-Type: application/json`", "text/plain")
        try:
            body = request.json()
        except ValueError as error:
            return Response(400, f"Failed to parse the request body as JSON: {error}".encode(), "text/plain")
        endpoint = request.path.rpartition("/")[2]
        self._metrics.requested(endpoint, _MODEL, bool(body.get("stream")))
        began = time.monotonic()
        try:
            response = await self._try_repeatedly(request, body, request_id)
        except _RouteError as failure:
            self._metrics.failed(endpoint, _MODEL, failure.code)
            return _error(failure)
        self._metrics.done(endpoint, _MODEL, time.monotonic() - began)
        return response

    async def _try_repeatedly(self, request: Request, body: dict[str, Any], request_id: str) -> Response:
        backoff = _FIRST_BACKOFF_S
        span = request_span(request.method, request.path, request_id)
        for left in reversed(range(self._args.retries)):
            try:
                return await self._try(request.path, body)
            except _RouteError as failure:
                what = (
                    "Failed to select PD pair" if failure.code == "server_selection_failed" else failure.code
                )
                why = str(failure).removeprefix("No available servers: ")
                log("ERROR", "pd_router", 170, what, span, error=why)
                if not left:
                    self._count_retries(self._metrics.retries_exhausted, request.path)
                    raise
            self._count_retries(self._metrics.retries, request.path)
            await asyncio.sleep(backoff)
            backoff *= _BACKOFF_GROWTH
        raise AssertionError("there is at least one attempt")

    def _count_retries(self, series: Any, path: str) -> None:
        for kind in ("prefill", "decode"):
            series.add(1, ("worker_type", kind), ("endpoint", path.rpartition("/")[2]))

    async def _try(self, path: str, body: dict[str, Any]) -> Response:
        route = self._choose()
        async with AsyncExitStack() as stack:
            self._occupy(route, stack)
            sent, prefill = body, None
            if route.prefill:
                sent = {**body, **_bootstrap(route.prefill)}
                prefill = asyncio.create_task(_consume(route.prefill, path, {**sent, "stream": False}))
                stack.callback(prefill.cancel)
            reply = await self._ask_decode(route.decode, path, sent, stack)
            await self._check_prefill(route, prefill, reply.status)
            for worker in route.workers:
                self._workers.succeeded(worker)
                self._metrics.outcomes.add(1, ("worker", worker.address.url), ("outcome", "success"))
            content_type = reply.headers.get("content-type")
            if reply.headers.get("transfer-encoding") == "chunked":
                return Response(reply.status, _relay(reply, prefill, stack.pop_all()), content_type)
            return Response(reply.status, await reply.read(), content_type)

    def _choose(self) -> _Route:
        if not self._args.pairs:
            return _Route(self._one("regular"))
        return _Route(prefill=self._one("prefill"), decode=self._one("decode"))

    def _one(self, kind: Any) -> Worker:
        worker = self._workers.choose(kind)
        if worker is None:
            raise _RouteError(
                503,
                "server_selection_failed",
                f"No available servers: No {kind} workers available. "
                f"Please check if {kind} servers are configured and healthy.",
            )
        self._metrics.selected(kind, _MODEL)
        return worker

    def _occupy(self, route: _Route, stack: AsyncExitStack) -> None:
        """Count the request in at its workers and here, and out when the stack unwinds."""
        self._active += 1
        self._idle.clear()
        stack.callback(self._release)
        for worker in route.workers:
            worker.active += 1
            stack.callback(_release_worker, worker)

    def _release(self) -> None:
        self._active -= 1
        if not self._active:
            self._idle.set()

    async def _ask_decode(
        self, worker: Worker, path: str, body: dict[str, Any], stack: AsyncExitStack
    ) -> webclient.Reply:
        try:
            return await stack.enter_async_context(webclient.request("POST", worker.address.url + path, body))
        except OSError as error:
            self._blame(worker)
            raise _RouteError(502, "decode_server_error", f"Decode server error: {error}") from error

    async def _check_prefill(self, route: _Route, task: asyncio.Task[int] | None, status: int) -> None:
        """When decode failed because prefill did, it is prefill that is to blame."""
        if task is None or route.prefill is None or status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        if task.done() and isinstance(task.exception(), OSError):
            self._blame(route.prefill)
            raise _RouteError(502, "prefill_server_error", f"Prefill server error: {task.exception()}")

    def _blame(self, worker: Worker) -> None:
        self._workers.failed(worker)
        self._metrics.outcomes.add(1, ("worker", worker.address.url), ("outcome", "failure"))
        kind = ("worker_type", worker.address.kind)
        self._metrics.worker_errors.add(1, kind, ("connection_mode", "http"), ("error_type", "backend_error"))


def _release_worker(worker: Worker) -> None:
    worker.active -= 1


def _bootstrap(prefill: Worker) -> dict[str, Any]:
    address = prefill.address
    host = urlsplit(address.url).hostname
    room = random.randrange(_ROOMS)
    return {"bootstrap_host": host, "bootstrap_port": address.bootstrap_port, "bootstrap_room": room}


async def _consume(worker: Worker, path: str, body: dict[str, Any]) -> int:
    """Prefill's answer is read and dropped."""
    async with webclient.request("POST", worker.address.url + path, body) as reply:
        await reply.read()
        return reply.status


async def _relay(
    reply: webclient.Reply, prefill: asyncio.Task[int] | None, stack: AsyncExitStack
) -> AsyncGenerator[bytes, None]:
    """The chunks as they come. A stream that breaks off just ends."""
    async with stack:
        with suppress(ConnectionError):
            async for chunk in reply.chunks():
                yield chunk
        if prefill:
            with suppress(OSError):
                await prefill


def _error(failure: _RouteError) -> Response:
    content = {"type": HTTPStatus(failure.status).phrase, "code": failure.code, "message": str(failure)}
    answer = json_response({"error": content}, failure.status)
    return answer._replace(headers=(("x-smg-error-code", failure.code),))
