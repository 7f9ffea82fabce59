"""Results as lines of sglang's client, and as rows of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.bench.jsonl import OURS, from_sglang, to_sglang
from console.domain.bench.result import BenchResult
from console.domain.bench.table import COLUMNS, row
from console.domain.errors import UsageError
from tests.unit.bench_results import in_turn, request, result

CAPTURES = Path(__file__).parents[1] / "captures" / "h200"
C1 = (CAPTURES / "bench_c1.jsonl").read_text()
C16 = (CAPTURES / "bench_c16.jsonl").read_text()
FAILED = request(12, 0.0, failure="rejected", reason="The request queue is full.", completion_tokens=None)


def read(line: str | bytes) -> BenchResult:
    return from_sglang(line, 1, id="i1", at=5.0, series="s5")


def reduced(line: str, **changes: Any) -> str:
    """Fields changed; those that become ... are taken away."""
    told = {**json.loads(line), **changes}
    return json.dumps({name: value for name, value in told.items() if value is not ...})


class TestExport:
    def test_it_has_the_fields_of_sglang(self) -> None:
        unknown = {
            "sharegpt_output_len",
            "server_info",
            "total_input_text_tokens",
            "total_input_vision_tokens",
            "total_output_tokens_retokenized",
            "max_concurrent_requests",
        }
        assert {*json.loads(C16)} - {*to_sglang(result())} == unknown

    def test_values(self) -> None:
        told = to_sglang(result(label="A 1/3"))
        assert (told["tag"], told["max_concurrency"], told["completed"]) == ("A 1/3", 1, 12)
        assert told["median_ttft_ms"] == pytest.approx(100.0)
        assert told["p90_itl_ms"] == pytest.approx(10.0)
        assert told["p99_ttft_ms"] is None

    def test_details_of_each_request(self) -> None:
        told = to_sglang(result([*in_turn(2, tokens=3), FAILED]), details=True)
        assert told["input_lens"] == [128, 128, 128]
        assert told["output_lens"] == [3, 3, 0]
        assert told["ttfts"] == pytest.approx([0.1, 0.1, 0.0])
        assert told["itls"] == [pytest.approx([0.01, 0.01])] * 2 + [[]]
        assert told["errors"] == ["", "", "The request queue is full."]

    def test_there_and_back(self) -> None:
        made = result([*in_turn(12), FAILED], label="B 2/3", partial="stopped", gpu={"sm_pct": 97.5})
        assert read(msgspec.json.encode(to_sglang(made, details=True))) == made
        without = read(msgspec.json.encode(to_sglang(made)))
        assert without == msgspec.structs.replace(made, requests=())


class TestImport:
    def test_a_real_line(self) -> None:
        found = read(C16)
        context, figures = found.context, found.figures
        assert (found.id, found.at, found.series) == ("i1", 5.0, "s5")
        assert (context.max_concurrency, context.input_tokens, context.output_tokens) == (16, 512, 256)
        assert (context.origin, context.prompts) == ("sglang (random-ids)", 320)
        assert figures.output_throughput == pytest.approx(5679.985, abs=0.001)
        assert figures.ttft_ms.p99 == pytest.approx(793.187, abs=0.001)
        assert figures.itl_is_per_chunk
        assert figures.max_output_tokens_per_s is None
        assert found.client.cpu_pct is None

    def test_percentiles_of_twelve_requests_are_left_out(self) -> None:
        found = read(C1).figures.ttft_ms
        assert (found.n, found.p90) == (12, pytest.approx(519.042, abs=0.001))
        assert (found.p95, found.p99) == (None, None)

    @pytest.mark.parametrize(
        "field", [*(set(json.loads(C16)) - {"duration", "completed", "total_output_tokens"})]
    )
    def test_every_other_field_may_be_missing(self, field: str) -> None:
        assert read(reduced(C16, **{field: ...})).figures.completed == 320

    def test_what_is_missing_follows_from_the_rest(self) -> None:
        found = read(reduced(C16, concurrency=..., random_input_len=..., max_concurrency=None))
        assert found.figures.concurrency == pytest.approx(15.573, abs=0.001)
        assert (found.context.input_tokens, found.context.max_concurrency) == (512, 320)

    def test_details_tell_failures_and_gaps(self) -> None:
        line = reduced(C1, errors=["", "refused"], itls=[[0.1] * 255] * 12)
        found = read(line)
        assert (found.figures.failed, found.context.prompts, found.figures.itl_ms.n) == (1, 13, 3060)
        assert not found.figures.itl_is_per_chunk

    def test_a_run_of_failures(self) -> None:
        nothing = {name: float("nan") for name in json.loads(C1) if name.endswith("_ms")}
        found = read(reduced(C1, completed=0, total_output_tokens=0, **nothing)).figures
        assert (found.output_throughput, found.ttft_ms.n, found.e2e_latency_ms.mean) == (0, 0, None)

    @pytest.mark.parametrize(
        "line",
        [
            "",
            "{",
            "[]",
            "7",
            "{}",
            C1[:200],
            reduced(C1, duration=0),
            reduced(C1, duration="x"),
            reduced(C1, mean_ttft_ms="x"),
            reduced(C1, concurrency=..., mean_e2e_latency_ms=...),
            json.dumps({OURS: {"id": 7}}),
            b"\xff\xfe",
        ],
    )
    def test_a_broken_line_is_one_error_with_its_number(self, line: str | bytes) -> None:
        with pytest.raises(UsageError, match="line 3 is no benchmark result"):
            from_sglang(line, 3, id="i", at=0.0, series="s")

    @given(st.dictionaries(st.sampled_from([*json.loads(C1), OURS]), st.none() | st.floats() | st.text()))
    def test_any_values_are_a_result_or_that_error(self, changes: dict[str, Any]) -> None:
        try:
            found = read(reduced(C1, **changes))
        except UsageError:
            return
        assert found.figures.duration > 0


class TestTable:
    def test_columns_are_stable(self) -> None:
        assert COLUMNS[:9] == (
            "id",
            "at",
            "host",
            "demo",
            "profile",
            "series",
            "label",
            "max_concurrency",
            "random_input_len",
        )
        assert len(COLUMNS) == len({*COLUMNS}) == 52

    def test_a_row(self) -> None:
        cells = dict(zip(COLUMNS, row(result(partial="stopped")), strict=True))
        assert (cells["id"], cells["demo"], cells["completed"], cells["partial"]) == ("r1", 0, 12, "stopped")
        assert (cells["p99_ttft_ms"], cells["profile"], cells["verified"]) == ("", "", "")

    def test_an_imported_result_has_a_row(self) -> None:
        assert len(row(read(C1))) == len(COLUMNS)
