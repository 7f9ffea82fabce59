"""Runs over time: what is found, what its log says, what takes its place, what the screen gets."""

from base64 import b64decode

import pytest

from console.domain.logline import LogLine
from console.domain.metrics import Rates
from console.domain.server import LogPlace, Role, ServerProcess
from console.remote.frames import LogBytes, TailEvent
from console.services.logs import LogFollower
from console.services.rates import throughput
from console.services.runs import Figures, Run, Runs

START = 1_793_700_000.0  # 2026-11-03 10:00:00 UTC
PLACE = LogPlace(kind="file", path="/logs/decode.log")


def process(
    role: Role = "decode", *, pid: int = 7, port: int | None = 30001, start: float = START
) -> ServerProcess:
    return ServerProcess(pid=pid, start_ticks=pid * 10, start_time=start, role=role, port=port, log=PLACE)


def run_with(role: Role = "decode", **figures: object) -> Run:
    run = Run(process(role), 0.0)
    run.figures = Figures(**figures)  # type: ignore[arg-type] # fields of Figures
    return run


class TestFound:
    def test_a_server_that_vanishes_stays_until_another_takes_its_place(self) -> None:
        runs = Runs()
        runs.found([process()], 0.0)
        runs.found([], 0.0)
        assert [view.state for view in runs.views()] == ["gone"]
        new, replaced = runs.found([process(pid=8)], 0.0)
        assert [run.process.pid for run in new] == [8]
        assert [run.process.pid for run in replaced] == [7]
        assert [view.process.pid for view in runs.views()] == [8]

    def test_another_port_takes_nobodys_place(self) -> None:
        runs = Runs()
        runs.found([process()], 0.0)
        _, replaced = runs.found([process(pid=8, port=30005)], 0.0)
        assert replaced == []
        assert len(runs.views()) == 2

    def test_roles_have_a_fixed_order(self) -> None:
        runs = Runs()
        runs.found([process("router", pid=1), process("decode", pid=2), process("prefill", pid=3)], 0.0)
        assert [view.process.role for view in runs.views()] == ["prefill", "decode", "router"]

    def test_a_reboot_forgets_everything(self) -> None:
        runs = Runs()
        runs.booted("a")
        runs.found([process()], 0.0)
        runs.booted("a")
        assert len(runs.views()) == 1
        runs.booted("b")
        assert runs.views() == ()


class TestEvidenceFromLogs:
    def test_lines_from_before_the_process_began_are_history(self) -> None:
        """Case A01: the file is appended to, and this run has not written its first line yet."""
        run = run_with()
        run.read(
            [LogLine(1, "[2026-11-02 18:06:40] The server is fired up and ready to roll!", "ready")], 0.0
        )
        run.read([LogLine(2, "[2026-11-02 18:07:00 TP0] Scheduler hit an exception", "fatal")], 0.0)
        run.told("green", None)
        assert not run.evidence.ready_line
        assert run.evidence.fatal is None

    def test_frames_of_an_old_traceback_are_history_too(self) -> None:
        run = run_with()
        run.read([LogLine(1, "[2026-11-02 18:07:00] x"), LogLine(2, "RuntimeError: old", "fatal")], 0.0)
        assert run.evidence.fatal is None

    def test_lines_since_then_count_in_the_hosts_own_zone(self) -> None:
        run = Run(process(), utc_offset_s=2 * 3600.0)
        run.read([LogLine(1, "[2026-11-03 11:59:00] old", "fatal")], 0.0)
        assert run.evidence.fatal is None
        run.read([LogLine(2, "[2026-11-03 12:00:01] Scheduler hit an exception", "fatal")], 0.0)
        assert run.view().state == "failed"


class TestView:
    def test_figures_of_a_dead_server_are_not_shown(self) -> None:
        runs = Runs()
        (run,), _ = runs.found([process()], 0.0)
        run.figures = Figures(running=3, rates=Rates(gen_tok_s=100.0))
        runs.found([], 0.0)
        (view,) = runs.views()
        assert view.running is None
        assert view.gen_tok_s is None


