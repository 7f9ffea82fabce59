"""The simulated server's command line: the real flags of SGLang 0.5.23, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.demo_modules import Import, demo_modules

MODEL = ("--model-path", "/m")


@pytest.fixture(scope="module")
def demo() -> Iterator[Import]:
    with demo_modules() as load:
        yield load


@pytest.fixture
def parse(demo: Import) -> Any:
    return demo("sglang.server_args").parse


def test_roles_ports_and_gpus_come_from_the_flags(parse: Any) -> None:
    args = parse(
        (*MODEL, "--tp", "4", "--base-gpu-id", "4", "--port", "30001", "--disaggregation-mode", "decode")
    )
    assert (args.role, args.engine_type, args.gpus, args.port) == ("decode", "decode", (4, 5, 6, 7), 30001)
    assert args.resolved["disable_radix_cache"] is True
    assert parse(MODEL).role == "single"
    assert parse(MODEL).engine_type == "unified"


def test_the_models_own_defaults_are_filled_in(parse: Any) -> None:
    resolved = parse(MODEL).resolved
    assert resolved["moe_runner_backend"] == "flashinfer_mxfp4"
    assert resolved["max_running_requests"] == 256
    assert resolved["page_size"] == 256
    assert resolved["served_model_name"] == "/m"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--cuda-graph-max-bs", "32"),
            "ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, "
            "--cuda-graph-max-bs-prefill",
        ),
        (("--disaggregation-decode-tp", "4"), "unrecognized arguments: --disaggregation-decode-tp 4"),
        (("--moe-runner-backend", "marlinn"), "argument --moe-runner-backend: invalid choice: 'marlinn'"),
    ],
)
def test_what_0_5_23_refuses_is_refused(
    parse: Any, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse((*MODEL, *flags))
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("usage: sglang serve ")
    assert f"sglang serve: error: {said}" in shown


def test_the_model_must_be_named(parse: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(())
    assert "the following arguments are required: --model-path/--model" in capsys.readouterr().err


def test_graph_sizes_end_at_the_largest_batch(parse: Any) -> None:
    assert parse((*MODEL, "--cuda-graph-max-bs-decode", "24")).graph_sizes == (1, 2, 4, 8, 16, 24)
    assert parse((*MODEL, "--cuda-graph-bs-decode", "1", "8")).graph_sizes == (1, 8)
    assert parse((*MODEL, "--cuda-graph-backend-decode", "disabled")).graph_sizes == ()


def test_speculative_decoding_gives_several_tokens_a_step(parse: Any) -> None:
    assert parse(MODEL).accept_length == 1.0
    few = parse((*MODEL, "--speculative-algorithm", "EAGLE", "--speculative-num-steps", "1"))
    many = parse((*MODEL, "--speculative-algorithm", "EAGLE"))
    assert 1.0 < few.accept_length < many.accept_length < many.draft_tokens == 4


def test_every_flag_of_the_table_is_usable(parse: Any) -> None:
    flags = (
        "--enable-metrics",
        "--no-enable-tf32-matmul",
        "--max-total-tokens",
        "256Ki",
        "--numa-node",
        "0",
        "1",
    )
    resolved = parse((*MODEL, *flags, "--preferred-sampling-params", '{"top_p": 0.9}')).resolved
    assert resolved["enable_metrics"] is True
    assert resolved["enable_tf32_matmul"] is False
    assert resolved["max_total_tokens"] == 262144
    assert resolved["numa_node"] == [0, 1]
    assert resolved["preferred_sampling_params"] == {"top_p": 0.9}
    assert len(resolved) > 500


def test_memory_is_divided_as_sglang_does(demo: Import, parse: Any) -> None:
    plan_memory = demo("sglang.memory").plan_memory
    plan = plan_memory(parse((*MODEL, "--tp", "4", "--mem-fraction-static", "0.86")), 0.0)
    assert plan.free_gb == pytest.approx(94.12, abs=0.01)
    assert plan.weights_gb == pytest.approx(41.82, abs=0.01)
    assert plan.tokens % 256 == 0
    assert 300_000 < plan.tokens < 400_000
    assert plan.mib(weights=0.5, kv=False, graphs=0) < plan.mib() < 97887


@pytest.mark.parametrize(
    ("flags", "held", "error"),
    [
        (("--tp", "1"), 0.0, "torch.OutOfMemoryError: CUDA out of memory."),
        (("--tp", "4", "--mem-fraction-static", "0.3"), 0.0, "RuntimeError: Not enough memory."),
        (("--tp", "4", "--base-gpu-id", "6"), 0.0, "CUDA error: invalid device ordinal"),
        (("--tp", "4"), 84000.0, "torch.OutOfMemoryError: CUDA out of memory."),
    ],
)
def test_what_does_not_fit_fails_in_sglangs_words(
    demo: Import, parse: Any, flags: tuple[str, ...], held: float, error: str
) -> None:
    memory = demo("sglang.memory")
    with pytest.raises(memory.DoesNotFitError, match=error):
        memory.plan_memory(parse((*MODEL, *flags)), held)


def test_the_router_reads_a_pair(demo: Import) -> None:
    parse = demo("sglang_router.router_args").parse
    args = parse(
        (
            *("--pd-disaggregation", "--prefill", "http://a:1", "8998", "--prefill", "http://b:1", "none"),
            *("--decode", "http://c:1", "--disable-retries", "--disable-circuit-breaker"),
        )
    )
    assert [(w.url, w.kind, w.bootstrap_port) for w in args.workers] == [
        ("http://a:1", "prefill", 8998),
        ("http://b:1", "prefill", None),
        ("http://c:1", "decode", None),
    ]
    assert args.pairs
    assert (args.retries, args.breaker_failures, args.prometheus_port) == (1, None, 29000)
