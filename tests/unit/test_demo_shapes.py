"""What the simulated servers write and expose has the shape of the real thing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.demo_modules import Import, demo_modules

TESTS = Path(__file__).parents[1]
NOON = 1_796_000_430.0
"""A time of high load."""

SINCE_0_5_15 = {
    "sglang:num_bootstrap_failed_reqs",
    "sglang:num_transfer_failed_reqs",
    "sglang:num_aborted_requests",
    "sglang:startup_time_seconds",
    "sglang:weight_memory_usage_gb",
    "sglang:kv_cache_memory_usage_gb",
    "sglang:inter_token_latency_seconds",
}
"""In SGLang 0.5.23 but on neither captured page: added since, or shown only once something was counted."""


@pytest.fixture(scope="module")
def demo() -> Iterator[Import]:
    with demo_modules() as load:
        yield load


class Bench:
    """A server's engine and reporter, with a clock that the test moves and a log that it reads."""

    def __init__(self, demo: Import, *flags: str) -> None:
        self.args = demo("sglang.server_args").parse(("--model-path", "/m", "--tp", "4", *flags))
        plan = demo("sglang.memory").plan_memory(self.args, 0.0)
        self.metrics = demo("sglang.metrics").Metrics(self.args.engine_type, "/m")
        self.engine = demo("sglang.engine").Engine(self.args, plan, self.metrics, NOON)
        self.written: list[str] = []
        log = demo("sglang.log").ServerLog(4)
        log.raw = self.written.append
        self.reporter = demo("sglang.reporter").Reporter(self.args, plan, self.engine, log, NOON)

    def run(self, seconds: float) -> None:
        """Let the server serve its simulated users."""
        for tick in range(round(seconds * 2)):
            now = NOON + (tick + 1) / 2
            self.engine.advance(now, flowing=True)
            self.reporter.report(now)


def known_lines(start: str) -> list[str]:
    with open(TESTS / "cases" / "log_lines.jsonl") as cases:
        return [line for line in (json.loads(case)["line"] for case in cases) if start in line]


def keys(line: str) -> list[str]:
    """The names of a batch line's figures, in order."""
    return [part.rpartition(": ")[0] for part in line.split(", ")[1:]]


def shape(line: str) -> str:
    """A line with every number as N, and every id as ID."""
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=-)[0-9A-Za-z]{24}", "ID", line)
    return re.sub(r"\d+(\.\d+)?", "N", line).strip()


