"""What a run takes for evidence, and what its view says of it."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from console.domain.logline import LogLine
from console.domain.metrics import Rates
from console.domain.readiness import RunState
from console.domain.server import LogPlace, Role, ServerProcess
from console.domain.server_view import SHOWN_AS, ServerView
from console.services.loglines import LogReader
from console.services.runs import FIRST_WORD_S, Figures, Run, Runs

START = 1_793_700_000.0  # 2026-11-03 10:00:00 UTC
ARGS = "[2026-11-03 10:00:07] server_args=ServerArgs(model_path='/m', port=30001)"
READY = "[2026-11-03 10:06:40] The server is fired up and ready to roll!"
SHARDS = "Loading safetensors checkpoint shards:  50% Completed | 23/46 [01:02<01:02,  2.70s/it]"


class Clock:
    """The host's clock."""

    def __init__(self) -> None:
        self.now = START + 8.0

    def __call__(self) -> float:
        return self.now


def process(
    role: Role = "decode", *, pid: int = 7, port: int = 30001, listening: tuple[int, ...] | None = None
) -> ServerProcess:
    return ServerProcess(
        pid=pid,
        start_ticks=pid * 10,
        start_time=START,
        role=role,
        port=port,
        listening=listening,
        log=LogPlace(kind="file", path="/l"),
    )


def read(run: Run, *texts: str) -> None:
    run.read(LogReader().feed("".join(f"{text}\n" for text in texts).encode()).lines, 0.0)


def ready(run: Run) -> Run:
    read(run, ARGS, READY)
    run.told("green", None)
    return run


def test_every_state_has_a_sign() -> None:
    assert SHOWN_AS.keys() == set(get_args(RunState))


def test_the_reason_says_how_far_a_start_has_come() -> None:
    run = Run(process(), 0.0)
    read(run, ARGS, SHARDS)
    run.told("refused", "port 30001: connection refused")
    view = run.view()
    assert (view.state, view.phase, view.reason) == ("starting", "loading", "loading 23/46 shards 62 s")


def test_a_bar_that_is_being_drawn_is_evidence_too() -> None:
    run = Run(process(), 0.0)
    read(run, ARGS)
    live = LogReader().feed(SHARDS.encode()).live
    run.read([], 0.0, live)
    assert run.evidence.progress.done == 23


def test_a_line_that_turns_out_harmless_is_taken_back() -> None:
    run = ready(Run(process(), 0.0))
    run.read([LogLine(9, "[2026-11-03 10:07:00] Subprocess scheduler_0 crashed", "fatal")], 0.0)
    assert run.view().phase == "crashed"
    run.read([], 0.0, revised=[LogLine(9, "[2026-11-03 10:07:00] Subprocess scheduler_0 crashed", "benign")])
    assert run.view().phase == "ready"


def test_a_clock_that_is_set_back_makes_no_history_of_what_follows() -> None:
    run = ready(Run(process(), 0.0))
    read(run, "[2026-11-03 09:07:00 TP0] Scheduler hit an exception: Traceback (most recent call last):")
    assert run.view().state == "failed"


def test_a_log_that_was_rotated_does_not_reach_back_to_the_start() -> None:
    run = Run(process(), 0.0)
    run.opened_at_start()
    later = START + FIRST_WORD_S
    assert later == 1_793_700_900.0
    read(run, '[2026-11-03 10:15:01] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK')
    run.told("green", None)
    assert run.view().state == "ready"


def test_before_anybody_asked_its_port_nothing_is_said_of_now() -> None:
    run = Run(process(), 0.0)
    read(run, ARGS, READY)
    assert (run.view().state, run.view().reason) == ("starting", None)


class TestPort:
    def test_a_port_that_another_process_answers_is_no_health(self) -> None:
        """Case C03: what is ready there is the server of yesterday."""
        run = Run(process(listening=(8998,)), 0.0)
        read(run, ARGS, READY)
        run.told("green", None)
        view = run.view()
        assert view.state == "starting"
        assert view.health_note == "port 30001 is answered, but not by this process"

    @pytest.mark.parametrize("listening", [(8998, 30001), None])
    def test_its_own_port_is(self, listening: tuple[int, ...] | None) -> None:
        assert ready(Run(process(listening=listening), 0.0)).view().state == "ready"

    def test_a_server_that_was_ready_is_not_doubted_for_a_list_that_is_a_minute_old(self) -> None:
        run = ready(Run(process(listening=(30001,)), 0.0))
        run.seen(process(listening=()))
        run.told("green", None)
        assert run.view().state == "ready"


class TestStalled:
    def test_silence_while_loading_is_told_with_its_length(self) -> None:
        clock = Clock()
        run = Run(process(), 0.0, clock=clock)
        read(run, ARGS, SHARDS)
        run.told("refused", "refused")
        clock.now += 301.0
        view = run.view()
        assert (view.state, view.phase) == ("starting", "stalled")
        assert view.reason == "no word for 5 min 1 s while loading 23/46 shards 62 s"
        assert view.since == START + 8.0

    def test_requests_of_which_no_token_comes_are_no_plain_ready(self) -> None:
        clock = Clock()
        run = ready(Run(process(), 0.0, clock=clock))
        run.figures = Figures(running=2, queued=1, rates=Rates(gen_tok_s=0.0, prompt_tok_s=0.0))
        assert run.view().phase == "ready"
        clock.now += 60.0
        view = run.view()
        assert (view.state, view.phase) == ("ready", "stalled")
        assert view.reason == "no token for 60 s, with 3 requests at hand"

    def test_a_router_that_always_has_requests_is_not_stuck(self) -> None:
        clock = Clock()
        run = Run(process("router"), 0.0, clock=clock)
        run.told("green", None)
        for _ in range(3):
            run.figures = Figures(running=4)
            assert run.view().phase == "ready"
            clock.now += 60.0

    def test_a_server_held_by_a_signal_does_not_work(self) -> None:
        run = ready(Run(process(), 0.0))
        run.seen(msgspec.structs.replace(process(), state="T"))
        assert (run.view().state, run.view().phase) == ("failed", "stalled")


class TestPair:
    """Case D04: which role fell first, and which one only lost its peer."""

    def pair(self) -> tuple[Runs, Clock]:
        clock = Clock()
        runs = Runs(clock=clock)
        runs.found([process("prefill", pid=1, port=30000), process("decode", pid=2)], 0.0)
        for run in runs:
            ready(run)
        assert [view.state for view in runs.views()] == ["ready", "ready"]
        return runs, clock

    def unwell(self, runs: Runs, role: Role) -> None:
        (run,) = (run for run in runs if run.process.role == role)
        run.told("red", "health 503")
        run.told("red", "health 503")

    def test_the_second_says_that_it_is_the_second(self) -> None:
        runs, clock = self.pair()
        clock.now = START + 7200.0
        runs.found([process("decode", pid=2)], 0.0)
        runs.views()
        clock.now += 21.0
        self.unwell(runs, "decode")
        prefill, decode = runs.views()
        assert (prefill.phase, decode.state) == ("crashed", "failed")
        assert "killed from outside, or lost" in str(prefill.reason)
        assert decode.reason == "since prefill ended at 12:00:00: health 503"
        assert decode.next == prefill.next
        assert str(decode.next).endswith("restart the pair, both roles")

    def test_the_first_is_blamed_on_nobody(self) -> None:
        runs, _ = self.pair()
        self.unwell(runs, "decode")
        views: dict[str, ServerView] = {view.process.role: view for view in runs.views()}
        assert views["prefill"].state == "ready"
        assert views["decode"].reason == "health 503"
