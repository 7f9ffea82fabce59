"""A benchmark on the screen: planned, changed, refused, watched, left, aborted, and what came of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from textual.pilot import Pilot

from console.domain.bench.benching import BenchAsk, BenchPhase, BenchStopped
from console.domain.bench.load import LoadRequests
from console.domain.errors import ConnectionLost, NotRunning, ReadOnly
from console.ui.app import ConsoleApp
from console.ui.screens.bench import BenchScreen
from console.ui.screens.bench_history import BenchHistoryScreen
from console.ui.screens.confirm import ConfirmScreen
from console.ui.screens.desks import MEASURES_NOTHING
from console.ui.widgets.bench_form import BenchForm
from console.ui.widgets.bench_line import BenchLine
from console.ui.widgets.bench_result import result_paragraphs
from console.ui.widgets.lines import plain
from console.ui.widgets.meter import ASCII
from console.ui.widgets.paragraphs import ParagraphView
from console.ui.widgets.prompt_line import PromptLine
from tests.unit.canned import EVERYTHING, NOW, Feed
from tests.unit.canned_bencher import (
    KEPT,
    LAST,
    LIVE,
    TOKENS,
    UNTUNED,
    BenchSeat,
    CannedBencher,
    bench_console,
    bench_seat,
    requests,
    result,
    second,
)

DASH = "\N{EN DASH}"
SIZES = [(80, 24), (120, 40), (200, 60)]
PLANNED = "16 requests at a time, 96 in all, about 2m."


async def planned(it: BenchSeat, key: str = "B") -> None:
    """Ask for a plan."""
    await it.press(key)
    await it.until(lambda: isinstance(it.app.screen, BenchScreen), "no plan is shown")
    await it.shows("What is sent")


async def begun(it: BenchSeat, key: str = "B") -> None:
    """Ask for a plan and begin it."""
    await planned(it, key)
    await it.press("right", "enter")
    await it.until(lambda: it.bencher.begun, "it has not begun")
    await it.shows("Leave it running")


async def change(it: BenchSeat, field: int, typed: str) -> None:
    """Type another value for a field, and go back to the answers."""
    await it.press(*["down"] * (field + 1), "enter")
    prompt = it.app.screen.query_one(PromptLine)
    assert prompt.question is not None
    await it.press(*["backspace"] * len(prompt.typed.text), *typed, "enter")


@pytest.mark.parametrize("size", SIZES)
async def test_a_plan_says_what_it_does_and_cancel_comes_first(size: tuple[int, int]) -> None:
    async with bench_seat(size=size) as it:
        await planned(it)
        await it.shows(
            "Measure router :8000 of pd-ll on ct200",
            PLANNED,
            "Each sends 1,024 tokens and gets 64; no two prompts begin alike,",
            "Nobody else is served now.",
            "concurrency 16",
            "seed 42",
        )
        assert it.buttons() == ["[Cancel]", "Measure", "Change"]
        await it.press("enter")
        assert it.app.screen is it.app.dashboard
        assert it.bencher.begun == []


@pytest.mark.parametrize(("key", "concurrency"), [("b", (1,)), ("B", (16,))])
async def test_each_key_has_its_concurrency(key: str, concurrency: tuple[int, ...]) -> None:
    async with bench_seat() as it:
        await begun(it, key)
        assert it.bencher.begun[0].ask.concurrency == concurrency


async def test_others_and_warnings_are_told_once_each() -> None:
    bencher = CannedBencher()
    bencher.serving = 3
    bencher.warnings = ("3 requests of others are served now", "\x1b[31m[red]settings[/] are not verified")
    async with bench_seat(bencher) as it:
        await planned(it)
        await it.shows("! 3 requests of others are served now: they slow each other down", "! ")
        await it.shows("[red]settings[/] are not verified")
        assert it.said().count("3 requests of others") == 1


async def test_what_forbids_it_is_told_and_takes_the_button_away() -> None:
    bencher = CannedBencher()
    bencher.why_not = "read-only: --readonly was given"
    async with bench_seat(bencher) as it:
        await planned(it)
        await it.shows(PLANNED, "Measuring is not possible: read-only: --readonly was given")
        assert it.buttons() == ["[Cancel]", "Change"]


async def test_without_anything_to_measure_the_reason_is_told() -> None:
    bencher = CannedBencher()
    bencher.failure = NotRunning("nothing is ready to be measured", next_step="start it with p")
    async with bench_seat(bencher) as it:
        await it.press("b")
        await it.until(lambda: it.told() == [str(bencher.failure)], "it is not told")
        assert it.app.screen is it.app.dashboard


@pytest.mark.parametrize("key", ["b", "B", "c"])
async def test_a_console_that_only_watches_says_so(key: str) -> None:
    feed = Feed(EVERYTHING)
    app = bench_console(feed, None)
    async with app.run_test(size=(80, 24)) as pilot:
        it = BenchSeat(app, pilot, feed, CannedBencher())
        await it.press(key)
        await it.until(lambda: it.told() == [MEASURES_NOTHING], "it is not told")


async def test_a_refusal_of_the_last_moment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench_seat() as it:
        await planned(it)

        def refuse(*_: object) -> None:
            raise ReadOnly("somebody else's plan goes on")

        monkeypatch.setattr(it.bencher, "run", refuse)
        await it.press("right", "enter")
        await it.until(lambda: it.told() == ["somebody else's plan goes on"], "it is not told")
        assert it.buttons() == ["Cancel", "[Measure]", "Change"]


async def test_the_shape_is_changed_with_small_inputs_and_the_plan_follows() -> None:
    async with bench_seat() as it:
        await planned(it)
        await change(it, 0, "1,4 16")
        await it.shows("1, 4, 16 requests at a time in turn, 130 in all", "requests 10, 24, 96")
        await it.press("down", "enter", *"40", "enter")
        await it.shows("120 in all")
        await it.press("down", "down", "down", "enter")
        await it.shows("cache flushed", "caches are emptied before")
        await it.press("enter")
        await it.shows("cache warm", "the prefix cache serves them, on purpose")
        await it.press("down", "enter", "backspace", "3", "enter")
        await it.shows("3 times over")
        await it.press("escape")
        assert it.buttons() == ["[Cancel]", "Measure", "Change"]
        assert it.bencher.asked[-1] == BenchAsk(concurrency=(1, 4, 16), prompts=40, cache="warm", repeats=3)
        await it.press("right", "enter")
        await it.until(lambda: it.bencher.begun, "it has not begun")
        assert it.bencher.begun[0].ask.repeats == 3


async def test_an_emptied_field_goes_back_to_the_default() -> None:
    async with bench_seat() as it:
        await planned(it)
        await change(it, 1, "40")
        await it.shows("40 in all")
        await it.press("enter", "backspace", "backspace", "enter")
        await it.shows(PLANNED)


@pytest.mark.parametrize(
    ("field", "typed", "remark"),
    [
        (0, "1,many", "concurrency: whole numbers from 1"),
        (0, "0", "concurrency: whole numbers from 1"),
        (2, "-5", "input tokens: a whole number from 1"),
        (6, "4.5", "seed: a whole number from 0"),
    ],
)
async def test_what_is_no_number_is_refused_where_it_is_typed(field: int, typed: str, remark: str) -> None:
    async with bench_seat() as it:
        await planned(it)
        await change(it, field, typed)
        prompt = it.app.screen.query_one(PromptLine)
        assert prompt.question is not None
        await it.until(lambda: remark in it.screen(), "it is not told")
        await it.press("escape")
        assert prompt.question is None
        assert isinstance(it.app.screen, BenchScreen)
        assert isinstance(it.app.focused, BenchForm)
        assert len(it.bencher.asked) == 1


async def test_a_shape_that_cannot_be_measured_leaves_the_one_before() -> None:
    async with bench_seat() as it:
        await planned(it)
        await change(it, 0, "5000")
        await it.until(lambda: it.told() == ["concurrency must be from 1 to 1024, not 5000"], "not told")
        await it.shows(PLANNED)
        await it.press("escape", "right", "enter")
        await it.until(lambda: it.bencher.begun, "it has not begun")
        assert it.bencher.begun[0].ask.concurrency == (16,)


@pytest.mark.parametrize("size", SIZES)
async def test_while_it_goes_on_figures_failures_gpus_and_client_are_seen(size: tuple[int, int]) -> None:
    async with bench_seat(size=size) as it:
        await begun(it)
        it.bencher.under_way.feed(BenchPhase(text="finding out how long prompts are"))
        await it.shows("finding out how long prompts are", "output n/a", "client n/a")
        it.bencher.under_way.feed(*LIVE[:2])
        await it.shows("warming up, 4 of 16, not measured")
        it.bencher.under_way.feed(*LIVE[2:])
        await it.shows(
            "44 of 96 requests, about 14 s left",
            "output 940 tok/s now 235 mean of what has ended",
            "TTFT 400 ms median, n=44",
            "TPOT 17.0 ms median, n=44",
            "in flight 16",
            "failed none",
            "client 34% of a core, late by 0.40 ms at most",
            "prefill GPU 0-3 SM ▆▆▆▆ 81% power ▇▇▇▇ 2,166 W",
            "decode GPU 4-7 SM ▃▃▃▃ 34% power ▄▄▄▄ 1,124 W",
            "TTFT n=44",
            "ITL n=2,772",
            "tok/s in each second",
        )
        assert it.buttons() == ["[Leave it running]", "Abort"]
        it.bencher.under_way.feed(
            second(12, 44, failed=3, cpu_pct=88.0),
            LoadRequests(items=requests(16, 3, failures=["timed out", "timed out", "cut off"])),
        )
        await it.shows("failed ✗ 3: 2 timed out, 1 cut off", "! the client may be the limit")
        figures = it.app.screen.query_one("#bench-figures", ParagraphView)
        assert all(len(plain(line)) <= figures.size.width for line in figures.shown), "nothing is cut off"


async def test_before_usage_is_known_chunks_are_called_chunks() -> None:
    async with bench_seat() as it:
        await begun(it)
        it.bencher.under_way.feed(BenchPhase(text="measuring"), second(0, 0))
        await it.shows("output 900 chunks/s now no request has ended yet", "TTFT n/a", "about 2m left")
        await it.shows("chunks/s in each second", "ITL/chunk no sample yet")


async def test_it_goes_on_without_its_screen_and_b_comes_back() -> None:
    async with bench_seat() as it:
        await begun(it)
        it.bencher.under_way.feed(*LIVE)
        await it.press("q")
        assert it.app.screen is it.app.dashboard
        await it.shows("benchmark of router :8000 of pd-ll at C=16: 44 of 96 requests, about 14 s left")
        for key in ("b", "B"):
            await it.press(key)
            await it.shows("44 of 96 requests", "TTFT 400 ms")
            assert not it.app.dashboard.query(BenchLine)
            await it.press("enter")
            assert it.app.screen is it.app.dashboard
        await it.press("c")
        await it.until(lambda: isinstance(it.app.screen, BenchHistoryScreen), "no history")
        assert it.app.dashboard.query(BenchLine)
        await it.press("b")
        await it.shows("44 of 96 requests")
        assert len(it.bencher.begun) == 1


async def test_an_end_that_nobody_saw_is_told_and_shown_once() -> None:
    async with bench_seat() as it:
        await begun(it)
        await it.press("q")
        it.bencher.under_way.feed(*LIVE, result("ffff00001111"), None)
        await it.until(lambda: it.told() == ["797 tok/s at C=16 (b shows it)"], "the end is not told")
        assert not it.app.dashboard.query(BenchLine)
        await it.press("b")
        await it.shows("output tok/s at C=16", "TTFT 96 400")
        await it.press("q", "b")
        await it.shows("What is sent", "1 request at a time, 10 in all")


async def test_escape_asks_before_it_aborts() -> None:
    async with bench_seat() as it:
        await begun(it)
        it.bencher.under_way.feed(*LIVE)
        await it.press("escape")
        assert isinstance(it.app.screen, ConfirmScreen)
        await it.shows("What was measured is kept, marked partial.")
        assert it.buttons() == ["[Go on]", "Abort"]
        await it.press("enter")
        assert it.bencher.under_way.aborts == 0
        await it.press("escape", "right", "enter")
        assert it.bencher.under_way.aborts == 1
        await it.shows(f"Aborting: {KEPT}")
        await it.press("escape")
        assert isinstance(it.app.screen, BenchScreen), "once is enough"
        it.bencher.under_way.feed(result("ffff", partial="aborted by me@laptop"), None)
        await it.shows("! PARTIAL aborted by me@laptop", "output tok/s at C=16")
        await it.press("escape")
        assert isinstance(it.app.screen, BenchScreen), "an escape too late does not close the result"


async def test_measured_again_it_has_new_prompts() -> None:
    """Those of the first time are in the cache by then, which would serve them."""
    async with bench_seat() as it:
        await begun(it)
        await it.press("q")
        it.bencher.under_way.feed(result("ffff"), None)
        await it.until(it.told, "the end is not told")
        await it.press("b")
        await it.shows("output tok/s at C=16")
        await it.press("right", "enter")
        await it.until(lambda: len(it.bencher.begun) == 2, "it has not begun again")
        first, again = it.bencher.begun
        assert first.ask.seed != again.ask.seed
        assert first.ask == msgspec.structs.replace(again.ask, seed=first.ask.seed)


async def test_what_cannot_be_planned_again_is_told_beside_the_result() -> None:
    async with bench_seat() as it:
        await begun(it)
        it.bencher.under_way.feed(result("ffff"), None)
        await it.shows("output tok/s at C=16")
        it.bencher.failure = NotRunning("nothing is ready to be measured")
        await it.press("right", "enter")
        await it.until(lambda: it.told() == [str(it.bencher.failure)], "it is not told")
        assert it.buttons() == ["Close", "[Measure again]"]
        assert len(it.bencher.begun) == 1


async def test_a_value_that_is_left_as_it_stands_is_no_change() -> None:
    async with bench_seat() as it:
        await planned(it)
        await it.press("down", "down", "down", "enter")
        prompt = it.app.screen.query_one(PromptLine)
        assert prompt.typed.text == "1024"
        await it.press("enter")
        assert prompt.question is None
        assert len(it.bencher.asked) == 1


async def test_an_abort_says_what_became_of_it() -> None:
    async with bench_seat() as it:
        await begun(it)
        await it.press("escape", "right", "enter")
        it.bencher.under_way.feed(None)
        await it.shows("! ABORTED before anything was measured")
    async with bench_seat() as it:
        await begun(it)
        await it.press("escape", "right", "enter")
        it.bencher.under_way.feed(result("ffff", partial="stopped"), None)
        await it.shows(f"! ABORTED {KEPT}", "! PARTIAL stopped")


async def test_a_last_result_that_cannot_be_compared_is_no_reference() -> None:
    async with bench_seat(CannedBencher((UNTUNED, LAST)), size=(200, 60)) as it:
        await begun(it)
        it.bencher.under_way.feed(result("ffff", context={"other_load": 3.0}), None)
        await it.shows(
            "target 1,000",
            "last 2h01m ago, cannot be compared (as A):",
            "others had 3.0 requests in flight during B",
        )
        assert "best so far" not in it.said()


async def test_a_result_stands_against_target_last_best_and_what_is_reported() -> None:
    async with bench_seat() as it:
        await begun(it)
        it.bencher.under_way.feed(*LIVE, result("ffff00001111", at=NOW), None)
        await it.shows(
            "target 1,000 ! missed, 80%",
            "last 777 +2.5% no difference shown, 2h01m ago",
            "best so far 805 -1.0% no difference shown, 1d1h ago",
            f"TTFT 96 400 400 480 500 {DASH} 500",
            "n=96 is too few for p99.",
            "96 succeeded, 0 failed in 7.7 s",
            "SM 61%, DRAM 38%, power 3,320 W, clock 2,400 MHz, 4.23 J for each output token",
            "4.20 GB/s of KV cache",
            "settings verified, count 6,144 tokens too",
            "23% of a core, late by 0.30 ms at p95",
            "For scale: 10 tok/s, untuned",
        )
        assert it.buttons() == ["[Close]", "Measure again"]
        await it.press("right", "enter")
        await it.until(lambda: len(it.bencher.begun) == 2, "it is not measured again")
        await it.shows("Leave it running")


async def test_a_reached_target_is_said_to_be() -> None:
    async with bench_seat() as it:
        await begun(it)
        it.bencher.under_way.feed(result("ffff", pace=0.01), None)
        await it.shows(
            "target 1,000 ● reached, 115%", "last 777 +47.3% faster", "best so far 805 +42.2% faster"
        )


async def test_what_weakens_a_result_comes_first() -> None:
    weak = result(
        "ffff",
        failures=["timed out", "cut off", "cut off"],
        limited="the busiest worker took 88 % of a core",
        partial="the connection was lost",
        context={"verified": False, "other_load": 2.4, "server_tokens": 7000, "cached_share": 0.4},
    )
    async with bench_seat(size=(120, 50)) as it:
        await begun(it)
        it.bencher.under_way.feed(weak, None)
        await it.shows(
            "! PARTIAL the connection was lost",
            "✗ failed 3 of 96 requests: 2 cut off, 1 timed out; not in the figures",
            "! CLIENT it may have been the limit: the busiest worker took 88 % of a core",
            "! tokens 7,000 by the servers' counters",
            "! settings what ran was not as the profile asks",
            "! cache 40% of the prompt tokens came from a prefix cache, which was not wanted",
            "! others 2.4 requests of others ran meanwhile",
        )
        said = it.said()
        assert said.index("! others") < said.index("output tok/s at C=16")


def test_energy_is_shared_with_the_tokens_of_others() -> None:
    shown = result(context={"server_tokens": 2 * 96 * TOKENS})
    told = [paragraph.text for paragraph in result_paragraphs(shown, (), ASCII, large=False)]
    assert "2.12 J for each output token" in " ".join(told)


async def test_a_benchmark_of_which_nothing_succeeded_has_no_figures() -> None:
    async with bench_seat() as it:
        await begun(it)
        it.bencher.under_way.feed(result("ffff", count=4, failures=["refused"] * 4), None)
        await it.shows(
            "✗ FAILED no request succeeded", "4 of 4 requests: 4 refused", f"TTFT 0{6 * f' {DASH}'}"
        )
        assert "NaN" not in it.said()


async def test_a_sweep_is_a_table_and_a_chart() -> None:
    async with bench_seat() as it:
        await planned(it)
        await change(it, 0, "1,4,16")
        await it.press("escape", "right", "enter")
        await it.until(lambda: it.bencher.begun, "it has not begun")
        it.bencher.under_way.feed(
            BenchPhase(text="measuring", concurrency=1, number=1, of=3), second(0, 5, 10)
        )
        # A second for the other five, and seven rounds each, warm-up with them, for the other two.
        await it.shows("1 of 3, C=1: 5 of 10 requests, about 4 s left")
        it.bencher.under_way.feed(
            result("0001", concurrency=1, count=10, pace=0.009),
            BenchPhase(text="measuring", concurrency=4, number=2, of=3),
        )
        await it.shows("2 of 3, C=4: measuring", "TTFT no sample yet")
        it.bencher.under_way.feed(
            result("0004", concurrency=4, count=24, pace=0.0105),
            result("0016", concurrency=16, failures=["timed out"]),
            None,
        )
        await it.shows(
            "3 results",
            "✗ failed C=16: 1 of 96 requests: 1 timed out",
            "C tok/s TTFT ms TPOT ms E2E ms requests",
            "1 79 410 9.54 1,018 10",
            "16 789 400 17.0 1,469 95 ! 1 failed",
            "output tok/s against median E2E latency",
        )
        rows = [row for row in it.screen().splitlines() if "C=" in row and "●" in row]
        assert [row.split("●")[1].split()[0] for row in rows if "● C" in row] == ["C=4", "C=1"]
        assert "C=16 ●" in rows[0], "the fastest is highest, and named at the left where there is no room"


async def test_what_stops_it_is_told_beside_what_was_measured() -> None:
    async with bench_seat() as it:
        await begun(it)
        stopped = BenchStopped(reason="decode :30001 ended", next="look at its log")
        it.bencher.under_way.feed(result("ffff", partial="decode :30001 ended"), stopped, None)
        await it.shows("✗ STOPPED decode :30001 ended", "Next: look at its log", "output tok/s at C=16")


async def test_a_host_that_is_lost_is_told_and_no_crash() -> None:
    async with bench_seat() as it:
        await begun(it)
        it.bencher.under_way.feed(*LIVE, ConnectionLost("no answer for 60 s", where="ct200"))
        await it.shows("✗ STOPPED ct200: no answer for 60 s", "Nothing was measured.")
        assert it.buttons() == ["[Close]", "Measure again"]


async def test_without_a_history_the_result_is_still_shown() -> None:
    async with bench_seat() as it:
        it.bencher.history_failure = ConnectionLost("the journal cannot be read")
        await begun(it)
        it.bencher.under_way.feed(result("ffff"), None)
        await it.shows("output tok/s at C=16", "target 1,000")
        assert "the journal cannot be read" in it.told()
        assert "best so far" not in it.said()


async def test_q_on_the_dashboard_asks_before_it_leaves_a_benchmark() -> None:
    async with bench_seat() as it:
        await begun(it)
        await it.press("q", "q")
        await it.shows("what was measured is kept, marked partial")
        assert it.buttons() == ["[Stay]", "Leave"]
        await it.press("enter")
        assert it.app.screen is it.app.dashboard
        await it.press("q", "right", "enter")
        await it.until(lambda: it.app.return_code == 0, "it does not leave")


async def test_the_keys_are_in_the_footer_and_in_the_palette() -> None:
    async with bench_seat(size=(80, 24)) as it:
        footer = it.screen().splitlines()[-1]
        for shown in ("p profiles", "R restart", "b C=1", "B C=16", "? help", "q quit"):
            assert shown in footer
        commands = {command.title: command for command in it.app.get_system_commands(it.app.screen)}
        commands["C=16"].callback()
        await it.shows(PLANNED)


async def test_in_ascii_every_view_is_ascii() -> None:
    async with bench_seat(glyphs=ASCII, size=(80, 24)) as it:
        await begun(it)
        it.bencher.under_way.feed(*LIVE)
        await it.shows("44 of 96 requests")
        assert it.said().isascii()
        it.bencher.under_way.feed(result("ffff"), None)
        await it.shows("output tok/s at C=16", "best so far")
        assert it.said().isascii()


def test_a_benchmark_looks_as_it_did(snap_compare: Callable[..., bool]) -> None:
    feed, bencher = Feed(EVERYTHING), CannedBencher()

    async def until_shown(pilot: Pilot[BaseException]) -> None:
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        it = BenchSeat(app, pilot, feed, bencher)
        await it.until(lambda: feed.drained, "updates were not taken")
        await begun(it)
        bencher.under_way.feed(*LIVE)
        await it.shows("44 of 96 requests")

    assert snap_compare(bench_console(feed, bencher), terminal_size=(120, 40), run_before=until_shown)
