"""The server's HTTP endpoints, those of SGLang 0.5.23 that a console, a router or a benchmark asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from demohost.cards import NAME
from demohost.clock import scaled
from demohost.webserver import Handler, Request, Response, json_response, text_response

from sglang import __version__
from sglang.completions import Completions
from sglang.prefix_cache import PrefixCache
from sglang.reporter import deprecated
from sglang.server_args import ARCHITECTURE
from sglang.serving import Serving

_OPEN_PATHS = ("/health", "/ready", "/metrics")
_HEALTH_CHECK_S = 1.0
"""A real health check generates a token and looks for it once a second."""


class HttpApi:
    """Routes requests to their answers."""

    def __init__(self, serving: Serving, completions: Completions, cache: PrefixCache) -> None:
        self._serving, self._cache = serving, cache
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health,
            ("GET", "/ready"): self._ready,
            ("GET", "/model_info"): self._model_info,
            ("GET", "/get_model_info"): self._renamed("/get_model_info", "/model_info", self._model_info),
            ("GET", "/server_info"): self._server_info,
            ("GET", "/get_server_info"): self._renamed("/get_server_info", "/server_info", self._server_info),
            ("GET", "/v1/models"): self._models,
            ("GET", "/v1/loads"): self._loads,
            ("GET", "/flush_cache"): self._flush_cache,
            ("POST", "/flush_cache"): self._flush_cache,
            ("POST", "/freeze_gc"): self._freeze_gc,
            ("POST", "/generate"): completions.generate,
            ("POST", "/v1/completions"): completions.complete,
            ("POST", "/v1/chat/completions"): completions.chat,
        }
        if serving.args.resolved["enable_metrics"]:
            self._routes["GET", "/metrics"] = self._metrics

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        handler = self._routes.get((request.method, request.path))
        if handler is None:
            known = any(path == request.path for _, path in self._routes)
            return json_response(
                {"detail": "Method Not Allowed" if known else "Not Found"}, 405 if known else 404
            )
        if not self._allowed(request):
            return json_response({"error": "Unauthorized"}, 401)
        metrics, endpoint = self._serving.engine.metrics, ("endpoint", request.path)
        metrics.http_requests.add(1, endpoint, ("method", request.method))
        response = await handler(request)
        metrics.http_responses.add(
            1, endpoint, ("method", request.method), ("status_code", str(response.status))
        )
        return response

    def access(self, request: Request, status: int) -> None:
        """Write the access log."""
        excluded = tuple(self._serving.args.resolved["uvicorn_access_log_exclude_prefixes"])
        if excluded and request.path.startswith(excluded):
            return
        phrase = Response(status).phrase
        self._serving.log.uvicorn(
            "INFO", f'{request.peer} - "{request.method} {request.path} HTTP/1.1" {status} {phrase}'
        )

    def _allowed(self, request: Request) -> bool:
        key = self._serving.args.resolved["api_key"]
        opened = request.path.startswith(_OPEN_PATHS)
        return opened or not key or request.headers.get("authorization") == f"Bearer {key}"

    async def _health(self, request: Request) -> Response:
        if self._serving.status == "stopping":
            self._serving.log.line("Health check request received during shutdown. Returning 503.")
        if self._serving.status != "up":
            return Response(503)
        await asyncio.sleep(scaled(_HEALTH_CHECK_S))
        return Response(200)

    async def _ready(self, request: Request) -> Response:
        return Response(200 if self._serving.status == "up" else 503)

    def _renamed(
        self, old: str, new: str, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            self._serving.log.line(deprecated(old, new))
            return await handler(request)

        return answer

    async def _model_info(self, request: Request) -> Response:
        args = self._serving.args
        copied = ("tokenizer_path", "preferred_sampling_params", "weight_version", "load_format")
        parsers = ("reasoning_parser", "tool_call_parser", "disaggregation_mode")
        return json_response(
            {
                "model_path": args.model_path,
                "served_model_name": args.served_model_name,
                "is_generation": True,
                **{name: args.resolved[name] for name in (*copied, *parsers)},
                "has_image_understanding": False,
                "has_audio_understanding": False,
                "model_type": "deepseek_v4",
                "architectures": [ARCHITECTURE],
            }
        )

    async def _server_info(self, request: Request) -> Response:
        serving = self._serving
        return json_response(
            {
                **serving.args.resolved,
                "launch_command": list(serving.args.command),
                "max_total_num_tokens": serving.plan.tokens,
                "kv_events": None,
                "startup_time": serving.startup_times,
                "internal_states": [self._internal_state()],
                "version": __version__,
                "frontend": "python",
            }
        )

    def _internal_state(self) -> dict[str, Any]:
        serving = self._serving
        plan = serving.plan
        return {
            **serving.args.resolved,
            "last_gen_throughput": serving.reporter.gen_tok_s,
            "avg_spec_accept_length": serving.args.accept_length if serving.args.speculates else None,
            "memory_usage": {
                "weight": round(plan.weights_gb, 2),
                "kvcache": round(plan.kv_gb, 2),
                "token_capacity": plan.tokens,
                "graph": round(plan.graph_gb, 2),
            },
            "effective_max_running_requests_per_dp": serving.args.resolved["max_running_requests"],
        }

    async def _models(self, request: Request) -> Response:
        args = self._serving.args
        card = {
            "id": args.served_model_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": args.served_model_name,
            "parent": None,
            "max_model_len": args.resolved["context_length"],
        }
        return json_response({"object": "list", "data": [card]})

    async def _loads(self, request: Request) -> Response:
        asked = request.query.get("include")
        sections = {"all"} if asked is None else {section.strip() for section in asked.split(",")}
        unknown = sections - {"core", "memory", "spec", "lora", "disagg", "queues", "all"}
        if unknown:
            return json_response({"detail": f"Invalid include sections: {unknown}"}, 400)
        return json_response(
            {
                "timestamp": datetime.now(UTC).isoformat(),
                "version": __version__,
                "accelerator": NAME,
                "num_accelerators": self._serving.args.tp_size,
                "loads": [self._load(sections)],
            }
        )

    def _load(self, sections: set[str]) -> dict[str, Any]:
        serving, engine = self._serving, self._serving.engine
        load: dict[str, Any] = {
            "timestamp": time.time(),
            "dp_rank": 0,
            "num_running_reqs": engine.running,
            "num_waiting_reqs": engine.queued,
            "num_used_tokens": engine.used_tokens,
            "num_total_tokens": engine.used_tokens,
            "max_total_num_tokens": serving.plan.tokens,
            "max_running_requests": serving.args.resolved["max_running_requests"],
            "token_usage": round(engine.usage, 2),
            "gen_throughput": serving.reporter.gen_tok_s,
            "cache_hit_rate": serving.cache_hit_rate,
            "utilization": 0.0,
        }
        if sections & {"all", "disagg"}:
            load["disaggregation"] = serving.disaggregation()
        if serving.args.speculates and sections & {"all", "spec"}:
            load["speculative"] = {
                "accept_length": serving.args.accept_length,
                "accept_rate": serving.accept_rate,
            }
        return load

    async def _flush_cache(self, request: Request) -> Response:
        if self._serving.engine.running:
            return text_response("Flush cache failed.\n", 400)
        self._cache.flush()
        self._serving.log.line("Cache flushed successfully!", rank=0)
        return text_response(
            "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting "
            "requests, the operation will not be performed.)\n"
        )

    async def _freeze_gc(self, request: Request) -> Response:
        return text_response("Garbage collection frozen.\n")

    async def _metrics(self, request: Request) -> Response:
        text = self._serving.metrics_page()
        return Response(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
