"""What servers and routers answer, by version, and everything that is no answer."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import httpx
import pytest

from console.remote import sglang
from console.remote.sglang import Health, Loads, MetricsPage, Readiness, SglangClient, Workers

Reply = tuple[int, str | dict[str, Any] | list[Any]]


class Port:
    """A server of some version: what it answers by path, and what it was asked."""

    def __init__(self, replies: dict[str, Reply | Exception]) -> None:
        self.replies = replies
        self.asked: list[str] = []
        self.client = SglangClient(httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        reply = self.replies.get(request.url.path, (404, {"detail": "Not Found"}))
        if isinstance(reply, Exception):
            raise reply
        status, body = reply
        return httpx.Response(status, text=body if isinstance(body, str) else json.dumps(body))


REFUSED = httpx.ConnectError("gpu-box: 127.0.0.1:30000: Connection refused")


class TestHealth:
    async def test_ready_costs_the_server_nothing_and_is_asked_first(self) -> None:
        port = Port({"/ready": (200, ""), "/health": (200, "")})
        assert await port.client.health(30000) == Health(state="green", code=200)
        assert port.asked == ["/ready"]

    async def test_older_versions_have_only_health_and_that_is_remembered(self) -> None:
        port = Port({"/health": (200, "")})
        for _ in range(2):
            assert await port.client.health(30000) == Health(state="green", code=200)
        assert port.asked == ["/ready", "/health", "/health"]

    async def test_after_a_restart_the_version_may_be_another(self) -> None:
        port = Port({"/health": (200, "")})
        await port.client.health(30000)
        port.replies = {"/ready": REFUSED, "/health": REFUSED}
        await port.client.health(30000)
        port.replies = {"/ready": (200, ""), "/health": (200, "")}
        await port.client.health(30000)
        assert port.asked == ["/ready", "/health", "/health", "/ready"]

    async def test_not_ready_is_red(self) -> None:
        port = Port({"/ready": (503, "")})
        assert await port.client.health(30000) == Health(state="red", code=503, note="/ready answers 503")

    async def test_neither_path_is_red(self) -> None:
        assert (await Port({}).client.health(30000)).note == "/health answers 404"

    async def test_refused(self) -> None:
        port = Port({"/ready": REFUSED})
        assert await port.client.health(30000) == Health(
            state="refused", note="nothing listens on port 30000"
        )
        assert port.asked == ["/ready"]

    async def test_a_real_port_without_a_listener(self) -> None:
        with socket.socket() as unheard:
            unheard.bind(("127.0.0.1", 0))
            port = unheard.getsockname()[1]
            health = await SglangClient(httpx.AsyncHTTPTransport()).health(port)
        assert health == Health(state="refused", note=f"nothing listens on port {port}")

    async def test_a_way_that_is_barred_is_not_called_refused(self) -> None:
        port = Port({"/ready": httpx.ConnectError("the host does not let us connect to 127.0.0.1:30000")})
        health = await port.client.health(30000)
        assert health.state == "unknown"
        assert health.note == "port 30000: the host does not let us connect to 127.0.0.1:30000"

    async def test_a_connection_that_breaks(self) -> None:
        port = Port({"/ready": httpx.ReadError("")})
        health = await port.client.health(30000)
        assert health == Health(state="unknown", note="port 30000: the connection broke off")

    async def test_another_protocol(self) -> None:
        port = Port({"/ready": httpx.RemoteProtocolError("illegal status line")})
        assert await port.client.health(30000) == Health(
            state="unknown", note="port 30000: illegal status line"
        )


class TestSilence:
    """A server that takes the connection and says nothing."""

    async def test_it_is_waited_for_within_the_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sglang, "HEALTH_LIMIT_S", 0.05)
        health = await SglangClient(httpx.MockTransport(_never)).health(30000)
        assert health == Health(state="silent", note="no answer from port 30000 within 0.05 s")

    async def test_cancelling_is_prompt(self) -> None:
        task = asyncio.create_task(SglangClient(httpx.MockTransport(_never)).health(30000))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, timeout=1.0)

    async def test_a_trickle_is_no_answer_either(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Trickle(httpx.AsyncByteStream):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                while True:
                    await asyncio.sleep(0.01)
                    yield b"."

        async def answer(_: httpx.Request) -> httpx.Response:
            return httpx.Response(200, stream=Trickle())

        monkeypatch.setattr(sglang, "HEALTH_LIMIT_S", 0.05)
        assert (await SglangClient(httpx.MockTransport(answer)).health(30000)).state == "silent"

    async def test_a_flood_is_cut_off(self) -> None:
        class Flood(httpx.AsyncByteStream):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                while True:
                    yield b"x" * 65536

        async def answer(_: httpx.Request) -> httpx.Response:
            return httpx.Response(200, stream=Flood())

        page = await SglangClient(httpx.MockTransport(answer)).metrics(30000)
        assert page == MetricsPage(note="port 30000 sends more than 4 MiB")


async def _never(_: httpx.Request) -> httpx.Response:
    await asyncio.Event().wait()
    raise AssertionError


class TestMetrics:
    async def test_the_page_as_it_came(self) -> None:
        port = Port({"/metrics": (200, "sglang:num_running_reqs 3.0\n")})
        page = await port.client.metrics(30000)
        assert page == MetricsPage(status=200, text="sglang:num_running_reqs 3.0\n")

    @pytest.mark.parametrize(
        ("reply", "status", "note"),
        [
            ((404, {"detail": "Not Found"}), 404, "metrics are off (start the server with --enable-metrics)"),
            ((502, "<html>"), 502, "/metrics answers 502"),
            (REFUSED, None, "nothing listens on port 30000"),
        ],
    )
    async def test_no_page_and_why(self, reply: Reply | Exception, status: int | None, note: str) -> None:
        page = await Port({"/metrics": reply}).client.metrics(30000)
        assert page == MetricsPage(status=status, note=note, refused=reply is REFUSED)


class TestRouter:
    async def test_ready(self) -> None:
        body = {"status": "ready", "healthy_workers": 2, "total_workers": 3}
        port = Port({"/readiness": (200, body)})
        assert await port.client.readiness(8000) == Readiness(state="green", healthy=2, total=3)

    async def test_not_ready_says_why(self) -> None:
        body = {"status": "not ready", "reason": "insufficient healthy workers"}
        port = Port({"/readiness": (503, body)})
        assert await port.client.readiness(8000) == Readiness(
            state="red", note="insufficient healthy workers"
        )

    @pytest.mark.parametrize("reply", [(200, "smg_worker_health 1\n"), (404, ""), (200, {"detail": 1})])
    async def test_a_port_that_is_no_routers(self, reply: Reply) -> None:
        readiness = await Port({"/readiness": reply}).client.readiness(29000)
        assert readiness == Readiness(state="unknown", note="it answers, but not as a router does")

    async def test_refused(self) -> None:
        readiness = await Port({"/readiness": REFUSED}).client.readiness(8000)
        assert readiness == Readiness(state="refused", note="nothing listens on port 8000")

    async def test_workers(self) -> None:
        port = Port({"/workers": (200, _workers(prefill=True, decode=False))})
        workers = await port.client.workers(8000)
        assert workers == Workers(prefill=1, decode=1, unhealthy=("http://127.0.0.1:30002",))
        assert workers.summary == "1+1, 1 unhealthy"

    @pytest.mark.parametrize(
        ("workers", "summary"),
        [(Workers(prefill=1, decode=2), "1+2"), (Workers(regular=2), "2"), (Workers(), "0")],
    )
    def test_summary(self, workers: Workers, summary: str) -> None:
        assert workers.summary == summary

    @pytest.mark.parametrize("reply", [REFUSED, (401, ""), (200, "[]"), (200, {"workers": [{"url": 1}]})])
    async def test_workers_unsaid(self, reply: Reply | Exception) -> None:
        assert await Port({"/workers": reply}).client.workers(8000) is None


def _workers(**healthy: bool) -> dict[str, Any]:
    """/workers of router 0.3.2, shortened."""
    workers = [
        {"id": "d6", "url": f"http://127.0.0.1:{port}", "worker_type": role, "is_healthy": ok, "load": 0}
        for port, (role, ok) in enumerate(healthy.items(), start=30001)
    ]
    return {"workers": workers, "total": len(workers), "stats": {"prefill_count": 1, "decode_count": 1}}


class TestServerInfo:
    SAID: ClassVar[dict[str, Any]] = {
        "model_path": "/models/tiny",
        "tp_size": 4,
        "api_key": "sk-live-1",
        "admin_api_key": None,
        "ssl_keyfile_password": "hunter2",
        "version": "0.5.15",
        "internal_states": [{"api_key": "sk-live-1", "last_gen_throughput": 1.0}],
    }

    async def test_version_and_flags_without_secrets(self) -> None:
        info = await Port({"/server_info": (200, self.SAID)}).client.server_info(30000)
        assert info is not None
        assert info.version == "0.5.15"
        assert info.flags == {
            "model_path": "/models/tiny",
            "tp_size": 4,
            "api_key": "***",
            "admin_api_key": None,
            "ssl_keyfile_password": "***",
        }
        assert "sk-live-1" not in repr(info)

    async def test_the_old_name(self) -> None:
        info = await Port({"/get_server_info": (200, self.SAID)}).client.server_info(30000)
        assert info is not None
        assert info.version == "0.5.15"

    @pytest.mark.parametrize(
        "reply", [REFUSED, (401, {"error": "Unauthorized"}), (200, "<html>"), (200, "[]")]
    )
    async def test_unsaid(self, reply: Reply | Exception) -> None:
        assert await Port({"/server_info": reply}).client.server_info(30000) is None


class TestLoads:
    async def test_all_dp_ranks(self) -> None:
        rank = {"dp_rank": 0, "num_running_reqs": 3, "num_waiting_reqs": 1, "gen_throughput": 10.5}
        port = Port({"/v1/loads": (200, {"version": "0.5.23", "loads": [rank, rank]})})
        assert await port.client.loads(30000) == Loads(running=6, queued=2, gen_tok_s=21.0)

    async def test_a_rank_that_does_not_say_makes_the_sum_unknown(self) -> None:
        ranks = [
            {"num_running_reqs": 3, "num_waiting_reqs": 1, "gen_throughput": 10.5},
            {"num_running_reqs": 3, "num_waiting_reqs": 1},
        ]
        port = Port({"/v1/loads": (200, {"loads": ranks})})
        assert await port.client.loads(30000) == Loads(running=6, queued=2)

    async def test_500_of_0_5_15_falls_back_and_is_not_asked_again(self) -> None:
        old = [{"dp_rank": 0, "num_reqs": 5, "num_waiting_reqs": 2, "num_tokens": 9, "ts_tic": 1.5}]
        port = Port({"/v1/loads": (500, "Internal Server Error"), "/get_load": (200, old)})
        for _ in range(2):
            assert await port.client.loads(30000) == Loads(running=3, queued=2)
        assert port.asked == ["/v1/loads", "/get_load", "/get_load"]

    async def test_a_newer_version_on_the_same_port_is_found(self) -> None:
        port = Port({"/get_load": (200, [])})
        await port.client.loads(30000)
        port.replies = {"/v1/loads": (200, {"loads": []})}
        assert await port.client.loads(30000) == Loads(running=0, queued=0)

    @pytest.mark.parametrize("reply", [REFUSED, (401, ""), (200, {"loads": [{}]})])
    async def test_unsaid(self, reply: Reply | Exception) -> None:
        assert await Port({"/v1/loads": reply, "/get_load": (404, "")}).client.loads(30000) is None


async def test_closing_closes_the_transport() -> None:
    class Transport(httpx.MockTransport):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    transport = Transport(_never)
    client = SglangClient(transport)
    await client.aclose()
    assert transport.closed