class TestThroughput:
    def test_prefill_and_decode_are_never_added(self) -> None:
        decode = run_with("decode", rates=Rates(gen_tok_s=100.0, prompt_tok_s=0.0), running=3, queued=1)
        prefill = run_with("prefill", rates=Rates(gen_tok_s=5.0, prompt_tok_s=900.0), running=2, queued=4)
        reading = throughput([decode, prefill, run_with("router")], 1.0)
        assert (reading.gen_tok_s, reading.prompt_tok_s) == (100.0, 900.0)
        assert (reading.running, reading.queued) == (3, 5)

    def test_a_part_is_not_the_whole(self) -> None:
        known = run_with("single", rates=Rates(gen_tok_s=100.0))
        assert throughput([known, run_with("single")], 1.0).gen_tok_s is None

    def test_an_idle_server_is_0(self) -> None:
        assert throughput([run_with("single", rates=Rates(gen_tok_s=0.0))], 1.0).gen_tok_s == 0.0

    @pytest.mark.parametrize(("age_s", "rate"), [(1.0, 104.12), (60.0, 0.0)])
    def test_without_metrics_the_last_batch_line_speaks_while_it_is_fresh(
        self, age_s: float, rate: float
    ) -> None:
        run = run_with("decode", metrics_note="metrics are off")
        line = "[2026-11-03 10:05:00 TP0] Decode batch, #running-req: 1, gen throughput (token/s): 104.12"
        run.read([LogLine(1, line, "stats")], at=10.0)
        reading = throughput([run], 10.0 + age_s)
        assert (reading.gen_tok_s, reading.source) == (rate, "log")

    def test_nothing_found_is_said(self) -> None:
        assert throughput([], 1.0).note == "no SGLang server found"


def chunk(data: bytes, offset: int, inode: int = 2) -> LogBytes:
    return LogBytes("7.70", 1, inode, offset, data)


def event(name: str, offset: int, inode: int = 2) -> TailEvent:
    return TailEvent("7.70", name, "/l", 1, inode, offset)  # type: ignore[arg-type] # a literal


class TestLogFollower:
    def follower(self) -> LogFollower:
        follower = LogFollower((7, 70), PLACE)
        follower.told(event("opened", 0))
        return follower

    def test_starts_near_the_end_and_goes_on_at_the_byte_where_it_stopped(self) -> None:
        follower = LogFollower((7, 70), PLACE)
        assert follower.order() == {"tail": "7.70", "path": "/logs/decode.log", "lines": 2000}
        follower.take(chunk(b"abc\nde", 10))
        order = follower.order()
        assert order is not None
        assert (order["dev"], order["inode"], order["offset"]) == (1, 2, 16)
        assert b64decode(str(order["last"])) == b"abc\nde", "by which a file that was rewritten is known"

    def test_a_line_cut_by_a_reconnect_is_one_line(self) -> None:
        follower = self.follower()
        first = follower.take(chunk(b"one\ntw", 0))
        assert first.live is not None
        again = follower.told(event("opened", 6))
        assert again.notes == ()
        second = follower.take(chunk(b"o\n", 6))
        assert [line.text for line in (*first.lines, *again.lines, *second.lines)] == ["one", "two"]
        assert [line.number for line in (*first.lines, *second.lines)] == [1, 2]

    def test_another_file_ends_the_unfinished_line_and_is_told(self) -> None:
        follower = self.follower()
        follower.take(chunk(b"half", 0))
        update = follower.told(event("rotated", 0, inode=3))
        assert [line.text for line in update.lines] == ["half"]
        assert update.notes == ("log rotated: going on in the new file",)
        assert follower.order() is not None
        assert follower.order()["inode"] == 3  # type: ignore[index] # just seen to be there

    def test_without_a_file_there_is_nothing_to_order_but_a_reason(self) -> None:
        follower = LogFollower((7, 70), LogPlace(kind="pipe", detail="stdout is a pipe"))
        assert follower.order() is None
        assert follower.note == "stdout is a pipe"
