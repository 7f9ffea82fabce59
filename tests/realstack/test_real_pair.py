"""The real pair, by itself: what the console's own parsers make of it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from console.domain.metrics import Reading, parse_reading, parse_router_reading, rates
from console.remote.local import LocalHost
from console.remote.sglang import Health, Loads, Readiness, SglangClient, Workers
from console.remote.tunnel import HostTransport
from tests.realstack import stack
from tests.realstack.stack import RealServer, RealStack

pytestmark = pytest.mark.realstack


def read(server: RealServer) -> Reading:
    return parse_reading(server.metrics(), at=time.monotonic())


def test_a_request_moves_the_counters_of_all_three(real_stack: RealStack) -> None:
    prefill, decode, router = (real_stack.servers[role] for role in ("prefill", "decode", "router"))
    prefill_before, decode_before = read(prefill), read(decode)
    requests_before = parse_router_reading(router.metrics(), at=0.0).requests or 0.0

    completion = real_stack.complete("prefill decode router queue", max_tokens=48)

    assert completion.completion_tokens == 48
    assert completion.text
    prefill_now, decode_now = read(prefill), read(decode)
    assert prefill_now.prompt_tokens - prefill_before.prompt_tokens == completion.prompt_tokens
    assert decode_now.gen_tokens > decode_before.gen_tokens
    assert prefill_now.transfers == (prefill_before.transfers or 0) + 1
    assert rates(decode_before, decode_now).gen_tok_s > 0.0
    router_now = parse_router_reading(router.metrics(), at=0.0)
    assert router_now.requests == requests_before + 1
    assert (router_now.workers, router_now.healthy_workers, router_now.open_breakers) == (2, 2, 0)
    assert (prefill_now.note, decode_now.note, router_now.note) == (None, None, None)


async def test_the_client_understands_them(real_stack: RealStack) -> None:
    decode, router = real_stack.servers["decode"], real_stack.servers["router"]
    async with contextlib.aclosing(SglangClient(HostTransport(LocalHost()))) as client:
        assert await client.health(decode.port) == Health(state="green", code=200)
        assert await client.readiness(router.port) == Readiness(state="green", healthy=2, total=2)
        for other in (router.metrics_port, decode.port):
            assert (await client.readiness(other)).state == "unknown"
        assert await client.workers(router.port) == Workers(prefill=1, decode=1)
        info = await client.server_info(decode.port)
        assert info is not None
        assert (info.version, info.flags["disaggregation_mode"]) == ("0.5.15", "decode")
        for _ in range(3):
            assert await client.loads(decode.port) == Loads(running=0, queued=0)
        page = await client.metrics(decode.port)
        assert parse_reading(page.text or "", at=0.0).running is not None
        assert (await client.metrics(router.port)).status == 404


def test_a_server_that_dies_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stamp").touch()
    monkeypatch.setattr(stack, "HOME", tmp_path)
    with RealStack(tmp_path, roles=("decode",)) as empty, pytest.raises(RuntimeError) as caught:
        empty.wait_ready(timeout_s=60.0)
    assert str(caught.value).startswith("decode ended with code 127; its log:\n")
    assert "venv/bin/python" in str(caught.value)


def test_without_a_build_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "HOME", tmp_path)
    with pytest.raises(RuntimeError, match=r"no SGLang in .*: run .*setup\.sh "), RealStack(tmp_path):
        pass
