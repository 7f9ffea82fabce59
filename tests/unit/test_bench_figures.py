"""From times of requests to figures: cases F06, F07, F09 and F12, and the formulas of sglang's client."""

from __future__ import annotations

from math import fsum
from statistics import fmean

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.bench.figures import figures, running
from console.domain.bench.load import RequestTiming
from console.domain.bench.seconds import tokens_per_chunk, tokens_per_second
from console.domain.bench.spreads import percentile, spread, tail
from tests.unit.bench_results import in_turn, request

THINKS = RequestTiming(
    index=0,
    sent=0.0,
    chunks=(0.912, 0.930, 4.100),
    ended=4.120,
    prompt_tokens=14,
    completion_tokens=180,
    finish_reason="stop",
)
BUNDLED = RequestTiming(
    index=0, sent=0.0, chunks=(0.5, 0.54, 0.58, 0.62), ended=0.621, prompt_tokens=8, completion_tokens=13
)
FAILED = RequestTiming(
    index=9, sent=0.0, chunks=(0.1,), ended=60.0, failure="aborted", reason="finish_reason abort"
)


class TestFormulas:
    def test_known_times_give_known_figures(self) -> None:
        two = [request(0, 0.0, first=0.2, tokens=5), request(1, 0.1, first=0.4, tokens=11)]
        found = figures(two, 2.0, 11)
        assert (found.completed, found.failed, found.total_output_tokens, found.total_input_tokens) == (
            2,
            0,
            16,
            256,
        )
        assert found.output_throughput == pytest.approx(8.0)
        assert found.input_throughput == pytest.approx(128.0)
        assert found.total_throughput == pytest.approx(136.0)
        assert found.request_throughput == pytest.approx(1.0)
        assert found.concurrency == pytest.approx((0.241 + 0.501) / 2)
        assert found.ttft_ms.mean == pytest.approx(300.0)
        assert found.ttft_ms.std == pytest.approx(100.0)
        assert found.tpot_ms.mean == pytest.approx(fmean([41 / 4, 101 / 10]))
        assert (found.itl_ms.n, found.itl_ms.median) == (14, pytest.approx(10.0))
        assert found.e2e_latency_ms.max == pytest.approx(501.0)
        assert found.short == 1
        assert not found.itl_is_per_chunk
        assert not found.tokens_estimated

    def test_ttft_ends_with_the_first_text_of_any_kind(self) -> None:
        found = figures([THINKS])
        assert found.ttft_ms.median == pytest.approx(912.0)
        assert found.total_output_tokens == 180
        assert 1000 / (found.tpot_ms.median or 0) == pytest.approx(56, abs=0.5)

    def test_tokens_are_counted_by_usage_where_chunks_hold_several(self) -> None:
        found = figures([BUNDLED])
        assert found.total_output_tokens == 13
        assert found.itl_ms.median == pytest.approx(40.0)
        assert found.itl_is_per_chunk
        assert found.tpot_ms.median == pytest.approx(10.0, abs=0.1)
        assert (found.max_output_tokens_per_s or 0) >= found.output_throughput

    def test_without_usage_tokens_are_estimated(self) -> None:
        found = figures([msgspec.structs.replace(BUNDLED, completion_tokens=None)])
        assert (found.total_output_tokens, found.tokens_estimated) == (4, True)

    def test_one_token_has_no_tpot(self) -> None:
        found = figures([request(0, 0.0, tokens=1)])
        assert (found.tpot_ms.n, found.itl_ms.n, found.ttft_ms.n) == (0, 0, 1)


class TestFailures:
    def test_failures_are_counted_by_kind_and_enter_no_time(self) -> None:
        done = in_turn(3)
        found, alone = figures([*done, FAILED, FAILED], 5.0), figures(done, 5.0)
        assert (found.failed, found.failures) == (2, {"aborted": 2})
        assert msgspec.structs.replace(found, failed=0, failures={}) == alone

    @pytest.mark.parametrize("timings", [[], [FAILED]])
    def test_without_any_success_nothing_is_invented(self, timings: list[RequestTiming]) -> None:
        found = figures(timings, 60.0)
        assert found.output_throughput == found.concurrency == 0
        assert found.ttft_ms == found.itl_ms == spread([])
        assert found.max_output_tokens_per_s is None
        assert found.per_second == ()
        assert b"null" in msgspec.json.encode(found)

    def test_no_duration_is_no_division_by_zero(self) -> None:
        assert figures([], None).request_throughput == 0


class TestSpreads:
    def test_of_four_values_no_tail_is_told_but_the_largest(self) -> None:
        found = spread([220, 900, 200, 210])
        assert (found.n, found.median, found.max) == (4, 215.0, 900)
        assert (found.p90, found.p95, found.p99) == (None, None, None)
        assert tail(found) == ("max", 900)

    @pytest.mark.parametrize(
        ("n", "name"), [(9, "max"), (10, "p90"), (19, "p90"), (20, "p95"), (99, "p95"), (100, "p99")]
    )
    def test_the_farthest_tail_that_is_told(self, n: int, name: str) -> None:
        farthest = tail(spread(range(n)))
        assert farthest is not None
        assert farthest[0] == name

    def test_percentiles_are_those_of_numpy(self) -> None:
        # numpy.percentile([1, 2, 4, 8, 16], [50, 90, 99]), version 2.4.6
        assert [percentile([1, 2, 4, 8, 16], at) for at in (50, 90, 99)] == pytest.approx([4, 12.8, 15.68])

    def test_of_nothing_there_is_no_tail(self) -> None:
        assert tail(spread([])) is None


@st.composite
def requests(draw: st.DrawFn) -> RequestTiming:
    sent = draw(st.floats(0, 5))
    chunks = tuple(sorted(sent + gap for gap in draw(st.lists(st.floats(0, 9), max_size=20))))
    ended = max((sent, *chunks)) + draw(st.floats(0.001, 1))
    return RequestTiming(
        index=0,
        sent=sent,
        chunks=chunks,
        ended=ended,
        completion_tokens=draw(st.none() | st.integers(0, 99)),
        failure=draw(st.none() | st.just("aborted")),
    )


class TestSeconds:
    def test_each_chunk_has_the_same_share(self) -> None:
        assert tokens_per_second([request(0, 0.0, first=0.5, gap=0.25, tokens=4)], 1.3) == (2.0, 2.0)
        assert tokens_per_second([BUNDLED], 0.621) == (13.0,)

    @given(st.lists(requests(), max_size=8))
    def test_seconds_hold_all_tokens_and_the_peak_is_no_less_than_the_mean(
        self, timings: list[RequestTiming]
    ) -> None:
        found = figures(timings)
        assert fsum(found.per_second) == pytest.approx(found.total_output_tokens)
        assert (found.max_output_tokens_per_s or 0) >= found.output_throughput


class TestWhileItRuns:
    def test_what_has_ended_so_far(self) -> None:
        found = running([*in_turn(2), FAILED], 4.0)
        assert (found.completed, found.failed) == (2, 1)
        assert found.output_throughput == pytest.approx(16.0)
        assert found.ttft_ms == pytest.approx(100.0)

    def test_nothing_has_ended(self) -> None:
        assert running([], 0.0).ttft_ms is None
        assert tokens_per_chunk([]) is None

    def test_tokens_of_a_chunk(self) -> None:
        assert tokens_per_chunk([BUNDLED, FAILED]) == 13 / 4
