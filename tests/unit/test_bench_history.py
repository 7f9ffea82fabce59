"""Results found again: listed, filtered, forgotten, compared, or refused to be."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from console.domain.bench.result import BenchResult
from console.domain.errors import ConnectionLost
from console.ui.app import ConsoleApp
from console.ui.screens.bench_compare import BenchCompareScreen
from console.ui.screens.bench_history import EXPORT, HOW_TO_MARK, BenchHistoryScreen
from console.ui.screens.confirm import ConfirmScreen
from console.ui.widgets.bench_charts import BenchCharts, Charted
from console.ui.widgets.bench_list import BenchList, found
from console.ui.widgets.bench_scatter import scatter
from console.ui.widgets.big_number import big
from console.ui.widgets.histogram import Bin, bins, histogram_lines
from console.ui.widgets.lines import plain, width_of
from console.ui.widgets.meter import ASCII, UNICODE
from console.ui.widgets.paragraphs import ParagraphView
from tests.unit.canned import EVERYTHING, NOW, Feed
from tests.unit.canned_bencher import (
    ALONE,
    BEST,
    CUT,
    HISTORY,
    LAST,
    UNTUNED,
    BenchSeat,
    CannedBencher,
    bench_console,
    bench_seat,
    result,
)

SIZES = [(80, 24), (120, 40), (200, 60)]


async def listed(it: BenchSeat) -> BenchList:
    """Open the history and wait for its results."""
    await it.press("c")
    await it.until(lambda: isinstance(it.app.screen, BenchHistoryScreen), "no history is shown")
    shown = it.app.screen.query_one(BenchList)
    await it.until(lambda: shown.marked is not None, "the results are not shown")
    return shown


async def compared(it: BenchSeat) -> None:
    """Wait for the comparison."""
    await it.until(lambda: isinstance(it.app.screen, BenchCompareScreen), "no comparison is shown")


def rows(shown: BenchList) -> list[str]:
    """The lines below the title, without the blanks between columns."""
    return [" ".join(plain(line).split()) for line in shown.shown[1:]]


@pytest.mark.parametrize("size", SIZES)
async def test_the_newest_come_first_with_their_figures_and_marks(size: tuple[int, int]) -> None:
    async with bench_seat(size=size) as it:
        shown = await listed(it)
        wanted = [
            "29 23:54 pd-ll 16 377 400 31.8 ! partial 1024/64 nonce",
            "29 23:21 pd-ll 1 79 410 9.54 1024/64 nonce",
            "29 22:43 pd-ll 16 777 400 17.5 1024/64 nonce",
            "28 23:44 pd-ll 16 805 400 16.7 1024/64 nonce",
            "27 17:11 pd-untuned 16 567 400 25.4 1024/64 nonce",
        ]
        told = [row.split("11-", 1)[1].removesuffix("…") for row in rows(shown)]
        assert all(line.startswith(row) for line, row in zip(wanted, told, strict=True))
        # Where it is narrow the shape, which comes last, may be cut off.
        assert all("1024/64" in row for row in told)
        await it.shows("! PARTIAL aborted by me@laptop", "377 output tok/s at C=16")
        await it.press("down")
        await it.shows("79 output tok/s at C=1", "n=10 is too few for p95, p99.")


async def test_the_times_are_those_of_the_host() -> None:
    async with bench_seat() as it:
        it.feed.more(msgspec.structs.replace(EVERYTHING[0], utc_offset_s=-3600.0))
        await it.until(lambda: it.feed.drained, "the host was not taken")
        await it.pilot.pause()
        shown = await listed(it)
        assert "2026-11-29 22:54" in rows(shown)[0]


async def test_what_is_typed_filters_by_every_word() -> None:
    async with bench_seat() as it:
        shown = await listed(it)
        await it.press("slash", *"c=16 pd-ll")
        await it.until(lambda: len(rows(shown)) == 3, "it is not filtered")
        await it.until(lambda: "3 of 5" in it.screen(), "the count is not told")
        await it.press(*" qqq")
        await it.shows("no result has 'c=16 pd-ll qqq'")
        await it.press("escape")
        await it.until(lambda: len(rows(shown)) == 5, "the filter is still there")
        await it.press("slash", *"untuned", "enter", "down")
        assert shown.marked is not None
        assert shown.marked.id == UNTUNED.id


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [("c=1", [ALONE.id]), ("C=", [each.id for each in HISTORY]), ("c=160", []), ("NONCE partial", [CUT.id])],
)
def test_a_concurrency_is_found_whole(wanted: str, ids: list[str]) -> None:
    assert [each.id for each in HISTORY if found(each, wanted)] == ids


async def test_space_puts_a_result_on_a_side_and_takes_it_off() -> None:
    async with bench_seat() as it:
        shown = await listed(it)
        await it.press("space", "down", "space", "down", "space")
        assert [row[0] for row in rows(shown)[:2]] == ["A", "B"]
        assert rows(shown)[2].startswith("> B")
        await it.press("space")
        assert rows(shown)[2].startswith("> A"), "a second press is the other side"
        await it.press("space")
        assert not rows(shown)[2].startswith(("> A", "> B")), "a third is none"
        await it.press("up", "up", "space")
        assert rows(shown)[0].startswith("> B")


@pytest.mark.parametrize("key", ["enter", "c"])
@pytest.mark.parametrize("size", SIZES)
async def test_two_are_compared_with_intervals_and_a_verdict_in_a_word(
    size: tuple[int, int], key: str
) -> None:
    bencher = CannedBencher([result("fast", pace=0.01), *HISTORY])
    async with bench_seat(bencher, size=size) as it:
        await listed(it)
        await it.press("down", "down", "down", "space", "home", "space", key)
        await compared(it)
        await it.shows(
            "A pd-ll at C=16, 1 run: 1,024 in, 64 out, 96 requests, cache nonce, seed 42",
            "No setting differs.",
            "output tok/s 777",
            "1,145",
            "+47.3%",
            "+ faster smallest detectable:",
            "= no difference shown smallest detectable:",
            "A is one run: 3% between runs is assumed",
            "Intervals are of 95%",
        )
        assert it.buttons() == ["[Close]"]
        await it.press("enter")
        assert isinstance(it.app.screen, BenchHistoryScreen)


async def test_a_side_is_faster_though_the_client_was_its_limit_and_of_its_latencies_nothing_is_said() -> (
    None
):
    late = result("fast", pace=0.01, limited="its loop lagged 1.9 ms at p95, above 1 ms")
    async with bench_seat(CannedBencher([late, *HISTORY]), size=(80, 24)) as it:
        await listed(it)
        await it.press("down", "down", "down", "space", "home", "space", "enter")
        await compared(it)
        await it.shows(
            "B ! CLIENT it may have been the limit: its loop lagged 1.9 ms at p95, above 1 ms",
            "+ faster smallest detectable:",
            "? no verdict smallest detectable:",
            "the client may have been the limit of B, which may be faster still",
        )
        assert "= no difference shown" not in it.said()
        assert it.buttons() == ["[Close]"]


async def test_one_marked_is_compared_with_the_one_under_the_mark() -> None:
    async with bench_seat() as it:
        await listed(it)
        await it.press("down", "down", "space", "down", "enter")
        await compared(it)
        await it.shows("output tok/s 777 (", "805 (", "+3.6%", "= no difference shown")


async def test_sides_of_several_results_are_repeats() -> None:
    repeats = [result(f"r{n}", pace=0.016 + n / 100_000, at=NOW - n) for n in range(4)]
    async with bench_seat(CannedBencher(repeats)) as it:
        await listed(it)
        await it.press("space", "down", "space", "down", "space", "down", "space", "space", "enter")
        await compared(it)
        await it.shows("A pd-ll at C=16, 2 runs", "B pd-ll at C=16, 2 runs", "Intervals are of 95%")
        assert "is assumed" not in it.said()


async def test_with_too_few_marked_it_says_what_to_do() -> None:
    async with bench_seat() as it:
        await listed(it)
        await it.press("enter", "space", "c")
        assert it.told() == [HOW_TO_MARK, HOW_TO_MARK]
        assert isinstance(it.app.screen, BenchHistoryScreen)


async def test_what_is_not_comparable_is_refused_and_shown_anyway_without_a_verdict() -> None:
    async with bench_seat() as it:
        await listed(it)
        await it.press("down", "space", "down", "space", "enter")
        await compared(it)
        await it.shows(
            "✗ NOT COMPARABLE",
            "! the concurrency differs: 1 against 16",
            "! the number of prompts differs: 10 against 96",
        )
        assert it.buttons() == ["[Close]", "Compare anyway"]
        assert "output tok/s" not in it.said()
        await it.press("right", "enter")
        await it.shows("output tok/s 79", "No verdict: these results are not comparable.")
        text = it.app.screen.query_one("#compare", ParagraphView)
        shown = [plain(line) for line in text.shown]
        row = next(number for number, line in enumerate(shown) if "B against A" in line)
        top = round(text.scroll_y)
        assert top <= row < top + text.size.height, "the figures are in view"
        for word in ("faster", "slower", "no difference shown"):
            assert word not in it.said()
        assert it.buttons() == ["[Close]"]


async def test_settings_that_differ_are_named_and_several_take_the_cause_away() -> None:
    def with_settings(id: str, at: float, **settings: str) -> BenchResult:
        return result(id, at=at, context={"settings": {f"decode flag {k}": v for k, v in settings.items()}})

    bencher = CannedBencher(
        [with_settings("two", NOW, a="2", b="2"), with_settings("one", NOW - 1, a="1", b="1")]
    )
    async with bench_seat(bencher, glyphs=ASCII, size=(80, 24)) as it:
        await listed(it)
        await it.press("down", "space", "up", "space", "enter")
        await compared(it)
        await it.shows(
            "! 2 settings differ: the effect can't be given to one of them:",
            "flag a: 1 -> 2",
            "Intervals are of 95%",
        )
        assert it.said().isascii()


async def test_a_result_without_a_figure_is_told_and_no_crash() -> None:
    failed = result("none", count=4, failures=["refused"] * 4)
    async with bench_seat(CannedBencher([failed, LAST])) as it:
        await listed(it)
        await it.press("space", "down", "space", "enter")
        await compared(it)
        await it.shows("A ✗ FAILED no request succeeded", "! 4 of 4 requests of A failed")
        await it.press("right", "enter")
        await it.shows("There is no figure that both sides have.")
        assert it.buttons() == ["[Close]"]


async def test_a_result_that_is_gone_is_told() -> None:
    async with bench_seat() as it:
        await listed(it)
        await it.press("down", "down", "space", "down")
        it.bencher.results.remove(BEST)
        await it.press("enter")
        await compared(it)
        await it.shows(f"no result {BEST.id}")
        assert it.buttons() == ["[Close]"]


async def test_delete_asks_first() -> None:
    async with bench_seat() as it:
        shown = await listed(it)
        await it.press("space", "d")
        assert isinstance(it.app.screen, ConfirmScreen)
        await it.shows(f"pd-ll at C=16 ({CUT.id}) is forgotten")
        assert it.buttons() == ["[Cancel]", "Delete"]
        await it.press("enter")
        assert CUT in it.bencher.results
        await it.press("d", "right", "enter")
        await it.until(lambda: len(rows(shown)) == 4, "it is still listed")
        assert it.bencher.results == [ALONE, LAST, BEST, UNTUNED]
        await it.press("enter")
        assert it.told() == [HOW_TO_MARK], "its side is forgotten with it"


async def test_export_is_explained() -> None:
    async with bench_seat() as it:
        await listed(it)
        await it.press("x")
        assert it.told() == [EXPORT]
        assert "dsv4-console bench export" in EXPORT


@pytest.mark.parametrize("key", ["q", "escape"])
async def test_it_is_left_as_every_screen(key: str) -> None:
    async with bench_seat() as it:
        await listed(it)
        await it.press(key)
        assert it.app.screen is it.app.dashboard


async def test_without_results_it_says_how_to_get_some() -> None:
    async with bench_seat(CannedBencher([])) as it:
        await it.press("c")
        await it.shows("Nothing was measured yet: b and B measure.")
        await it.press("space", "d", "enter")
        assert it.told() == [HOW_TO_MARK]


async def test_a_journal_that_cannot_be_read_is_told() -> None:
    bencher = CannedBencher()
    bencher.history_failure = ConnectionLost("the journal cannot be read")
    async with bench_seat(bencher) as it:
        await it.press("c")
        await it.until(lambda: it.told() == ["the journal cannot be read"], "it is not told")


def test_a_comparison_looks_as_it_did(snap_compare: Callable[..., bool]) -> None:
    feed, bencher = Feed(EVERYTHING), CannedBencher()

    async def until_shown(pilot: Pilot[BaseException]) -> None:
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        it = BenchSeat(app, pilot, feed, bencher)
        await it.until(lambda: feed.drained, "updates were not taken")
        await listed(it)
        await it.press("down", "down", "space", "down", "space", "enter")
        await compared(it)
        await it.shows("Intervals are of 95%")

    assert snap_compare(bench_console(feed, bencher), terminal_size=(80, 24), run_before=until_shown)


def test_bins_hold_every_value_once_between_round_edges() -> None:
    values = [float(value) for value in range(100, 200)]
    assert bins(values, 5) == [Bin(low, low + 20, 20) for low in (100.0, 120.0, 140.0, 160.0, 180.0)]
    assert bins([7.0, 7.0], 9) == [Bin(7.0, 7.01, 2)]


def test_values_far_apart_have_bins_that_grow() -> None:
    assert bins([1.0, 10.0, 100.0, 900.0], 3) == [Bin(1, 10, 1), Bin(10, 100, 1), Bin(100, 1000, 2)]
    assert [each.low for each in bins([0.2, 0.6, 4.0], 5)] == [0.2, 0.5, 1.0, 2.0]


def test_of_many_values_the_farthest_leave_room_for_the_rest() -> None:
    values = [0.02] * 40 + [18.0 + number / 100 for number in range(600)] + [300.0] * 5
    found = bins(values, 8)
    assert (found[0].low, found[-1].high) == (None, None)
    assert sum(each.held for each in found) == len(values)
    assert all(each.high - each.low == 1 for each in found if each.low and each.high)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=400), st.integers(1, 12))
def test_no_value_is_lost_whatever_the_values_and_the_room(values: list[float], most: int) -> None:
    found = bins(values, most)
    assert 1 <= len(found) <= most
    assert sum(each.held for each in found) == len(values)
    for each in found:
        low, high = each.low or 0.0, math.inf if each.high is None else each.high
        assert each.held == sum(low <= value < high for value in values)


@pytest.mark.parametrize("values", [[], [0.0, 5.0], [7.0, 7.0]])
def test_a_histogram_is_as_high_and_wide_as_it_is_asked_to_be(values: list[float]) -> None:
    for height in (1, 4, 9):
        drawn = histogram_lines("TTFT", values, "role-prefill", 30, height, UNICODE)
        assert [width_of(line) for line in drawn] == [30] * height


def test_charts_keep_to_their_room() -> None:
    charted = Charted(per_second=(1.0, 2.0), requests=LAST.requests)
    for width, height in ((40, 3), (60, 8), (90, 12), (120, 40)):
        charts = BenchCharts(glyphs=ASCII)
        charts._charted = charted
        drawn = charts.lines(width, height)
        assert len(drawn) <= height
        assert all(width_of(line) <= width for line in drawn)
        assert all(plain(line).isascii() for line in drawn)


def test_points_stand_where_throughput_and_latency_are() -> None:
    drawn = [plain(line) for line in scatter([ALONE, BEST], 60, 12, ASCII)]
    alone, best = (next(row for row in drawn if name in row) for name in ("C=1 ", "C=16"))
    assert drawn.index(best) < drawn.index(alone), "more throughput is higher"
    assert best.index("*") > alone.index("*"), "more latency is further right"
    assert "no request succeeded" in plain(
        scatter([result("x", count=2, failures=["refused"] * 2)], 60, 12, ASCII)[0]
    )


def test_large_digits_are_of_three_rows() -> None:
    assert big("1,7") == ["       _ ", "  |     |", "  | ,   |"]
