"""Whether B is faster than A, how often that is wrong, and what stands in the way of asking."""

from __future__ import annotations

from math import exp
from random import Random
from typing import Any

import msgspec
import pytest

from console.domain.bench.comparability import changed_settings, differs, obstacles, several_settings
from console.domain.bench.comparison import Comparison, compare, compare_all, in_words
from console.domain.bench.load import RequestTiming
from console.domain.bench.result import BenchResult
from console.domain.bench.run_values import METRICS, sampling
from console.domain.bench.student import quantile
from console.domain.errors import ConsoleError
from tests.unit.bench_results import CLIENT, CONTEXT, in_turn, request, result, with_throughput

TRIALS = 200


def repeats(rng: Random, count: int, mean: float, noise: float) -> list[BenchResult]:
    return [with_throughput(mean * exp(rng.gauss(0, noise))) for _ in range(count)]


def shown(count: int, ratio: float, noise: float, seed: int, trials: int = TRIALS) -> float:
    """How often a difference is."""
    rng = Random(seed)
    found = [
        compare(
            repeats(rng, count, 1000, noise), repeats(rng, count, 1000 * ratio, noise), "output_throughput"
        )
        for _ in range(trials)
    ]
    return sum(each.verdict != "no difference shown" for each in found) / trials


def run(rng: Random, scale: float = 1.0, count: int = 40) -> BenchResult:
    """At C=1, with requests that differ by a tenth, and a mean speed of its own."""
    made: list[RequestTiming] = []
    for index in range(count):
        speed = scale * exp(rng.gauss(0, 0.1))
        sent = made[-1].ended if made else 0.0
        made.append(request(index, sent, first=0.1 * speed, gap=0.01 * speed))
    return result(made)


class TestErrorRates:
    @pytest.mark.parametrize("noise", [0.01, 0.03])
    def test_a_against_a_shows_no_difference_in_nineteen_trials_of_twenty(self, noise: float) -> None:
        assert shown(3, 1.0, noise, seed=11) <= 0.05
        assert shown(3, 1.0, noise, seed=12, trials=20) <= 1 / 20

    def test_a_true_tenth_is_found(self) -> None:
        assert shown(3, 1.1, 0.01, seed=13) > 0.95
        assert shown(3, 1 / 1.1, 0.01, seed=14) > 0.95

    def test_single_runs_that_differ_by_the_noise_between_runs_show_none(self) -> None:
        rng = Random(15)
        pairs = [[run(rng, exp(rng.gauss(0, 0.02))) for _ in "AB"] for _ in range(20)]
        found = [compare(a, b, "output_throughput").verdict for a, b in ([[x], [y]] for x, y in pairs)]
        assert found.count("no difference shown") >= 19

    @pytest.mark.parametrize(
        ("df", "t"), [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (30, 2.04227), (1e9, 1.95996)]
    )
    def test_quantiles_of_t(self, df: float, t: float) -> None:
        assert quantile(0.975, df) == pytest.approx(t, rel=1e-5)


class TestIntervals:
    def test_ratio_and_sides(self) -> None:
        a = [with_throughput(rate) for rate in (990, 1000, 1010)]
        b = [with_throughput(rate) for rate in (1089, 1100, 1111)]
        found = compare(a, b, "output_throughput")
        assert found.ratio == pytest.approx(1.1)
        # Welch by hand: s = 0.01, standard error 0.01 sqrt(2/3), 4 degrees of freedom, t = 2.776
        assert found.high / found.ratio == pytest.approx(exp(2.77645 * 0.01 * (2 / 3) ** 0.5), rel=1e-5)
        assert found.smallest_pct == pytest.approx(100 * (found.high / found.ratio - 1))
        assert found.verdict == "faster"
        assert (found.a.repeats, found.a.value) == (3, pytest.approx(1000, rel=1e-4))
        assert found.a.low < 990 < 1010 < found.a.high
        assert found.notes == ()

    def test_lower_times_are_faster(self) -> None:
        quick, slow = ([result(in_turn(12, first=first))] * 3 for first in (0.1, 0.2))
        assert compare(slow, quick, "ttft").verdict == "faster"
        assert compare(quick, slow, "ttft").verdict == "slower"
        assert compare(quick, slow, "e2e").verdict == "slower"
        assert compare(quick, slow, "itl").verdict == "no difference shown"

    def test_turned_round_it_is_the_reciprocal(self) -> None:
        rng = Random(1)
        a, b = repeats(rng, 3, 1000, 0.02), repeats(rng, 4, 1050, 0.01)
        there, back = compare(a, b, "output_throughput"), compare(b, a, "output_throughput")
        assert there.ratio == pytest.approx(1 / back.ratio)
        assert there.low == pytest.approx(1 / back.high)

    def test_repeats_that_agree_to_the_last_digit_are_not_trusted(self) -> None:
        same = [with_throughput(1000)] * 2
        assert (
            compare(same, [with_throughput(1001)] * 2, "output_throughput").verdict == "no difference shown"
        )

    def test_one_run_says_that_noise_is_assumed(self) -> None:
        found = compare([with_throughput(1000)], [with_throughput(1060)] * 3, "output_throughput")
        assert found.verdict == "no difference shown"
        assert found.notes == (
            "A is one run: 3% between runs is assumed, not measured; its requests were not kept",
        )

    def test_the_same_seed_gives_the_same(self) -> None:
        a, b = [run(Random(1))], [run(Random(2))]
        assert compare(a, b, "tpot", seed=5) == compare(a, b, "tpot", seed=5)
        assert compare(a, b, "tpot", seed=5) != compare(a, b, "tpot", seed=6)

    def test_every_metric_that_both_have(self) -> None:
        one_token = result(in_turn(12, tokens=1))
        assert [each.metric for each in compare_all([run(Random(1))], [run(Random(2))])] == [*METRICS]
        assert [each.metric for each in compare_all([one_token], [one_token])] == [
            "output_throughput",
            "ttft",
            "e2e",
        ]

    def test_without_any_success_there_is_nothing_to_compare(self) -> None:
        with pytest.raises(ConsoleError, match="B cannot be compared"):
            compare([with_throughput(1)], [with_throughput(0)], "output_throughput")
        with pytest.raises(ConsoleError, match="A cannot be compared"):
            compare([], [with_throughput(1)], "output_throughput")


