"""The router's workers: found, checked, chosen."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

from demohost import webclient
from demohost.clock import scaled

from sglang_router.router_args import RouterArgs, WorkerAddress, WorkerType
from sglang_router.tracing_log import log

_CHECK_TIMEOUT_S = 5.0
_RETRY_S = (1.0, 2.0, 3.0, 4.0, 5.0)
_INFO_FIELDS = (
    "model_path",
    "served_model_name",
    "tp_size",
    "dp_size",
    "load_balance_method",
    "disaggregation_mode",
)


class Worker:
    """One registered worker."""

    def __init__(self, address: WorkerAddress, info: dict[str, Any]) -> None:
        self.address = address
        self.id = str(uuid4())
        self.model = str(info["served_model_name"])
        self.metadata = {name: str(info[name]) for name in _INFO_FIELDS if info.get(name) is not None}
        self.healthy = True
        self.active = 0
        """Requests that it works on for this router."""
        self.failures = 0
        """Consecutive, of requests."""
        self.successes = 0
        self.opened_at: float | None = None
        """When its circuit opened."""

    def as_json(self) -> dict[str, Any]:
        """As in /workers."""
        address = self.address
        bootstrap = {"bootstrap_port": address.bootstrap_port} if address.bootstrap_port else {}
        return {
            "id": self.id,
            "url": address.url,
            "model_id": self.model,
            "priority": 50,
            "cost": 1.0,
            "worker_type": address.kind,
            "is_healthy": self.healthy,
            "load": self.active,
            "connection_mode": "HTTP",
            **bootstrap,
            "metadata": self.metadata,
            "disable_health_check": False,
        }


class Workers:
    """All workers of the command line that were reached at least once."""

    def __init__(self, args: RouterArgs) -> None:
        self._args = args
        self._found: list[Worker] = []
        self._tasks: list[asyncio.Task[None]] = []

    def __iter__(self) -> Any:
        return iter(self._found)

    def start(self) -> None:
        """Look for all workers, each in its own time."""
        self._tasks = [asyncio.create_task(self._tend(address)) for address in self._args.workers]

    def stop(self) -> None:
        """Stop looking after them."""
        for task in self._tasks:
            task.cancel()

    def healthy(self, kind: WorkerType) -> list[Worker]:
        """Workers of a kind that are believed to be alive."""
        return [worker for worker in self._found if worker.address.kind == kind and worker.healthy]

    def choose(self, kind: WorkerType) -> Worker | None:
        """One that is healthy and whose circuit is closed, or open for long enough to try again."""
        usable = [worker for worker in self.healthy(kind) if not self._is_open(worker)]
        return random.choice(usable) if usable else None

    def succeeded(self, worker: Worker) -> None:
        """A request went well."""
        worker.failures, worker.opened_at = 0, None
        worker.successes += 1

    def failed(self, worker: Worker) -> None:
        """A request went wrong."""
        worker.failures, worker.successes = worker.failures + 1, 0
        if self._args.breaker_failures and worker.failures >= self._args.breaker_failures:
            worker.opened_at = time.monotonic()

    def _is_open(self, worker: Worker) -> bool:
        opened = worker.opened_at
        return opened is not None and time.monotonic() - opened < self._args.breaker_open_s

    async def _tend(self, address: WorkerAddress) -> None:
        worker = await self._register(address)
        self._found.append(worker)
        log("INFO", "activate", 31, "Activated 1 worker(s) (marked as healthy)")
        if self._args.health_checks:
            await self._check_forever(worker)

    async def _register(self, address: WorkerAddress) -> Worker:
        instance, attempt = uuid4(), 0
        log(
            "INFO",
            "event",
            197,
            "Workflow started",
            instance_id=instance,
            definition_id="local_worker_registration",
        )
        while True:
            attempt += 1
            step: dict[str, Any] = {"instance_id": instance, "step_id": "detect_connection_mode"}
            log("INFO", "event", 208, "Step started", **step, attempt=attempt)
            with suppress(OSError, TimeoutError):
                if await _is_healthy(address.url):
                    worker = Worker(address, await _info(address.url))
                    log("INFO", "event", 259, "Workflow completed", instance_id=instance)
                    return worker
            delay = _RETRY_S[min(attempt, len(_RETRY_S)) - 1]
            log(
                "WARN",
                "event",
                233,
                "Step failed",
                **step,
                error=_unreachable(address.url),
                will_retry="true",
            )
            log(
                "INFO",
                "event",
                247,
                "Step retrying",
                **step,
                attempt=attempt + 1,
                delay_ms=round(delay * 1000),
            )
            await asyncio.sleep(scaled(delay))

    async def _check_forever(self, worker: Worker) -> None:
        failures = successes = 0
        while True:
            await asyncio.sleep(scaled(self._args.health_interval_s))
            try:
                alive, why = await _is_healthy(worker.address.url), "503 Service Unavailable"
            except (OSError, TimeoutError) as error:
                alive, why = False, repr(error)
            failures, successes = (0, successes + 1) if alive else (failures + 1, 0)
            if not alive:
                log("WARN", "worker", 948, f"HTTP health check failed for {worker.address.url}/health: {why}")
            if failures >= self._args.health_failures:
                worker.healthy = False
            elif successes >= self._args.health_successes:
                worker.healthy = True


async def _is_healthy(url: str) -> bool:
    async with asyncio.timeout(_CHECK_TIMEOUT_S), webclient.request("GET", f"{url}/health") as reply:
        return reply.status == 200


async def _info(url: str) -> dict[str, Any]:
    async with asyncio.timeout(_CHECK_TIMEOUT_S), webclient.request("GET", f"{url}/server_info") as reply:
        found: dict[str, Any] = await reply.json()
        return found


def _unreachable(url: str) -> str:
    return (
        f'"Step failed: detect_connection_mode - Both HTTP and gRPC health checks failed for {url}: HTTP: '
        f"Health check failed: error sending request for url ({url}/health), gRPC: gRPC failed (tried SGLang "
        'and vLLM): gRPC connection failed: transport error"'
    )
