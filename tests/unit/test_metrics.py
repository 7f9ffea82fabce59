"""Metrics pages as they come: several versions, ranks, cuts and restarts."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.metrics import (
    Rates,
    Reading,
    from_batch_line,
    parse_reading,
    parse_router_reading,
    rates,
)

CAPTURES = Path(__file__).parent.parent / "captures"


def capture(name: str) -> str:
    return (CAPTURES / name).read_text()


class TestRealPages:
    def test_prefill(self) -> None:
        reading = parse_reading(capture("cpu/prefill.metrics"), at=7.0)
        assert reading == Reading(
            at=7.0,
            prompt_tokens=1263.0,
            cached_tokens=422.0,
            finished_tokens=37.0,
            gen_throughput=0.0,
            running=0.0,
            queued=0.0,
            kv_usage=0.01,
            bootstrap_queue=0.0,
            inflight_queue=2.0,
            prealloc_queue=0.0,
            transfer_queue=0.0,
            transfers=36.0,
            transferred_mb=1.640625,
            transfer_speed_sum=0.05154796613289596,
        )

    def test_decode(self) -> None:
        reading = parse_reading(capture("h200/decode.metrics"), at=7.0)
        assert (reading.gen_tokens, reading.prompt_tokens, reading.running) == (8.0, None, 0.0)
        assert reading.note is None

    def test_router(self) -> None:
        reading = parse_router_reading(capture("cpu/router.metrics"), at=7.0)
        assert (reading.requests, reading.request_errors, reading.retries) == (36.0, None, 4.0)
        assert (reading.workers, reading.healthy_workers, reading.open_breakers) == (2, 2, 0)
        assert reading.active == 0.0
        assert reading.note is None

    def test_a_router_page_is_no_server_page(self) -> None:
        reading = parse_reading(capture("cpu/router.metrics"), at=7.0)
        assert reading == Reading(at=7.0, note="no metrics of SGLang on the page")

    def test_a_worker_down_and_a_breaker_open(self) -> None:
        page = (
            capture("cpu/router.metrics")
            .replace(
                'smg_worker_health{worker="http://127.0.0.1:30002"} 1', 'smg_worker_health{worker="b"} 0'
            )
            .replace(
                'smg_worker_cb_state{worker="http://127.0.0.1:30002"} 0', 'smg_worker_cb_state{worker="b"} 1'
            )
        )
        reading = parse_router_reading(page, at=7.0)
        assert (reading.workers, reading.healthy_workers, reading.open_breakers) == (2, 1, 1)


class TestNamesByVersion:
    @pytest.mark.parametrize(
        "line",
        [
            'sglang:num_running_reqs{model_name="dsv4",engine_type="decode"} 12.0',
            'sglang_num_running_reqs{model_name="dsv4",worker_addr="http://127.0.0.1:30001"} 12.0',
            'sglang:num_requests_running{name="dsv4"} 12.0',
        ],
        ids=["engine", "through the router", "very old"],
    )
    def test_all_say_running_12(self, line: str) -> None:
        assert parse_reading(f"{line}\n", at=0.0) == Reading(at=0.0, running=12.0)

    def test_both_spellings_on_one_page_are_not_doubled(self) -> None:
        page = 'sglang:num_running_reqs{m="a"} 12.0\nsglang_num_running_reqs{m="a"} 12.0\n'
        assert parse_reading(page, at=0.0).running == 12.0

    def test_the_bootstrap_queue_was_once_the_prealloc_queue(self) -> None:
        assert parse_reading("sglang:num_prefill_prealloc_queue_reqs 3.0\n", at=0.0).bootstrap_queue == 3.0

    def test_labels_are_a_set(self) -> None:
        one = 'sglang:realtime_tokens_total{mode="decode",tp_rank="0",zone="a,}\\"b"} 5.0\n'
        other = 'sglang:realtime_tokens_total{tp_rank="0",mode="decode"} 5.0\n'
        assert parse_reading(one, at=0.0) == parse_reading(other, at=0.0) == Reading(at=0.0, gen_tokens=5.0)

    def test_prefix_cache_hits_are_not_computed_prompt_tokens(self) -> None:
        page = (
            'sglang:realtime_tokens_total{mode="prefill_compute"} 5.0\n'
            'sglang:realtime_tokens_total{mode="prefill_cache"} 900.0\n'
        )
        assert parse_reading(page, at=0.0) == Reading(at=0.0, prompt_tokens=5.0, cached_tokens=900.0)


class TestRanks:
    def test_tp_ranks_repeat_one_number(self) -> None:
        page = "".join(f'sglang:num_running_reqs{{tp_rank="{n}",pp_rank="0"}} 3.0\n' for n in (3, 1, 0, 2))
        assert parse_reading(page, at=0.0) == Reading(at=0.0, running=3.0)

    def test_dp_ranks_are_added(self) -> None:
        page = "".join(
            f'sglang:gen_throughput{{dp_rank="{n}",tp_rank="0"}} {value}\n'
            for n, value in ((0, 386.2), (1, 386.9))
        )
        assert parse_reading(page, at=0.0).gen_throughput == pytest.approx(773.1)

    def test_dp_and_tp_together(self) -> None:
        page = "".join(
            f'sglang:num_queue_reqs{{dp_rank="{dp}",tp_rank="{tp}"}} {2 + dp}\n'
            for dp in (0, 1)
            for tp in (0, 1)
        )
        assert parse_reading(page, at=0.0).queued == 5.0

    def test_usage_is_a_share_and_never_added(self) -> None:
        page = 'sglang:token_usage{dp_rank="0"} 0.7\nsglang:token_usage{dp_rank="1"} 0.9\n'
        assert parse_reading(page, at=0.0).kv_usage == 0.9

    def test_the_first_rank_is_believed(self) -> None:
        page = 'sglang:num_running_reqs{tp_rank="1"} 9.0\nsglang:num_running_reqs{tp_rank="0"} 3.0\n'
        assert parse_reading(page, at=0.0) == Reading(at=0.0, running=3.0)

    def test_without_a_first_rank_the_largest_with_a_note(self) -> None:
        page = 'sglang:num_running_reqs{tp_rank="1"} 3.0\nsglang:num_running_reqs{tp_rank="2"} 4.0\n'
        note = "ranks disagree on running; the largest is taken"
        assert parse_reading(page, at=0.0) == Reading(at=0.0, running=4.0, note=note)

    def test_prefill_and_decode_are_never_added(self) -> None:
        page = "".join(
            f'sglang_num_running_reqs{{engine_type="{role}"}} 3.0\n' for role in ("prefill", "decode")
        )
        reading = parse_reading(page, at=0.0)
        assert reading == Reading(at=0.0, note="the page mixes several servers; read each by itself")

    def test_a_family_without_labels_is_no_second_server(self) -> None:
        page = 'process_start_time_seconds 1.7620e+09\nsglang:num_running_reqs{engine_type="decode"} 3.0\n'
        assert parse_reading(page, at=0.0) == Reading(at=0.0, process_start=1.762e9, running=3.0)


class TestBadPages:
    def test_html_from_a_proxy(self) -> None:
        reading = parse_reading("<html><body>login</body></html>", at=0.0)
        assert reading == Reading(at=0.0, note="not a metrics page")

    def test_json_of_an_error(self) -> None:
        assert parse_reading('{"detail":"Not Found"}', at=0.0).note == "not a metrics page"

    def test_nothing(self) -> None:
        assert parse_reading(" \n", at=0.0) == Reading(at=0.0, note="an empty page")

    def test_cut_in_a_name(self) -> None:
        page = '# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{m="a"} 3.0\nsglang:num_que'
        assert parse_reading(page, at=0.0) == Reading(at=0.0, running=3.0, note="the page was cut short")

    def test_cut_in_a_number(self) -> None:
        page = "sglang:num_queue_reqs 2.0\nsglang:num_running_reqs 1"
        assert parse_reading(page, at=0.0) == Reading(at=0.0, queued=2.0, note="the page was cut short")

    def test_bad_lines_lose_only_themselves(self) -> None:
        page = 'sglang:num_running_reqs{x="} 3.0\nsglang:token_usage abc\nsglang:num_queue_reqs 2.0\n'
        assert parse_reading(page, at=0.0) == Reading(at=0.0, queued=2.0, note="2 lines could not be read")

    @pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
    def test_what_is_no_number_is_none(self, value: str) -> None:
        reading = parse_reading(f"sglang:gen_throughput {value}\nsglang:num_running_reqs 0.0\n", at=0.0)
        assert reading == Reading(at=0.0, running=0.0)

    def test_one_unreadable_dp_rank_makes_the_sum_unreadable(self) -> None:
        page = 'sglang:token_usage{dp_rank="0"} 0.7\nsglang:token_usage{dp_rank="1"} NaN\n'
        assert parse_reading(page, at=0.0).kv_usage is None

    @given(st.text())
    def test_any_text_is_survived(self, text: str) -> None:
        assert parse_reading(text, at=1.0).at == parse_router_reading(text, at=1.0).at == 1.0

    @given(
        st.sampled_from(["sglang:num_running_reqs", "sglang:realtime_tokens_total", "smg_worker_health"]),
        st.text(alphabet='{}",=\\ #01.9eNaInf_-+x\t'),
    )
    def test_any_rest_of_a_line_is_survived(self, name: str, rest: str) -> None:
        values = msgspec.structs.astuple(parse_reading(f"{name}{rest}\n", at=1.0))
        values += msgspec.structs.astuple(parse_router_reading(f"{name}{rest}\n", at=1.0))
        assert all(math.isfinite(value) for value in values if isinstance(value, float))

    @given(st.integers(min_value=0))
    def test_a_cut_anywhere_never_invents_a_value(self, seed: int) -> None:
        page = capture("h200/decode.metrics")
        whole = msgspec.structs.asdict(parse_reading(page, at=1.0))
        cut = msgspec.structs.asdict(parse_reading(page[: seed % len(page)], at=1.0))
        assert all(value in (None, whole[field]) for field, value in cut.items() if field != "note")


class TestRates:
    def test_tokens_over_seconds(self) -> None:
        before = Reading(at=10.0, gen_tokens=1204.0, prompt_tokens=0.0)
        now = Reading(at=15.0, gen_tokens=4204.0, prompt_tokens=50.0)
        assert rates(before, now) == Rates(gen_tok_s=600.0, prompt_tok_s=10.0, source="counters")

    def test_an_idle_server_gives_0(self) -> None:
        before = Reading(at=10.0, gen_tokens=8.0)
        assert rates(before, Reading(at=12.0, gen_tokens=8.0)) == Rates(gen_tok_s=0.0, source="counters")

    def test_nothing_known_is_none(self) -> None:
        assert rates(Reading(at=10.0), Reading(at=12.0)) == Rates()

    def test_counters_go_before_the_gauge(self) -> None:
        before = Reading(at=10.0, gen_tokens=0.0, gen_throughput=90.0)
        now = Reading(at=12.0, gen_tokens=8.0, gen_throughput=90.0)
        assert rates(before, now).gen_tok_s == 4.0

    @pytest.mark.parametrize(
        "before",
        [None, Reading(at=12.0, gen_tokens=8.0), Reading(at=13.0, gen_tokens=8.0)],
        ids=["first reading", "the same instant", "a clock that went back"],
    )
    def test_a_counter_read_once_tells_no_rate_and_the_old_gauge_is_not_taken_for_one(
        self, before: Reading | None
    ) -> None:
        now = Reading(at=12.0, gen_tokens=8.0, gen_throughput=90.0)
        assert rates(before, now) == Rates()

    @pytest.mark.parametrize("before", [None, Reading(at=10.0)], ids=["first reading", "no counter before"])
    def test_the_gauge_stands_in(self, before: Reading | None) -> None:
        now = Reading(at=12.0, gen_tokens=None if before is None else 8.0, gen_throughput=90.0)
        assert rates(before, now) == Rates(gen_tok_s=90.0, source="gauge")

    def test_an_old_version_has_only_the_gauge(self) -> None:
        before, now = (Reading(at=at, gen_throughput=90.0) for at in (10.0, 12.0))
        assert rates(before, now) == Rates(gen_tok_s=90.0, source="gauge")

    def test_a_restart_is_a_gap_and_then_counts_again(self) -> None:
        tokens = 'sglang:realtime_tokens_total{mode="decode"}'
        pages = [
            f"process_start_time_seconds {start}\n{tokens} {count}\n"
            for start, count in (
                ("1.7620e+09", "9.482113e+06"),
                ("1.7621e+09", "1204"),
                ("1.7621e+09", "4204"),
            )
        ]
        first, second, third = (parse_reading(page, at=5.0 * n) for n, page in enumerate(pages))
        assert rates(first, second) == Rates(gap="restart")
        assert rates(second, third).gen_tok_s == 600.0

    def test_a_restart_shows_without_a_start_time_too(self) -> None:
        before = Reading(at=10.0, gen_tokens=100.0, prompt_tokens=5.0, gen_throughput=90.0)
        now = Reading(at=12.0, gen_tokens=7.0, prompt_tokens=9.0, gen_throughput=90.0)
        assert rates(before, now) == Rates(gap="restart")

    def test_a_start_time_tells_of_a_restart_that_the_counters_hide(self) -> None:
        before = Reading(at=10.0, process_start=1.0, gen_tokens=1.0)
        assert rates(before, Reading(at=12.0, process_start=2.0, gen_tokens=900.0)) == Rates(gap="restart")

    def test_a_counter_that_falls_without_a_restart_is_unreliable(self) -> None:
        before = Reading(at=10.0, process_start=1.0, prompt_tokens=900.0)
        now = Reading(at=12.0, process_start=1.0, prompt_tokens=4.0)
        assert rates(before, now) == Rates(gap="unreliable")

    @given(
        *(st.builds(Reading, at=st.floats(0, 1e9), gen_tokens=st.none() | st.floats(0, 1e15)) for _ in "ab")
    )
    def test_never_negative(self, before: Reading, now: Reading) -> None:
        assert (rates(before, now).gen_tok_s or 0.0) >= 0.0


class TestBatchLines:
    @pytest.mark.parametrize(
        ("line", "gen", "prompt"),
        [
            (
                "[2026-06-17 16:24:55 TP0] Decode batch, #running-req: 1, #full token: 2304, "
                "accept len: 2.71, cuda graph: True, gen throughput (token/s): 104.12, #queue-req: 0",
                104.12,
                None,
            ),
            ("Decode batch [4120], gen throughput (token/s): 103.90, #queue-req: 0", 103.9, None),
            ("Decode batch. #running-req: 1, gen throughput (token/s): 98.20, #queue-req: 0", 98.2, None),
            ("Decode batch, gen throughput (token/s): 7.00, #running-req: 1\n", 7.0, None),
            (
                "Prefill batch, #new-seq: 1, cpu graph: False, input throughput (token/s): 1.53",
                None,
                1.53,
            ),
            ("Prefill batch, #inflight-req: 0, input throughput (token/s): 3300.10, ", None, 3300.1),
        ],
    )
    def test_fields_in_any_order(self, line: str, gen: float | None, prompt: float | None) -> None:
        assert from_batch_line(line) == Rates(gen_tok_s=gen, prompt_tok_s=prompt, source="log")

    @pytest.mark.parametrize(
        "line",
        [
            "Prefill batch, #new-seq: 1, #new-token: 1024, #queue-req: 0, ",
            "Decode batch, gen throughput (token/s): nan",
            "Load weight begin. avail mem=94.12 GB",
            "gen throughput (token/s): 104.12",
        ],
    )
    def test_other_lines_say_nothing(self, line: str) -> None:
        assert from_batch_line(line) is None

    @given(st.text(), st.text())
    def test_any_line_is_survived(self, head: str, rest: str) -> None:
        found = from_batch_line(f"{head}Decode batch{rest}")
        assert found is None or found.source == "log"