@pytest.mark.parametrize(("mode", "start"), [("prefill", "Prefill batch"), ("decode", "Decode batch")])
def test_batch_lines_have_the_real_keys_in_the_real_order(demo: Import, mode: str, start: str) -> None:
    bench = Bench(demo, "--disaggregation-mode", mode)
    bench.run(20)
    mine = [line for line in bench.written if start in line]
    assert len(mine) >= 8
    real = [keys(line) for line in known_lines(start) if "full token" in line]
    assert all(keys(line) in real for line in mine)
    assert all(re.match(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d TP0\] ", line) for line in mine)


def test_speculative_decoding_shows_in_decode_lines(demo: Import) -> None:
    bench = Bench(demo, "--speculative-algorithm", "EAGLE")
    bench.run(10)
    line = next(line for line in bench.written if "Decode batch" in line)
    real = next(line for line in known_lines("Decode batch") if "accept len" in line and "full token" in line)
    assert keys(line) == keys(real)


def test_decode_lines_follow_the_load(demo: Import) -> None:
    bench = Bench(demo, "--disaggregation-mode", "decode")
    bench.run(120)
    rates = [
        float(rate) for rate in re.findall(r"gen throughput \(token/s\): ([\d.]+)", "".join(bench.written))
    ]
    assert min(rates) < 350
    assert 900 < max(rates) < 1200


def test_an_idle_server_writes_nothing(demo: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSV4_DEMO_LOAD", "0")
    bench = Bench(demo, "--disaggregation-mode", "decode")
    bench.run(60)
    assert bench.written == []
    assert bench.engine.intensity == 0


@pytest.mark.parametrize("mode", ["prefill", "decode", "null"])
def test_the_metrics_page_parses_and_has_only_real_names(demo: Import, mode: str) -> None:
    bench = Bench(demo, "--disaggregation-mode", mode)
    bench.run(60)
    mine = {family.name: family for family in text_string_to_metric_families(bench.metrics.page())}
    real = {
        family.name: family
        for page in ("cpu/prefill.metrics", "h200/decode.metrics")
        for family in text_string_to_metric_families((TESTS / "captures" / page).read_text())
    }
    assert mine["sglang:realtime_tokens"].samples[0].labels["engine_type"] == bench.args.engine_type
    assert set(mine) - set(real) <= SINCE_0_5_15
    assert all(mine[name].type == real[name].type for name in set(mine) & set(real))


def test_counters_add_up(demo: Import) -> None:
    bench = Bench(demo, "--disaggregation-mode", "decode")
    bench.run(60)
    metrics, streamed = bench.metrics, ("is_streaming", "true")
    live = metrics.realtime_tokens.value(("mode", "decode"))
    done = metrics.generation_tokens.value(streamed)
    assert 20_000 < live < 60_000
    assert 0.7 < done / live < 1.3
    labels = 'engine_type="decode",is_streaming="true",model_name="/m"'
    count = metrics.requests.value(streamed)
    assert f"sglang:time_to_first_token_seconds_count{{{labels}}} {count}\n" in metrics.page()


def test_progress_bars_are_drawn_as_tqdm_draws_them(demo: Import) -> None:
    bar = demo("sglang.log").progress_bar
    assert (
        bar("Capturing batches (bs=8 avail_mem=129.10 GB)", 2, 6, 1.74)
        == "Capturing batches (bs=8 avail_mem=129.10 GB):  33%|███▎      | 2/6 [00:01<00:03,  1.15it/s]"
    )
    tokens = "Capturing num tokens (num_tokens=8192 avail_mem=129.92 GB)"
    assert bar(tokens, 1, 58, 60.87) == f"{tokens}:   2%|▏         | 1/58 [01:00<57:49, 60.87s/it]"
    assert bar("x", 0, 6, 0.0) == "x:   0%|          | 0/6 [00:00<?, ?it/s]"


def test_the_routers_lines_are_coloured_as_the_real_ones(
    demo: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing, written = demo("sglang_router.tracing_log"), []
    monkeypatch.setattr(tracing.os, "write", lambda _, data: written.append(data.decode()))
    tracing.log("INFO", "event", 208, "Step started", step_id="detect_connection_mode", attempt=1)
    real = (
        "\x1b[2m2026-11-29 23:25:04\x1b[0m \x1b[32m INFO\x1b[0m "
        "\x1b[2msmg::workflow::event\x1b[0m\x1b[2m:\x1b[0m "
        "\x1b[2m/home/runner/work/sglang/sglang/src/workflow/event.rs\x1b[0m\x1b[2m:\x1b[0m"
        "\x1b[2m208:\x1b[0m "
        "Step started \x1b[3mstep_id\x1b[0m\x1b[2m=\x1b[0mdetect_connection_mode "
        "\x1b[3mattempt\x1b[0m\x1b[2m=\x1b[0m1"
    )
    assert shape(written[0]) == shape(real)
    span = tracing.request_span(
        "GET", "/readiness", "req-Y7wTm4wt6BdWJKejkEwJQuvI", status_code=503, latency=195
    )
    tracing.log("ERROR", "response", 349, "request failed with server error", span)
    real = (
        "\x1b[2m2026-11-30 00:37:44\x1b[0m \x1b[31mERROR\x1b[0m \x1b[1mhttp_request\x1b[0m\x1b[1m{\x1b[0m"
        "\x1b[3mmethod\x1b[0m\x1b[2m=\x1b[0mGET \x1b[3muri\x1b[0m\x1b[2m=\x1b[0m/readiness "
        '\x1b[3mversion\x1b[0m\x1b[2m=\x1b[0mHTTP/1.1 \x1b[3mmodule\x1b[0m\x1b[2m=\x1b[0m"smg" '
        '\x1b[3mrequest_id\x1b[0m\x1b[2m=\x1b[0m"req-Y7wTm4wt6BdWJKejkEwJQuvI" '
        "\x1b[3mstatus_code\x1b[0m\x1b[2m=\x1b[0m503 \x1b[3mlatency\x1b[0m\x1b[2m=\x1b[0m195"
        "\x1b[1m}\x1b[0m\x1b[2m:\x1b[0m \x1b[2msmg::response\x1b[0m\x1b[2m:\x1b[0m "
        "\x1b[2m/home/runner/work/sglang/sglang/src/middleware.rs\x1b[0m\x1b[2m:\x1b[0m\x1b[2m349:\x1b[0m "
        "request failed with server error"
    )
    assert shape(written[1]) == shape(real)


def test_the_routers_metrics_have_only_real_names(demo: Import) -> None:
    metrics = demo("sglang_router.gateway_metrics").GatewayMetrics("random")
    metrics.http_requests.add(1, ("method", "GET"), ("path", "/health"))
    metrics.http_responses.add(1, ("status_code", "200"), ("error_code", ""))
    metrics.http_duration.observe(0.2, ("method", "GET"), ("path", "/health"))
    metrics.requested("completions", "default", True)
    metrics.done("completions", "default", 1.5)
    metrics.selected("decode", "default")
    worker = SimpleNamespace(
        address=SimpleNamespace(url="http://d:1", kind="decode"),
        model="m",
        healthy=True,
        opened_at=None,
        active=2,
        failures=0,
    )
    mine = {family.name: family for family in text_string_to_metric_families(metrics.page([worker]))}
    page = (TESTS / "captures" / "cpu" / "router.metrics").read_text()
    real = {family.name: family for family in text_string_to_metric_families(page)}
    assert len(mine) >= 10
    assert set(mine) <= set(real)
    assert label_names(mine) <= label_names(real)


def label_names(families: dict[str, Any]) -> set[tuple[str, frozenset[str]]]:
    return {
        (sample.name, frozenset(sample.labels))
        for family in families.values()
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }
