"""What an SGLang server or router on the host says over HTTP, from 0.5.5 to 0.5.23 (router 0.3.2).

A port that refuses, keeps silent or speaks nonsense is an answer too, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from console.domain.proof import Answer
from console.domain.readiness import Health as HealthState
from console.remote.completion import complete
from console.remote.reply import Reply, ask

HEALTH_LIMIT_S = 25.0
"""/health generates a token and waits up to 20 s for it (SGLANG_HEALTH_CHECK_TIMEOUT)."""
ASK_LIMIT_S = 10.0

_READY = ("/ready", "/health")
_INFO = ("/server_info", "/get_server_info")
_LOADS = ("/v1/loads", "/get_load")
"""Paths for one question, the cheaper or newer first. To /v1/loads, 0.5.15 says 500 and logs a traceback."""

_SECRET = re.compile(r"api_key|password|secret")


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a server takes requests: `green` is 200, `red` another status."""

    state: HealthState
    code: int | None = None
    """The HTTP status; None when there was no answer."""
    note: str | None = None
    """One sentence unless green."""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a router has a healthy worker of each role; `unknown` also for a port that is no router's."""

    state: HealthState
    healthy: int | None = None
    total: int | None = None
    note: str | None = None


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """A router's workers, as it sees them."""

    prefill: int = 0
    decode: int = 0
    regular: int = 0
    unhealthy: tuple[str, ...] = ()
    """URLs, in the router's order."""

    @property
    def summary(self) -> str:
        """`1+1` for prefill + decode, `2` for regular ones, and how many of them are unhealthy."""
        counts = f"{self.prefill}+{self.decode}" if self.prefill or self.decode else str(self.regular)
        return f"{counts}, {len(self.unhealthy)} unhealthy" if self.unhealthy else counts


class MetricsPage(msgspec.Struct, frozen=True, kw_only=True):
    """/metrics as it came; `text` is None without a 200, and then there is a note."""

    status: int | None = None
    text: str | None = None
    note: str | None = None
    refused: bool = False
    """Nothing listens on the port."""


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about itself."""

    version: str | None
    flags: Mapping[str, Any]
    """Its arguments as it resolved them, keys with underscores; keys and passwords are blotted out."""


class Loads(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of all DP ranks; for a server without /metrics."""

    running: int
    queued: int
    gen_tok_s: float | None = None