class TestSampling:
    """The error of one run, by its requests."""

    def test_at_c1_it_is_that_of_tokens_over_latencies(self) -> None:
        found = sampling(run(Random(3), count=100), "output_throughput", Random(1))
        assert found is not None
        # 10 % between requests, over the root of 100 of them
        assert found.error == pytest.approx(0.01, rel=0.25)
        assert found.df == 99

    @pytest.mark.parametrize("metric", METRICS)
    def test_equal_requests_leave_no_doubt(self, metric: Any) -> None:
        found = sampling(result(in_turn(20)), metric, Random(1))
        assert found is not None
        assert found.error == pytest.approx(0, abs=1e-9)

    def test_blocks_are_what_was_in_flight_together(self) -> None:
        requests = [request(i, 0.5 * (i // 4), gap=0.01 * (1 + i // 4 % 2)) for i in range(40)]
        found = sampling(result(requests, max_concurrency=4), "e2e", Random(1))
        assert found is not None
        assert found.df == 9

    def test_of_too_few_blocks_nothing_is_said(self) -> None:
        assert sampling(result(in_turn(12), max_concurrency=4), "ttft", Random(1)) is None


class TestWords:
    FOUND = compare([with_throughput(1000)] * 3, [with_throughput(1100)] * 3, "output_throughput")

    def test_a_difference(self) -> None:
        assert in_words(self.FOUND) == "B is faster: +10.0 % (95 %: +9.8 to +10.2 %)"

    def test_none_tells_what_could_have_been_shown(self) -> None:
        none: Comparison = msgspec.structs.replace(
            self.FOUND, verdict="no difference shown", smallest_pct=12.34
        )
        assert in_words(none).endswith("only differences above 12.3 % could have been")


class TestComparability:
    def test_repeats_are_comparable(self) -> None:
        assert differs(result(), result(id="r2", seed=2)) == []

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"input_tokens": 1024}, "the number of input tokens differs: 128 against 1,024"),
            ({"output_tokens": 64}, "the number of output tokens differs: 32 against 64"),
            ({"max_concurrency": 16}, "the concurrency differs: 1 against 16"),
            ({"prompts": 20}, "the number of prompts differs: 12 against 20"),
            ({"cache": "warm"}, "the state of the cache differs: nonce against warm"),
            ({"model": None}, "the model differs: /m against not known"),
            ({"host": "demo"}, "the host differs: ct200 against demo"),
            ({"demo": True}, "one is of the demo, the other of a real host"),
            ({"partial": "stopped by the operator"}, "B is partial: stopped by the operator"),
            ({"other_load": 2.34}, "others had 2.3 requests in flight during B"),
            ({"cached_share": 0.38}, "a prefix cache served 38% of the prompt tokens of B"),
            ({"verified": False}, "the servers of B did not run as its profile asks"),
            ({"gpu": {"power_limit_w": 450.0}}, "the power limit of the GPUs differs: 600 W against 450 W"),
            (
                {"gpu": {"clock_mhz": 1800.0}},
                "the clocks of the GPUs differ: 2400 MHz against 1800 MHz on average",
            ),
            ({"versions": {"driver": "590"}}, "the driver differs: 580 against 590"),
            (
                {"origin": "sglang (random)"},
                "they were measured by different clients: this console against sglang (random)",
            ),
            (
                {"client": msgspec.structs.replace(CLIENT, where="here, through the tunnel (12 ms)")},
                "the load came from different places: host against here, through the tunnel",
            ),
            (
                {"client": msgspec.structs.replace(CLIENT, limited="it lagged")},
                "the client may have been the limit of B: it lagged",
            ),
        ],
    )
    def test_one_sentence_for_what_differs(self, changes: dict[str, Any], sentence: str) -> None:
        first = result(gpu={"power_limit_w": 600.0, "clock_mhz": 2400.0}, versions={"driver": "580"})
        assert differs(first, result(**changes)) == [sentence]

    def test_failures_above_one_percent(self) -> None:
        failed = request(12, 0.0, failure="aborted")
        assert differs(result(), result([*in_turn(12), failed])) == ["1 of 13 requests of B failed"]
        assert differs(result(), result([*in_turn(99), failed])) == []

    def test_a_tunnel_is_never_twice_as_long(self) -> None:
        near, far = (
            result(client=msgspec.structs.replace(CLIENT, where=f"here, through the tunnel ({rtt} ms)"))
            for rtt in (12, 13)
        )
        assert differs(near, far) == []

    def test_repeats_must_be_of_the_same_settings(self) -> None:
        other = result(settings={"decode flag mem-fraction-static": "0.9"})
        assert obstacles([result(), other], [result()]) == (
            "within one side settings differ: these are no repeats",
        )


