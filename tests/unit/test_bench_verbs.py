"""`bench`: what is asked, told, printed and answered with an exit code; the history in a file."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from console.cli import bench as measuring_verb
from console.cli import bench_ab
from console.cli.bench_chart import chart_lines
from console.cli.bench_narrator import BenchNarrator
from console.cli.bench_report import list_lines, result_lines
from console.cli.bench_standing import Earlier
from console.cli.main import cli
from console.domain.bench.ab import (
    ABEvent,
    ABFinding,
    ABResult,
    ABSwitch,
    Experiment,
    order,
    settings_sentence,
    switches,
)
from console.domain.bench.benching import BenchAsk, BenchEvent, BenchPhase, BenchPlan, BenchStopped
from console.domain.bench.comparison import compare
from console.domain.bench.load import LoadSecond
from console.domain.bench.result import BenchResult
from console.domain.errors import ConnectionLost, ConsoleError, NotReady, NotRunning, ReadOnly
from console.domain.operating import ProfileEntry
from console.domain.plan import Plan, Step
from console.domain.plan_progress import PlanResult, StepEvent
from console.domain.profile import BenchShape
from console.domain.secrets import BLOT
from console.services.bench_store import BenchStore
from console.services.journal import Journal
from console.services.recorded_ab import RecordedAB
from tests.unit.deployed import PAIR
from tests.unit.kept_results import NOON, bench_result, changed

SECOND = LoadSecond(second=3, chunks=812, in_flight=16, done=48, failed=1, of=96, lag_ms=0.4, cpu_pct=20.0)
RESULT = bench_result("f" * 12, at=NOON + 1000)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results are looked for, and where no settings are."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "data" / "dsv4-console"


def keep(*results: BenchResult) -> None:
    async def add() -> None:
        store = BenchStore()
        await store.add_all(results)
        await store.close()

    asyncio.run(add())


def asked(*words: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["bench", *words], input=stdin)


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def refusal(result: Result) -> ConsoleError:
    assert isinstance(result.exception, ConsoleError), result.output
    return result.exception


# History


def test_the_list_has_the_newest_first_in_columns_that_align() -> None:
    keep(
        bench_result("a" * 12),
        bench_result("b" * 12, at=NOON + 60, concurrency=1, rate=10.5, context={"host": "other"}),
        bench_result("c" * 12, at=NOON + 120, partial="aborted", context={"profile": None}),
    )
    head, *lines, note = asked("list").stdout.splitlines()
    assert [line[:8] for line in lines] == ["c" * 8, "b" * 8, "a" * 8]
    assert [line[head.index("of") :] for line in lines] == [
        "no profile on ct200",
        "pd-ll on other",
        "pd-ll on ct200",
    ]
    assert "1,000.0*" in lines[0]
    assert "10.5 " in lines[1]
    assert note == "* partial, failures, client, cache or others: see `bench show ID`"
    assert len(asked("list", "--host", "other").stdout.splitlines()) == 2
    assert len(asked("list", "--profile", "pd-ll", "--limit", "1").stdout.splitlines()) == 2
    assert [each["dsv4"]["id"][0] for each in objects(asked("list", "--json"))] == ["c", "b", "a"]


def test_what_ran_beside_others_is_marked() -> None:
    beside = changed(RESULT, context=changed(RESULT.context, other_load=3.0))
    assert "*" not in "".join(list_lines([RESULT]))
    cached = changed(RESULT, context=changed(RESULT.context, cached_share=0.5))
    assert list(list_lines([cached], 120))[-1] == list(list_lines([beside], 120))[-1]
    assert "  a prefix cache served 50% of the prompt tokens, which it was not to" in result_lines(cached)
    assert list(list_lines([beside], 120))[-1].startswith("* partial, failures, client, cache or others")


def test_no_line_of_the_list_wraps_at_80_columns() -> None:
    long = {"host": "a-host-with-a-rather-long-name", "profile": "a-profile-with-one", "input_tokens": 131072}
    lines = [*list_lines([bench_result(rate=123456.7, partial="x", context=long)], 80)]
    assert max(map(len, lines)) == 80
    assert lines[1].endswith("…")


def test_an_empty_history_is_no_failure() -> None:
    done = asked("list")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing was measured yet" in done.stderr
    assert asked("list", "--json").stdout == ""


def test_show_tells_all_of_a_result_and_no_secret() -> None:
    keep(changed(RESULT, client=changed(RESULT.client, limited="its loop was late")))
    said = asked("show", "ffff").stdout
    for part in (
        "pd-ll on ct200: C=16",
        "output 1,000.0 tok/s",
        "too few samples",
        "1.20 J per output token",
    ):
        assert part in said
    assert "THE CLIENT MAY HAVE BEEN THE LIMIT: its loop was late" in said
    assert "decode flag max-running-requests = 256" in said
    assert "hf_abc" not in said + asked("show", "ffff", "--json").stdout
    (shown,) = objects(asked("show", "ffff", "--json"))
    assert (shown["output_throughput"], shown["max_concurrency"], shown["p99_ttft_ms"]) == (1000.0, 16, None)


def test_what_is_not_known_is_never_zero() -> None:
    """Case F12: of no success nothing is said, and nothing is 0."""
    spread = changed(RESULT.figures.ttft_ms, n=0, mean=None, median=None, p90=None, p95=None, max=None)
    failed = changed(
        RESULT.figures,
        completed=0,
        failed=96,
        failures={"rejected": 96},
        ttft_ms=spread,
        output_throughput=0.0,
    )
    lines = "\n".join(result_lines(changed(RESULT, figures=failed)))
    assert "no successful request" in lines
    assert "TTFT" not in lines
    assert "96 failed: 96 rejected" in lines
    assert "n/a" in [*list_lines([changed(RESULT, figures=failed)])][1]


def test_names_from_elsewhere_cannot_steer_the_terminal() -> None:
    keep(bench_result("a" * 12, context={"profile": "p\x1b[31m", "settings": {"x": "\x1b]0;title\x07"}}))
    for words in (["list"], ["show", "aaa"]):
        assert "\x1b" not in asked(*words).stdout


def test_delete_is_for_one_and_asked_for() -> None:
    keep(bench_result("abc1"), bench_result("abd2"))
    assert refusal(asked("delete", "abc")).next_step == "give --yes"
    assert refusal(asked("delete", "ab", "--yes")).exit_code == 2
    assert "abc1" in asked("delete", "abc", "--yes").stdout
    assert [each["dsv4"]["id"] for each in objects(asked("list", "--json"))] == ["abd2"]


def test_a_file_that_cannot_be_read_is_told(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "journal.db").write_bytes(b"nonsense" * 100)
    for words in (["list"], ["show", "a"], ["compare", "a", "b"], ["export"], ["delete", "a", "--yes"]):
        error = refusal(asked(*words))
        assert error.exit_code == 1
        assert "journal.db" in str(error)


def test_ids_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(bench_result("abc1"), bench_result("abd2"), bench_result("xyz"))
    monkeypatch.setenv("COMP_WORDS", "dsv4-console bench compare abc1 ab")
    monkeypatch.setenv("COMP_CWORD", "4")
    done = CliRunner().invoke(
        cli, [], prog_name="dsv4-console", env={"_DSV4_CONSOLE_COMPLETE": "bash_complete"}
    )
    assert sorted(line.partition(",")[2] for line in done.stdout.splitlines()) == ["abc1", "abd2"]


# Compare


def test_compare_sets_two_results_side_by_side_with_a_verdict() -> None:
    settings = {"decode flag max-running-requests": "16", "all environment HF_TOKEN": "hf_xyz"}
    keep(bench_result("a1"), bench_result("b1", rate=2000.0, step=0.01, context={"settings": settings}))
    done = asked("compare", "a1", "b1")
    assert done.exit_code == 0
    row = next(line for line in done.stdout.splitlines() if line.startswith("output tok/s"))
    assert row.endswith("faster")
    assert "2.000 (" in row
    assert "between runs is assumed" in done.stdout
    assert "2 settings differ: the effect can't be given to one of them" in done.stdout
    assert "hf_" not in done.stdout
    (told,) = objects(asked("compare", "a1", "b1", "--metric", "tpot", "--json"))
    assert told["comparable"] is True
    assert [(each["metric"], each["verdict"]) for each in told["comparisons"]] == [("tpot", "faster")]


def test_repeats_of_a_series_are_one_side_at_each_concurrency() -> None:
    for side, rate in (("a", 1000.0), ("b", 1003.0)):
        keep(
            *(
                bench_result(f"{side}{c}{n}", concurrency=c, rate=rate * (1 + n / 100), series=side * 8)
                for c in (1, 16)
                for n in range(3)
            )
        )
    told = objects(asked("compare", "a" * 8, "b" * 8, "--json", "--metric", "output_throughput"))
    assert [each["max_concurrency"] for each in told] == [1, 16]
    assert told[1]["a"] == ["a160", "a161", "a162"]
    assert {each["comparisons"][0]["verdict"] for each in told} == {"no difference shown"}
    assert told[0]["comparisons"][0]["a"]["repeats"] == 3


def test_what_cannot_be_compared_is_refused_with_what_differs() -> None:
    keep(bench_result("a1"), bench_result("b1", concurrency=1, context={"cache": "warm"}))
    done = asked("compare", "a1", "b1")
    assert done.exit_code == 1
    assert "the concurrency differs: 16 against 1" in done.stdout
    assert "the state of the cache differs" in done.stdout
    assert "output tok/s" not in done.stdout
    (told,) = objects(asked("compare", "a1", "b1", "--json"))
    assert (told["comparable"], told["comparisons"]) == (False, [])


def test_anyway_shows_it_without_a_verdict() -> None:
    keep(bench_result("a1"), bench_result("b1", rate=4000.0, concurrency=1))
    done = asked("compare", "a1", "b1", "--anyway")
    assert done.exit_code == 0
    assert "They cannot be compared:" in done.stdout
    assert "output tok/s" in done.stdout
    assert "faster" not in done.stdout
    (told,) = objects(asked("compare", "a1", "b1", "--anyway", "--json"))
    assert {each["verdict"] for each in told["comparisons"]} == {None}


def test_a_result_is_not_compared_with_itself() -> None:
    keep(bench_result("a1"))
    assert "the same" in str(refusal(asked("compare", "a1", "a")))


# Files


def test_an_export_can_be_imported_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    results = [bench_result("a1", context={"settings": {}}), bench_result("b1", at=NOON + 1, label="x")]
    keep(*results)
    text = asked("export", "--details").stdout
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    done = asked("import", "-", stdin=text)
    assert done.stdout.splitlines() == ["imported 2 results", "  a1", "  b1"]
    (again,) = asyncio.run(BenchStore().find("a1"))
    assert again == results[0]
    assert "imported 0 results; 2 were there already" in asked("import", "-", stdin=text).stdout


SGLANGS: dict[str, Any] = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": float("inf"),
    "max_concurrency": 16,
    "duration": 12.5,
    "completed": 96,
    "total_input_tokens": 98304,
    "total_output_tokens": 24576,
    "median_ttft_ms": 120.0,
    "mean_ttft_ms": 121.0,
    "concurrency": 15.5,
}


def test_lines_of_sglangs_client_are_imported(tmp_path: Path) -> None:
    file = tmp_path / "bench.jsonl"
    file.write_text(f"{json.dumps(SGLANGS)}\n\n{json.dumps(SGLANGS | {'max_concurrency': 1})}\n")
    assert "imported 2 results" in asked("import", str(file)).stdout
    listed = objects(asked("list", "--json"))
    assert sorted(each["max_concurrency"] for each in listed) == [1, 16]
    assert len({each["dsv4"]["series"] for each in listed}) == 1
    assert listed[0]["output_throughput"] == pytest.approx(24576 / 12.5)


def test_a_file_with_a_bad_line_is_not_half_imported(tmp_path: Path) -> None:
    file = tmp_path / "bench.jsonl"
    file.write_text(f'{json.dumps(SGLANGS)}\nnot JSON\n{json.dumps(SGLANGS)}\n{{"duration": "\x1b[31m"}}\n')
    done = asked("import", str(file))
    assert refusal(done).exit_code == 2
    assert "2 lines of" in str(done.exception)
    assert "line 2 " in done.stderr
    assert "line 4 " in done.stderr
    assert "\x1b" not in done.stderr
    assert asked("list").stdout == ""


@pytest.mark.parametrize("content", [None, "", "\n \n"])
def test_a_file_without_results_is_told(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "bench.jsonl"
    if content is not None:
        file.write_text(content)
    assert refusal(asked("import", str(file))).exit_code == 2


def test_csv_is_a_row_a_result_the_oldest_first() -> None:
    keep(bench_result("a1"), bench_result("b1", at=NOON + 1), bench_result("c1", context={"host": "other"}))
    rows = [*csv.DictReader(io.StringIO(asked("export", "--csv", "--host", "ct200").stdout))]
    assert [row["id"] for row in rows] == ["a1", "b1"]
    assert float(rows[0]["output_throughput"]) == 1000.0
    assert rows[0]["p99_ttft_ms"] == ""
    assert [row["id"] for row in csv.DictReader(io.StringIO(asked("export", "c1", "--csv").stdout))] == ["c1"]
    assert refusal(asked("export", "--csv", "--details")).exit_code == 2


# Measuring


class FakeRun:
    """A measurement that has been scripted; an exception in it is raised there."""

    def __init__(self, script: Iterable[BenchEvent | Exception | int]) -> None:
        self._script = script
        self._told = asyncio.Event()

    async def events(self) -> AsyncGenerator[BenchEvent, None]:
        for each in self._script:
            if isinstance(each, Exception):
                raise each
            if isinstance(each, int):
                signal.raise_signal(each)
                await asyncio.wait_for(self._told.wait(), 5)
            else:
                yield each

    @property
    def aborted(self) -> bool:
        return self._told.is_set()

    def abort(self) -> str:
        self._told.set()
        return "what was measured is kept as partial"


class FakeHost:
    """Who measures and who changes a host, in one."""

    def __init__(self, *script: BenchEvent | Exception | int) -> None:
        self.run_ = FakeRun(script)
        self.asks: list[BenchAsk] = []
        self.why: str | None = None
        self.not_ready: list[ConsoleError] = []
        self.store = BenchStore()
        self.profile = changed(PAIR, bench=BenchShape(targets={16: 900.0}))

    def refusal(self) -> str | None:
        return self.why

    async def plan(self, ask: BenchAsk) -> BenchPlan:
        self.asks.append(ask)
        if self.not_ready:
            raise self.not_ready.pop()
        filled = changed(
            ask,
            concurrency=ask.concurrency or (1, 16),
            input_tokens=ask.input_tokens or 1024,
            output_tokens=64,
        )
        return BenchPlan(
            ask=filled,
            host="ct200",
            target="router :8000 of pd-ll",
            url="http://127.0.0.1:8000/v1/completions",
            model="dsv4",
            profile="pd-ll",
            serving=3,
            seconds=200.0,
            warnings=("the settings are not verified",),
        )

    def run(self, plan: BenchPlan) -> FakeRun:
        return self.run_

    async def history(
        self, *, host: str | None = None, profile: str | None = None, limit: int = 100
    ) -> tuple[BenchResult, ...]:
        return await self.store.history(host=host, profile=profile, limit=limit)

    async def result(self, id: str) -> BenchResult:
        return await self.store.result(id)

    def profiles(self) -> tuple[ProfileEntry, ...]:
        return (ProfileEntry(name="pd-ll", profile=self.profile, running=True),)

    async def switch_plan(self, profile: str) -> Plan:
        return plan_to(profile)

    async def check(self, plan: Plan) -> tuple[()]:
        return ()

    def recorded(self, experiment: Experiment) -> RecordedAB:
        self.journal = Journal()
        return RecordedAB(experiment, self.journal, "ct200", "me@desk")


def plan_to(profile: str) -> Plan:
    step = Step(kind="launch", title=f"launch {profile}", waits_for="processes", limit_s=10.0)
    return Plan(verb="switch", profile=changed(PAIR, name=profile), steps=(step,), consequence="ends all")


def use(monkeypatch: pytest.MonkeyPatch, host: FakeHost) -> FakeHost:
    @asynccontextmanager
    async def measuring(target: object) -> AsyncGenerator[tuple[FakeHost, FakeHost], None]:
        yield host, host

    monkeypatch.setattr(measuring_verb, "measuring", measuring)
    monkeypatch.setattr(bench_ab, "measuring", measuring)
    return host


def measured(*words: str) -> Result:
    return asked("--host", "local", "--yes", *words)


def test_a_measurement_is_told_and_its_result_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(
        bench_result("last", at=NOON, rate=950.0),
        bench_result("best", at=NOON - 60, rate=1500.0, step=0.01),
        bench_result("part", at=NOON - 50, rate=9000.0, partial="aborted"),
    )
    host = use(monkeypatch, FakeHost(BenchPhase(text="warming up", concurrency=16), SECOND, RESULT))
    done = measured("-c", "16", "--input", "2048", "--prompts", "96", "--limit", "60", "--seed", "7")
    assert done.exit_code == 0, done.output
    (ask,) = host.asks
    assert (ask.concurrency, ask.input_tokens, ask.prompts) == ((16,), 2048, 96)
    assert (ask.total_limit_s, ask.seed, ask.cache) == (60.0, 7, "nonce")
    assert "measure router :8000 of pd-ll" in done.stderr
    assert "others served now: 3" in done.stderr
    assert "about 3 minutes" in done.stderr
    assert "note: the settings are not verified" in done.stderr
    assert "C=16: warming up" in done.stderr
    assert "output 1,000.0 tok/s" in done.stdout
    assert "111 % of the target of 900; +5 % on the last" in done.stdout
    assert "-33 % on the best (slower)" in done.stdout


def test_results_that_nothing_can_be_compared_with_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(bench_result("last", context={"cache": "warm"}), bench_result("other", concurrency=1))
    use(monkeypatch, FakeHost(RESULT))
    said = measured().stdout
    assert "not compared with the last at this concurrency, last (A): the state of the cache differs" in said
    assert "on the last" not in said


async def test_what_stands_against_nothing_has_no_line_for_that() -> None:
    assert await Earlier(FakeHost(), (), {}).lines(RESULT) == []
    assert await Earlier(FakeHost(), (), {16: 900.0}).lines(RESULT) == [
        "  C=16: 1,000 tok/s, 111 % of the target of 900"
    ]


def test_json_is_an_object_for_each_concurrency(monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench_result("1" * 12, concurrency=1, rate=60.0)
    host = use(monkeypatch, FakeHost(one, RESULT))
    done = measured("--json")
    assert [each["max_concurrency"] for each in objects(done)] == [1, 16]
    assert objects(done)[1]["dsv4"]["context"]["host"] == "ct200"
    assert host.asks[0].concurrency is None
    assert "hf_abc" not in done.stdout


@pytest.mark.parametrize("text", ["0", "1,,2", "a", "-1", "1;2"])
def test_concurrencies_are_counts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeHost())
    assert measured(f"-c{text}").exit_code == 2


def test_nobody_to_ask_is_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeHost(RESULT))
    done = asked("--host", "local")
    assert refusal(done).exit_code == 2
    assert refusal(done).next_step == "give --yes"
    assert done.stdout == ""


def test_nothing_ready_and_a_read_only_host(monkeypatch: pytest.MonkeyPatch) -> None:
    host = use(monkeypatch, FakeHost(RESULT))
    host.why = "read-only: --readonly was given"
    assert isinstance(refusal(measured()), ReadOnly)
    host.not_ready = [NotRunning("no server runs on this host")]
    assert refusal(measured()).exit_code == 3


def test_a_server_on_its_way_up_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    host = use(monkeypatch, FakeHost(RESULT))
    starting = NotReady("decode is not ready: loading weights")
    host.not_ready = [starting]
    done = measured()
    assert done.exit_code == 0
    assert "decode is not ready; waiting" in done.stderr
    monkeypatch.setattr(measuring_verb, "STARTING_S", -1.0)
    host.not_ready = [starting]
    assert refusal(measured()) is starting


def test_a_run_of_which_nothing_succeeded_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = changed(
        RESULT, figures=changed(RESULT.figures, completed=0, failed=96, failures={"refused": 96})
    )
    use(monkeypatch, FakeHost(failed))
    assert measured().exit_code == 1
    use(monkeypatch, FakeHost())
    assert measured().exit_code == 1


def test_a_run_that_was_cut_off_has_failed_unless_a_limit_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeHost(changed(RESULT, partial="the target answered no more: the last 9 all failed")))
    assert measured().exit_code == 1
    use(monkeypatch, FakeHost(changed(RESULT, partial="stopped before all requests were answered")))
    assert measured("--limit", "5").exit_code == 0


def test_a_run_that_is_stopped_has_printed_what_it_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeHost(RESULT, BenchStopped(reason="decode crashed", next="restart the pair")))
    done = measured("--json")
    assert done.exit_code == 1
    assert len(objects(done)) == 1
    assert "stopped: decode crashed. Next: restart the pair" in done.stderr
    use(monkeypatch, FakeHost(RESULT, ConnectionLost("the connection ended")))
    lost = measured("--json")
    assert refusal(lost).exit_code == 4
    assert len(objects(lost)) == 1


def test_an_interrupt_aborts_and_prints_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    host = use(monkeypatch, FakeHost(SECOND, signal.SIGINT, changed(RESULT, partial="aborted")))
    done = measured()
    assert done.exit_code == 130
    assert host.run_.aborted
    assert "partial: aborted" in done.stdout
    assert "aborting: what was measured is kept as partial" in done.stderr


def test_a_sweep_ends_with_a_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [
        bench_result(f"s{c}", concurrency=c, rate=60 * c**0.8, step=0.01 + c / 2000)
        for c in (1, 2, 4, 8, 16, 32)
    ]
    host = use(monkeypatch, FakeHost(*results))
    done = asked("sweep", "--host", "local", "--yes")
    assert host.asks[0].concurrency == (1, 2, 4, 8, 16, 32)
    chart = done.stdout[done.stdout.index("output tok/s against") :]
    assert all(f"●{c}" in chart for c in (1, 2, 4, 8, 16, 32))


def test_the_options_of_bench_are_not_taken_for_those_of_its_verbs() -> None:
    done = asked("--json", "list")
    assert done.exit_code == 2
    assert "options of list go after it" in done.stderr


# The chart and the line of progress


def test_points_stand_where_their_values_are() -> None:
    slow = bench_result("a", concurrency=32, rate=1000.0, step=0.04)
    fast = bench_result("b", concurrency=1, rate=500.0, step=0.02)
    lines = [*chart_lines([slow, fast], width=41, height=11)]
    rows = lines[1:12]
    assert rows[0].rstrip().endswith("●32")
    assert "1,000" in rows[0]
    assert "●1" in rows[5]
    assert rows[5].index("●1") - rows[5].index("│") - 1 == 20
    assert [*chart_lines([slow])] == []


class Screen(io.StringIO):
    """A terminal, or none."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def told(terminal: bool, *events: tuple[float, BenchEvent]) -> str:
    now = 0.0
    screen = Screen(terminal)
    narrator = BenchNarrator(screen, clock=lambda: now)
    for now, event in events:  # noqa: B007 - the clock reads it
        narrator.tell(event)
    return screen.getvalue()