class SglangClient:
    """Asks the ports of one host. Each question has a deadline; cancelling one takes effect at once."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        # Deadlines are ours: httpx's count the silence between two reads, not the whole wait.
        # A connection for each question: after a 500, SGLang closes the one it used without a word.
        self._http = httpx.AsyncClient(
            transport=transport, timeout=None, trust_env=False, headers={"Connection": "close"}
        )
        self._works: dict[tuple[int, tuple[str, ...]], str] = {}

    async def aclose(self) -> None:
        """Close the connections to all ports."""
        await self._http.aclose()

    async def health(self, port: int) -> Health:
        """/ready where the version has it, else /health, which costs the server a token."""
        answer = await self._ask(port, _READY, HEALTH_LIMIT_S)
        if answer.status is None:
            return Health(state=answer.state, note=answer.note)
        if answer.status == 200:
            return Health(state="green", code=200)
        return Health(state="red", code=answer.status, note=f"{answer.path} answers {answer.status}")

    async def readiness(self, port: int) -> Readiness:
        """A router's /readiness; its /health is 200 even without a worker."""
        answer = await self._get(port, "/readiness")
        said = answer.decoded(_ReadinessBody, (200, 503))
        if said is None:
            return Readiness(state=answer.state, note=answer.note or "it answers, but not as a router does")
        if answer.status == 200:
            return Readiness(state="green", healthy=said.healthy_workers, total=said.total_workers)
        return Readiness(state="red", note=said.reason or said.status)

    async def workers(self, port: int) -> Workers | None:
        """A router's workers; None when it does not say."""
        said = (await self._get(port, "/workers")).decoded(_WorkersBody)
        if said is None:
            return None
        types = [worker.worker_type for worker in said.workers]
        return Workers(
            prefill=types.count("prefill"),
            decode=types.count("decode"),
            regular=types.count("regular"),
            unhealthy=tuple(worker.url for worker in said.workers if not worker.is_healthy),
        )

    async def metrics(self, port: int) -> MetricsPage:
        """The page of /metrics; for a router, `port` is its Prometheus port."""
        answer = await self._get(port, "/metrics")
        if answer.status == 200:
            return MetricsPage(status=200, text=answer.body.decode(errors="replace"))
        if answer.status == 404:
            return MetricsPage(status=404, note="metrics are off (start the server with --enable-metrics)")
        note = answer.note or f"/metrics answers {answer.status}"
        return MetricsPage(status=answer.status, note=note, refused=answer.state == "refused")

    async def server_info(self, port: int) -> ServerInfo | None:
        """Version and flags; None when the server does not say (not up, or it wants its API key)."""
        said = (await self._ask(port, _INFO)).decoded(dict[str, Any])
        if said is None:
            return None
        version = said.pop("version", None)
        # internal_states repeats every flag, unredacted.
        flags = {key: value for key, value in said.items() if key != "internal_states"}
        return ServerInfo(
            version=version if isinstance(version, str) else None,
            flags={key: "***" if value and _SECRET.search(key) else value for key, value in flags.items()},
        )

    async def flush(self, port: int) -> bool:
        """Empty a server's prefix cache; False where it would not, as while requests are under way."""
        return (await ask(self._http, "POST", port, "/flush_cache?timeout=60", 65.0)).status == 200

    async def loads(self, port: int) -> Loads | None:
        """Running and queued requests without /metrics; None when the server does not say."""
        answer = await self._ask(port, _LOADS)
        if answer.path == "/v1/loads":
            said = answer.decoded(_LoadsBody)
            return None if said is None else _loads(said.loads)
        older = answer.decoded(list[_OldLoad])
        if older is None:
            return None
        # Here num_reqs counts the waiting ones too.
        return Loads(
            running=sum(load.num_reqs - load.num_waiting_reqs for load in older),
            queued=sum(load.num_waiting_reqs for load in older),
        )

    async def complete(
        self, port: int, prompt: str, max_tokens: int, limit_s: float, api_key: str | None = None
    ) -> Answer:
        """Exactly `max_tokens` tokens for a prompt, from a server or through a router, within the limit."""
        return await complete(self._http, port, prompt, max_tokens, limit_s, api_key)

    async def _ask(self, port: int, paths: tuple[str, ...], limit_s: float = ASK_LIMIT_S) -> Reply:
        """The first path that this version has; it is asked first from then on, until the port is silent."""
        known = self._works.pop((port, paths), None)
        answer = Reply()
        for path in sorted(paths, key=lambda path: path != known):
            answer = await self._get(port, path, limit_s)
            if answer.status not in (404, 500):
                break
        if answer.status is not None:
            self._works[port, paths] = answer.path
        return answer

    async def _get(self, port: int, path: str, limit_s: float = ASK_LIMIT_S) -> Reply:
        return await ask(self._http, "GET", port, path, limit_s)


class _ReadinessBody(msgspec.Struct):
    status: str
    healthy_workers: int | None = None
    total_workers: int | None = None
    reason: str | None = None


class _Worker(msgspec.Struct):
    url: str
    worker_type: str
    is_healthy: bool


class _WorkersBody(msgspec.Struct):
    workers: list[_Worker]


class _Load(msgspec.Struct):
    num_running_reqs: int
    num_waiting_reqs: int
    gen_throughput: float | None = None


class _LoadsBody(msgspec.Struct):
    loads: list[_Load]


class _OldLoad(msgspec.Struct):
    num_reqs: int
    num_waiting_reqs: int


def _loads(ranks: list[_Load]) -> Loads:
    rates = [rank.gen_throughput for rank in ranks if rank.gen_throughput is not None]
    return Loads(
        running=sum(rank.num_running_reqs for rank in ranks),
        queued=sum(rank.num_waiting_reqs for rank in ranks),
        gen_tok_s=sum(rates) if rates and len(rates) == len(ranks) else None,
    )
