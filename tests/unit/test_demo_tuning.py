"""What the simulated servers make of NCCL's settings and of too little memory."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.demo_modules import Import, demo_modules

MODEL = ("--model-path", "/m", "--tp", "4")


@pytest.fixture(scope="module")
def demo() -> Iterator[Import]:
    with demo_modules() as load:
        yield load


def engine(demo: Import) -> Any:
    args = demo("sglang.server_args").parse(MODEL)
    plan = demo("sglang.memory").plan_memory(args, 0.0)
    metrics = demo("sglang.metrics").Metrics("unified", "m")
    return demo("sglang.engine").Engine(args, plan, metrics, 0.0)


@pytest.mark.parametrize(("protocol", "factor"), [("LL", 1.6), ("Simple", 1.0), (None, 1.0)])
def test_ll_decodes_faster(
    demo: Import, monkeypatch: pytest.MonkeyPatch, protocol: str | None, factor: float
) -> None:
    monkeypatch.delenv("NCCL_PROTO", raising=False)
    untuned = engine(demo).tok_s_each
    if protocol:
        monkeypatch.setenv("NCCL_PROTO", protocol)
    assert engine(demo).tok_s_each == pytest.approx(factor * untuned)


def test_nccl_tells_its_settings_when_it_is_asked_to(demo: Import) -> None:
    lines = demo("sglang.nccl").lines
    settings = {"NCCL_PROTO": "LL", "NCCL_NTHREADS": "512", "PATH": "/bin"}
    assert list(lines(0, 5857, settings)) == []
    said = [
        line.partition(" [0] NCCL INFO ")[2] for line in lines(0, 5857, settings | {"NCCL_DEBUG": "INFO"})
    ]
    assert said == [
        "NCCL version 2.28.9+cuda13.0",
        "NCCL_NTHREADS set by environment to 512.",
        "NCCL_PROTO set by environment to LL",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    ]


@pytest.mark.parametrize(("fraction", "fits"), [("0.90", True), ("0.96", True), ("0.98", False)])
def test_a_capture_needs_memory_of_its_own(demo: Import, fraction: str, fits: bool) -> None:
    memory = demo("sglang.memory")
    args = demo("sglang.server_args").parse((*MODEL, "--mem-fraction-static", fraction))
    plan = memory.plan_memory(args, 0.0)
    left_gb = plan.free_gb - plan.weights_gb - plan.kv_gb
    if fits:
        memory.check_capture(memory.DECODE_CAPTURE, left_gb)
        return
    with pytest.raises(memory.DoesNotFitError, match="Capture cuda graph failed: CUDA out of memory"):
        memory.check_capture(memory.DECODE_CAPTURE, left_gb)


def test_flags_are_taught_where_sglang_has_them(demo: Import) -> None:
    for module, kind in (
        ("sglang.srt.server_args", "ServerArgs"),
        ("sglang_router.router_args", "RouterArgs"),
    ):
        parser = argparse.ArgumentParser()
        getattr(demo(module), kind).add_cli_args(parser)
        assert parser.parse_args(["--model-path", "/m", "--port", "1"]).port == 1