def test_progress_is_redrawn_on_a_terminal() -> None:
    phase = BenchPhase(text="measuring", concurrency=16, number=2, of=2)
    said = told(True, (0.0, phase), (1.0, SECOND), (2.0, changed(SECOND, second=4, lag_ms=33.0)))
    assert "\n" not in said
    assert said.split("\r\x1b[K")[1:] == [
        "2/2 C=16: measuring",
        "2/2 C=16: 48 of 96 ended, 16 in flight, 812 chunks/s, 1 failed, about 4 s left",
        "2/2 C=16: 48 of 96 ended, 16 in flight, 812 chunks/s, 1 failed, the client is 3",
    ]


def test_progress_in_a_pipe_is_a_line_now_and_then() -> None:
    said = told(False, *((float(second), changed(SECOND, second=second)) for second in range(25)))
    assert said.count("\n") == 3
    assert "\x1b" not in said
    warming = told(False, (0.0, changed(SECOND, second=-1, done=3, of=16)))
    assert warming == "warming up, 3 of 16 ended\n"


# A/B


class FakeExperiment(FakeRun):
    """An A/B that has been scripted."""

    def __init__(self, script: Sequence[Any]) -> None:
        super().__init__(script)


def experiment(monkeypatch: pytest.MonkeyPatch, *script: ABEvent | int, why: str | None = None) -> list[Any]:
    """What the service was asked for."""
    asks: list[Any] = []

    def make(*arguments: Any) -> FakeExperiment:
        asks.extend(arguments)
        return FakeExperiment(script)

    host = use(monkeypatch, FakeHost())
    host.why = why
    monkeypatch.setattr(bench_ab, "ABRun", make)
    return asks


