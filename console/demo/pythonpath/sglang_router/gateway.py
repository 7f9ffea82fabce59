"""The router process: its endpoints, its own state, its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from pathlib import Path

from demohost import state, webclient, webserver
from demohost.webserver import Handler, Request, Response, json_response, text_response

from sglang_router.forwarding import Forwarding
from sglang_router.gateway_metrics import GatewayMetrics
from sglang_router.router_args import RouterArgs
from sglang_router.tracing_log import log, new_request_id, request_span
from sglang_router.workers import Workers

_TICK_S = 0.5
_TEXT_PATHS = {"/generate": "gnt", "/v1/completions": "cmpl", "/v1/chat/completions": "chatcmpl"}


class Gateway:
    """Serves until SIGTERM."""

    def __init__(self, args: RouterArgs, folder: Path) -> None:
        self._args, self._folder = args, folder
        self._workers = Workers(args)
        self._metrics = GatewayMetrics(args.policy)
        self._forwarding = Forwarding(args, self._workers, self._metrics)
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", "/health"): self._alive,
            ("GET", "/liveness"): self._alive,
            ("GET", "/readiness"): self._readiness,
            ("GET", "/health_generate"): self._health_generate,
            ("GET", "/workers"): self._list_workers,
            ("GET", "/v1/models"): self._models,
            ("GET", "/get_loads"): self._loads,
            ("GET", "/get_server_info"): self._server_info,
            ("POST", "/flush_cache"): self._flush_cache,
        }

    async def run(self) -> None:
        """Listen, and do not come back before the end. Exits with 1 when a port is taken."""
        self._announce()
        stop = asyncio.Event()
        for asked in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(asked, stop.set)
        async with AsyncExitStack() as stack:
            try:
                await self._listen(stack)
            except OSError:
                sys.exit("RuntimeError: Address already in use (os error 98)")
            self._workers.start()
            while not stop.is_set():
                self._show()
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _TICK_S)
            log("INFO", "server", 1088, "Received terminate signal, starting graceful shutdown")
            self._workers.stop()
            await self._forwarding.drain()
        state.withdraw(self._folder, os.getpid())

    def _announce(self) -> None:
        args = self._args
        prefill = [(w.url, w.bootstrap_port) for w in args.workers if w.kind == "prefill"]
        decode = [w.url for w in args.workers if w.kind == "decode"]
        urls = ", ".join(f'("{url}", {f"Some({port})" if port else None})' for url, port in prefill)
        mode = "PrefillDecode" if args.pairs else "Regular"
        policy = args.policy.title().replace("_", "")
        log(
            "INFO",
            "server",
            794,
            f"Starting router on {args.host}:{args.port} | mode: {mode} {{ prefill_urls: [{urls}], "
            f"decode_urls: {json.dumps(decode)}, prefill_policy: None, decode_policy: None }} | "
            f"policy: {policy} | max_payload: 512MB",
        )
        log("INFO", "manager", 350, "Starting load monitoring with interval: 30s")
        log("INFO", "server", 985, "Router ready | workers: []")
        log("INFO", "server", 1018, f"Starting server on {args.host}:{args.port}")

    async def _listen(self, stack: AsyncExitStack) -> None:
        args = self._args
        await stack.enter_async_context(
            await webserver.serve(self._metrics_page, args.prometheus_host, args.prometheus_port)
        )
        await stack.enter_async_context(await webserver.serve(self._answer, args.host, args.port))

    def _show(self) -> None:
        """Simulated users come only through a router that can route."""
        if not self._ready():
            state.withdraw(self._folder, os.getpid())
            return
        pid = os.getpid()
        state.publish(
            self._folder,
            state.Occupant(
                pid=pid,
                start_ticks=state.start_ticks(pid) or 0,
                role="router",
                gpus=(),
                ranks=(),
                phase="serving",
                intensity=0.0,
                warmth=0.0,
                mem_mib=0.0,
            ),
        )

    def _ready(self) -> bool:
        if self._args.pairs:
            return bool(self._workers.healthy("prefill") and self._workers.healthy("decode"))
        return bool(self._workers.healthy("regular"))

    async def _answer(self, request: Request) -> Response:
        began = time.monotonic()
        request_id = new_request_id(_TEXT_PATHS.get(request.path, "req"))
        self._metrics.http_requests.add(1, ("method", request.method), ("path", request.path))
        log(
            "INFO",
            "request",
            310,
            "started processing request",
            request_span(request.method, request.path, request_id),
        )
        response = await self._route(request, request_id)
        seconds = time.monotonic() - began
        self._metrics.http_duration.observe(seconds, ("method", request.method), ("path", request.path))
        code = dict(response.headers).get("x-smg-error-code", "")
        self._metrics.http_responses.add(1, ("status_code", str(response.status)), ("error_code", code))
        _log_answer(request, request_id, response.status, seconds)
        return response

    async def _route(self, request: Request, request_id: str) -> Response:
        if request.method == "POST" and request.path in _TEXT_PATHS:
            return await self._forwarding.forward(request, request_id)
        handler = self._routes.get((request.method, request.path))
        if handler:
            return await handler(request)
        return Response(405 if any(path == request.path for _, path in self._routes) else 404)

    async def _alive(self, request: Request) -> Response:
        return text_response("OK")

    async def _readiness(self, request: Request) -> Response:
        if not self._ready():
            return json_response({"status": "not ready", "reason": "insufficient healthy workers"}, 503)
        healthy = sum(worker.healthy for worker in self._workers)
        total = len(list(self._workers))
        return json_response({"status": "ready", "healthy_workers": healthy, "total_workers": total})

    async def _health_generate(self, request: Request) -> Response:
        if any(worker.healthy for worker in self._workers):
            return text_response("At least one router has healthy workers")
        return text_response("No routers with healthy workers available", 503)

    async def _list_workers(self, request: Request) -> Response:
        found = [worker.as_json() for worker in self._workers]
        stats = {
            f"{kind}_count": sum(worker["worker_type"] == kind for worker in found)
            for kind in ("prefill", "decode", "regular")
        }
        return json_response({"workers": found, "total": len(found), "stats": stats})

    async def _models(self, request: Request) -> Response:
        for worker in self._workers:
            with suppress(OSError):
                async with webclient.request("GET", f"{worker.address.url}/v1/models") as reply:
                    return Response(reply.status, await reply.read(), "application/json")
        return text_response("No models available", 503)

    async def _loads(self, request: Request) -> Response:
        """Load -1: it still asks for /get_load, which servers of this version do not have."""
        return json_response({"workers": [{"worker": w.address.url, "load": -1} for w in self._workers]})

    async def _server_info(self, request: Request) -> Response:
        count = len(list(self._workers))
        return json_response({"router_manager": True, "routers_count": 1, "workers_count": count})

    async def _flush_cache(self, request: Request) -> Response:
        flushed, total = 0, 0
        for worker in self._workers:
            total += 1
            with suppress(OSError):
                async with webclient.request("POST", f"{worker.address.url}/flush_cache") as reply:
                    flushed += reply.status == 200
        whole = flushed == total
        counts = {"workers_flushed": flushed, "total_http_workers": total, "total_workers": total}
        message = (
            f"Successfully flushed cache on all {total} HTTP workers"
            if whole
            else f"Cache flush: {flushed} succeeded, {total - flushed} failed (out of {total} HTTP workers)"
        )
        status = "success" if whole else "partial_success"
        return json_response({"status": status, "message": message, **counts}, 200 if whole else 206)

    async def _metrics_page(self, request: Request) -> Response:
        if request.path != "/metrics":
            return Response(404)
        return Response(200, self._metrics.page(self._workers).encode(), "text/plain; charset=utf-8")


def _log_answer(request: Request, request_id: str, status: int, seconds: float) -> None:
    more = {"status_code": status, "latency": round(seconds * 1e6)}
    span = request_span(request.method, request.path, request_id, **more)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log("ERROR", "response", 349, "request failed with server error", span)
    elif status >= HTTPStatus.BAD_REQUEST:
        log("WARN", "response", 354, "request failed with client error", span)
    else:
        log("INFO", "response", 359, "finished processing request", span)