def limited(made: BenchResult, **fields: Any) -> BenchResult:
    client = msgspec.structs.replace(CLIENT, limited="it lagged", **fields)
    return msgspec.structs.replace(made, client=client)


class TestLimits:
    """A client that comes late makes a server look slower, never faster."""

    SLOW, QUICK = [with_throughput(400)] * 3, [with_throughput(1600)] * 3
    LATE = (QUICK[0], *map(limited, QUICK[1:]))

    def test_the_faster_side_is_so_though_it_was_limited(self) -> None:
        assert obstacles(self.SLOW, self.LATE) == obstacles(self.LATE, self.SLOW) == ()
        found = compare(self.SLOW, self.LATE, "output_throughput")
        assert (found.verdict, found.notes) == (
            "faster",
            (
                "the client may have been the limit of B, which may be faster still;"
                " of latencies there is no verdict",
            ),
        )
        assert compare(self.LATE, self.SLOW, "output_throughput").verdict == "slower"

    def test_of_its_latencies_nothing_is_said(self) -> None:
        latencies = [each for each in compare_all(self.SLOW, self.LATE) if each.metric != "output_throughput"]
        assert len(latencies) == 4
        assert {each.verdict for each in latencies} == {None}
        assert in_words(latencies[0]).startswith("no verdict: ")

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (list(map(limited, SLOW)), QUICK),
            (list(map(limited, SLOW)), list(map(limited, QUICK))),
            (SLOW, [limited(each, offered_less=True) for each in QUICK]),
            ([*SLOW[:2], with_throughput(1700)], list(map(limited, QUICK))),
            (QUICK, list(map(limited, QUICK))),
        ],
        ids=["the slower", "both", "one that was offered less", "not in every run", "neither is faster"],
    )
    def test_else_a_limit_is_an_obstacle(self, a: list[BenchResult], b: list[BenchResult]) -> None:
        found = [each.partition(" of ")[0] for each in obstacles(a, b)]
        assert set(found) == {"the client may have been the limit"}
        assert {each.verdict for each in compare_all(a, b)} == {None}

    def test_what_may_have_been_hidden_is_not_said_to_be_absent(self) -> None:
        a, b = (
            [with_throughput(rate) for rate in (980, 995)],
            [with_throughput(rate) for rate in (1000, 1050)],
        )
        assert compare(a, b, "output_throughput").verdict == "no difference shown"
        assert compare(a, list(map(limited, b)), "output_throughput").verdict is None


class TestSettings:
    def test_settings_are_no_obstacle_and_one_is_told_from_several(self) -> None:
        one = msgspec.structs.replace(CONTEXT, settings={**CONTEXT.settings, "decode NCCL_PROTO": "LL128"})
        two = msgspec.structs.replace(one, settings={**one.settings, "router flag policy": "random"})
        assert differs(result(), result(settings=two.settings)) == []
        assert changed_settings(CONTEXT, one) == ("NCCL_PROTO: LL → LL128",)
        assert several_settings(CONTEXT, one) is None
        assert several_settings(CONTEXT, two) == (
            "2 settings differ: the effect can't be given to one of them"
        )

    def test_one_that_changes_alike_in_both_roles_counts_once(self) -> None:
        a, b = (
            msgspec.structs.replace(
                CONTEXT, settings={f"{role} flag x": value for role in ("prefill", "decode")}
            )
            for value in "12"
        )
        assert changed_settings(a, b) == ("flag x: 1 → 2",)

    def test_another_sglang_is_a_setting(self) -> None:
        a, b = (msgspec.structs.replace(CONTEXT, versions={"sglang": v}) for v in ("0.5.15", "0.5.23"))
        assert changed_settings(a, b) == ("sglang: 0.5.15 → 0.5.23",)