A = tuple(bench_result(f"a{n}", rate=1000.0 + n, label=f"A {n}/3") for n in range(3))
B = tuple(bench_result(f"b{n}", rate=1200.0 + n, label=f"B {n}/3") for n in range(3))
FOUND = ABFinding(concurrency=16, comparisons=(compare(A, B, "output_throughput"),))
PARTIAL = changed(FOUND, obstacles=("A is partial: aborted",))
END = ABResult(
    profile_a="pd-ll",
    profile_b="pd-mtp",
    order=order(3),
    a=A,
    b=B,
    findings=(FOUND,),
    settings=3,
    before="pd-ll",
    runs_again=True,
)
SWITCH = ABSwitch(plan=plan_to("pd-mtp"), side="B", number=1, of=4)


def test_an_ab_ends_with_the_comparison_and_what_it_may_be_put_down_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done_event = PlanResult(state="done", sentence="pd-mtp is up", seconds=3.0)
    asks = experiment(monkeypatch, SWITCH, StepEvent(index=0, kind="began"), done_event, SECOND, A[0], END)
    done = asked("ab", "pd-ll", "pd-mtp", "--repeats", "3", "-c", "16", "--host", "local", "--yes")
    assert done.exit_code == 0, done.output
    assert asks[2:4] == ["pd-ll", "pd-mtp"]
    assert (asks[4].concurrency, asks[5]) == ((16,), 3)
    assert "in the order A B B A A B: up to 5 switches" in done.stderr
    for part in ("1. launch pd-ll (10 s at most)", "1/4 B: ", "1. launch pd-mtp", "pd-mtp is up"):
        assert part in done.stderr
    assert "A 0/3, C=16" in done.stdout
    assert "faster" in done.stdout
    assert "3 settings differ: the effect can't be given to one of them." in done.stdout
    assert done.stdout.rstrip().endswith("What ran before, pd-ll, runs again.")


