"""Which processes are servers, and to which server a process belongs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agent_proc_fakes import DECODE, PREFILL, ROUTER, FakeProc

from console.agent.processes import REREAD_S, YOUNG_S, ProcessScan


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


class TestWhichProcesses:
    """Cases after public reports: roots that a pattern misses, and neighbours that it hits."""

    def test_roots_only_and_no_look_alikes(self, proc: FakeProc) -> None:
        serve = "/usr/local/bin/python3 /usr/local/bin/sglang serve --model-path /models/m --port 30000"
        proc.add(41873, serve)
        for pid, name in [(41931, "sglang::scheduler_TP0"), (41935, "sglang::detokenizer")]:
            proc.add(pid, name, ppid=41873, group=41873, session=41873)
        proc.add(52010, "python3 -m sglang.launch_server --model-path /models/other --port 31000")
        proc.add(60001, "vim /home/ops/sglang/launch_server.py")
        proc.add(60100, "python3 /srv/sglang/test/run_suite.py")
        assert [(server.pid, server.port) for server in proc.found()] == [(41873, 30000), (52010, 31000)]

    def test_a_fork_with_the_same_command_line_is_no_server(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL)
        proc.add(510, PREFILL, ppid=500)
        proc.add(511, PREFILL, ppid=510)
        assert [server.pid for server in proc.found()] == [500]
        proc.set_stat(510, "python3", "S", 1, 500, 500, 51000)
        proc.end(500)
        proc.clock.now += 2 * REREAD_S
        assert proc.found() == []

    def test_a_shell_that_becomes_a_server(self, proc: FakeProc) -> None:
        proc.found()
        proc.add(500, "bash run.sh")
        assert proc.found() == []
        proc.rename(500, *PREFILL.split())
        proc.clock.now += 1
        assert proc.only().pid == 500

    def test_an_old_shell_that_becomes_a_server(self, proc: FakeProc) -> None:
        proc.found()
        proc.add(500, "bash run.sh")
        proc.found()
        proc.clock.now += YOUNG_S + REREAD_S
        assert proc.found() == []
        proc.rename(500, *PREFILL.split())
        proc.clock.now += REREAD_S
        assert proc.only().pid == 500

    def test_a_server_that_becomes_something_else(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL)
        assert proc.only().role == "prefill"
        proc.rename(500, *DECODE.split())
        proc.clock.now += REREAD_S
        assert proc.only().role == "decode"
        proc.rename(500, "sleep", "100")
        proc.clock.now += REREAD_S
        assert proc.found() == []

    def test_a_pid_that_is_used_again_is_another_server(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL, start=1000)
        first = proc.only()
        proc.end(500)
        proc.add(500, DECODE, start=9000)
        proc.clock.now += REREAD_S
        second = proc.only()
        assert first.key != second.key
        assert second.role == "decode"

    def test_a_zombie_is_shown_only_of_a_server_that_was_known(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL)
        proc.listen(500, {7: 30000})
        proc.found()
        for pid in (500, 600):
            if pid == 600:
                proc.add(600, "")
            proc.rename(pid)
            proc.set_stat(pid, "python3", "Z", 1, pid, pid, pid * 100)
        proc.clock.now += 2 * REREAD_S
        server = proc.only()
        assert (server.pid, server.state, server.port, server.listening) == (500, "Z", 30000, ())
        proc.end(500)
        assert proc.found() == []

    def test_one_that_ends_while_it_is_first_looked_at_is_told_whole(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL, state="Z")
        server = proc.only()
        assert (server.state, server.log.kind) == ("Z", "unknown")

    def test_only_processes_with_the_token(self, proc: FakeProc) -> None:
        proc.add(500, PREFILL, environment="A=1 CONSOLE_DEMO=abc B=2")
        proc.add(501, DECODE, environment="CONSOLE_DEMO=abcd")
        proc.add(502, ROUTER)
        proc.add(510, "sglang::scheduler", ppid=500)
        proc.add(511, "sglang::scheduler", ppid=501)
        proc.scan = ProcessScan(str(proc.root), only_env="CONSOLE_DEMO=abc")
        assert proc.only().pid == 500
        assert proc.scan.owner_of(510) == 500
        assert proc.scan.owner_of(511) is None


class TestCost:
    """An idle host is read sparingly."""

    def reads(self, scan: ProcessScan, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        paths: list[str] = []
        original = os.open

        def note(path: str, flags: int) -> int:
            paths.append("/".join(path.split("/")[-2:]))
            return original(path, flags)

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", note)
            scan.servers()
        return paths

    def test_when_nothing_was_created_only_the_servers_are_looked_at(
        self, proc: FakeProc, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proc.add(500, PREFILL)
        proc.listen(500, {7: 30000})
        proc.add(600, "bash")
        proc.scan.servers()
        proc.clock.now += 2
        assert self.reads(proc.scan, monkeypatch) == ["proc/loadavg", "500/stat"]

    def test_kernel_threads_are_looked_at_once(self, proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
        proc.add(2, "", ppid=0, comm="kthreadd")
        proc.add(30, "", ppid=2, comm="kworker/0:0")
        proc.scan.servers()
        proc.clock.now += 2 * REREAD_S
        assert self.reads(proc.scan, monkeypatch) == ["proc/loadavg", "1/cmdline"]


class TestNote:
    """What cannot be seen is said."""

    def test_nothing_to_say(self, proc: FakeProc) -> None:
        proc.scan.servers()
        assert proc.scan.note is None

    def test_hidden_processes(self, proc: FakeProc) -> None:
        proc.end(1)
        proc.scan.servers()
        assert proc.scan.note is not None
        assert "hidepid" in proc.scan.note

    def test_no_proc(self, tmp_path: Path) -> None:
        scan = ProcessScan(str(tmp_path / "none"))
        assert scan.servers() == []
        assert scan.note is not None
        assert "No such file" in scan.note


class TestOwner:
    """To which server a process on a GPU belongs."""

    @pytest.fixture(autouse=True)
    def pair(self, proc: FakeProc) -> None:
        proc.add(300, "-bash", comm="bash")
        proc.add(500, PREFILL, ppid=300, group=500, session=300)
        proc.add(501, DECODE)
        proc.scan.servers()

    def test_itself_and_its_descendants(self, proc: FakeProc) -> None:
        proc.add(510, "sglang::data_parallel_controller", ppid=500, group=500, session=300)
        proc.add(511, "sglang::scheduler_TP0", ppid=510, group=500, session=300)
        assert [proc.scan.owner_of(pid) for pid in (500, 510, 511, 501)] == [500, 500, 500, 501]

    def test_an_orphan_by_its_group(self, proc: FakeProc) -> None:
        proc.add(511, "sglang::scheduler_TP0", ppid=1, group=500, session=300)
        assert proc.scan.owner_of(511) == 500

    def test_an_orphan_by_the_session_that_its_server_leads(self, proc: FakeProc) -> None:
        proc.add(520, "sglang::scheduler_TP0", ppid=1, group=520, session=501)
        assert proc.scan.owner_of(520) == 501

    def test_others(self, proc: FakeProc) -> None:
        proc.add(700, "python train.py", ppid=300, group=700, session=300)
        proc.add(701, "python train.py", ppid=1, group=701, session=300)
        assert [proc.scan.owner_of(pid) for pid in (300, 700, 701, 1, 99999)] == [None] * 5

    def test_a_script_that_started_both_leaves_an_orphan_without_owner(self, proc: FakeProc) -> None:
        proc.add(800, PREFILL, group=790, session=790)
        proc.add(801, DECODE, group=790, session=790)
        proc.scan.servers()
        proc.add(810, "sglang::scheduler_TP0", ppid=1, group=790, session=790)
        assert proc.scan.owner_of(810) is None

    def test_forgotten_when_the_server_is_gone(self, proc: FakeProc) -> None:
        proc.add(520, "sglang::scheduler_TP0", ppid=501, group=501, session=501)
        assert proc.scan.owner_of(520) == 501
        proc.end(501)
        proc.set_stat(520, "sglang", "S", 1, 501, 501, 52000)
        proc.scan.servers()
        assert proc.scan.owner_of(520) is None