def test_an_ab_as_json_ends_with_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment(monkeypatch, A[0], END)
    first, last = objects(asked("ab", "pd-ll", "pd-mtp", "--host", "local", "--yes", "--json"))
    assert first["max_concurrency"] == 16
    (found,) = last["ab"]["findings"]
    assert (found["concurrency"], found["comparisons"][0]["verdict"]) == (16, "faster")
    assert {result["context"]["settings"]["all environment HF_TOKEN"] for result in last["ab"]["a"]} == {BLOT}


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (END, 0),
        (changed(END, findings=(PARTIAL,)), 1),
        (changed(END, runs_again=False, next="see status"), 1),
        (
            changed(END, stopped="pd-mtp did not start", findings=(), runs_again=False, next="see status"),
            1,
        ),
    ],
)
def test_an_ab_that_ends_early_has_failed(end: ABResult, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment(monkeypatch, end)
    done = asked("ab", "pd-ll", "pd-mtp", "--host", "local", "--yes")
    assert done.exit_code == code
    assert ("faster" in done.stdout) is (end.findings == (FOUND,))
    assert ("DOES NOT RUN NOW" in done.stdout) is not end.runs_again


MIXED = changed(END, findings=(changed(FOUND, concurrency=1), PARTIAL))


def test_what_spoils_one_concurrency_leaves_the_others_their_verdicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment(monkeypatch, MIXED)
    done = asked("ab", "pd-ll", "pd-mtp", "--host", "local", "--yes")
    assert done.exit_code == 1, "not all that was asked has been answered"
    alone, together = done.stdout.split("C=16")
    assert "faster" in alone
    assert "not comparable" not in alone
    assert "faster" not in together
    assert "not comparable: A is partial: aborted" in together
    experiment(monkeypatch, MIXED)
    (last,) = objects(asked("ab", "pd-ll", "pd-mtp", "--host", "local", "--yes", "--json"))
    verdicts = [found["comparisons"][0]["verdict"] for found in last["ab"]["findings"]]
    assert verdicts == ["faster", None]


def test_an_ab_waits_for_what_is_on_its_way_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be switched away from while it starts, or measured before it is ready."""
    host = FakeHost()
    host.not_ready = [NotRunning("no server runs on this host"), NotReady("decode is not ready: loading")]
    use(monkeypatch, host)
    monkeypatch.setattr(bench_ab, "ABRun", lambda *_: FakeExperiment([END]))
    done = asked("ab", "pd-ll", "pd-mtp", "--host", "local", "--yes")
    assert done.exit_code == 0
    assert "decode is not ready; waiting" in done.stderr
    assert len(host.asks) == 2, "that nothing runs is no reason to wait"


def test_an_ab_that_measured_nothing_tells_of_no_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment(monkeypatch, changed(END, findings=(), settings=0, stopped="pd-ll did not start"))
    done = asked("ab", "pd-ll", "pd-mtp", "--host", "local", "--yes")
    assert "There is nothing to compare." in done.stdout
    assert "setting" not in done.stdout


def test_an_ab_asks_and_is_refused_like_a_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = experiment(monkeypatch, END)
    assert refusal(asked("ab", "pd-ll", "pd-mtp", "--host", "local")).exit_code == 2
    assert asks == []
    asks = experiment(monkeypatch, END, why="read-only: --readonly was given")
    assert isinstance(refusal(asked("ab", "pd-ll", "pd-mtp", "--host", "local", "--yes")), ReadOnly)
    assert asks == []


def test_an_interrupted_ab_tells_how_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment(monkeypatch, signal.SIGINT, changed(END, stopped="aborted"))
    done = asked("ab", "pd-ll", "pd-mtp", "--host", "local", "--yes")
    assert done.exit_code == 130
    assert "It ended before its time: aborted" in done.stdout


def test_each_side_comes_first_as_often() -> None:
    assert "".join(order(1)) == "AB"
    assert "".join(order(4)) == "ABBAABBA"
    assert [switches(repeats) for repeats in (1, 2, 3)] == [2, 3, 4]


def test_an_effect_is_given_to_one_setting_alone() -> None:
    assert "itself" in settings_sentence(0)
    assert settings_sentence(1) == "1 setting differs: the effect is its"
    assert "can't be given" in settings_sentence(2)
