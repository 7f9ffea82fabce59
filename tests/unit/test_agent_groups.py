"""Which processes belong to a run, or to a server that somebody else started. Cases C01 and C02."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.agent.groups import ProcessTable, RunIdentity, RunMembers, members_of_server
from tests.unit.agent_proc_fakes import FakeProc
from tests.unit.agent_runs import (
    FAMILY,
    TestAgent,
    asked,
    end_run,
    lives,
    log_of,
    stand_by,
    start_ticks,
    until,
)

OPS, CI = 1000, 1001
WIPED = b"\0" * 64
SERVE = "/usr/local/bin/python3 /usr/local/bin/sglang serve --port 30000"


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    """Case C01: a run, a neighbour's server, an editor, a test runner."""
    proc = FakeProc(tmp_path)
    add(proc, 41873, SERVE, environment="PATH=/usr/bin DSV4_RUN=r1")
    for pid, title in [
        (41931, "sglang::scheduler_TP0"),
        (41932, "sglang::scheduler_TP1"),
        (41935, "sglang::detokenizer"),
    ]:
        add(proc, pid, title, ppid=41873, group=41873, session=41873)
        (proc.root / str(pid) / "environ").write_bytes(WIPED)
    add(proc, 52010, "python3 -m sglang.launch_server --port 31000", start=41_000_00)
    add(proc, 52044, "sglang::scheduler_TP0", ppid=52010, group=52010, session=52010)
    add(proc, 60001, "vim /home/ops/sglang/launch_server.py", ppid=59900, session=59900)
    add(proc, 60100, "python3 /srv/sglang/test/run_suite.py", ppid=60050, session=60050, uid=CI)
    return proc


def add(
    proc: FakeProc,
    pid: int,
    command: str,
    *,
    uid: int = OPS,
    ppid: int = 1,
    group: int | None = None,
    session: int | None = None,
    start: int | None = None,
    environment: str = "PATH=/usr/bin",
) -> None:
    proc.add(pid, command, ppid=ppid, group=group, session=session, start=start, environment=environment)
    (proc.root / str(pid) / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")


def members(proc: FakeProc, run: RunIdentity | None = None) -> list[int]:
    table = ProcessTable(str(proc.root))
    return RunMembers(table, run or RunIdentity("r1", 41873, 4_187_300), OPS).all()


def remove(proc: FakeProc, *pids: int) -> None:
    for pid in pids:
        shutil.rmtree(proc.root / str(pid))


def reparent(proc: FakeProc, *pids: int) -> None:
    for pid in pids:
        proc.set_stat(pid, "sglang::sched", "S", 1, 41873, 41873, pid * 100)


def test_exactly_the_runs_own(proc: FakeProc) -> None:
    assert members(proc) == [41873, 41931, 41932, 41935]


def test_schedulers_whose_parent_is_gone_are_found_by_their_session(proc: FakeProc) -> None:
    remove(proc, 41873, 41935)
    reparent(proc, 41931, 41932)
    assert members(proc) == [41931, 41932]


def test_a_child_in_a_session_of_its_own_belongs_to_the_run(proc: FakeProc) -> None:
    add(proc, 41940, "ninja", ppid=41931)
    add(proc, 41941, "cicc", ppid=41940, group=41940, session=41940)
    assert members(proc) == [41873, 41931, 41932, 41935, 41940, 41941]


def test_the_token_alone_is_enough(proc: FakeProc) -> None:
    add(proc, 41950, "compile_worker", environment="A=1 DSV4_RUN=r1")
    assert 41950 in members(proc)


def test_a_run_without_a_record_is_known_by_the_token_and_by_descent_from_who_has_it(proc: FakeProc) -> None:
    assert members(proc, RunIdentity("r1")) == [41873, 41931, 41932, 41935]
    add(proc, 2, "kthreadd", ppid=0, uid=OPS)
    proc.set_stat(2, "kthreadd", "S", 0, 0, 0, 10)
    assert members(proc, RunIdentity("r2")) == []


def test_another_runs_token_speaks_against_session_and_descent(proc: FakeProc) -> None:
    add(proc, 41950, "x", ppid=41873, session=41873, group=41873, environment="DSV4_RUN=r2")
    assert 41950 not in members(proc)


def test_what_is_older_than_the_run_is_not_of_it(proc: FakeProc) -> None:
    add(proc, 41950, "x", session=41873, group=41873, start=4_187_299, environment="DSV4_RUN=r1")
    assert 41950 not in members(proc)


@pytest.mark.parametrize(
    ("uid", "sudo", "ours"), [(CI, False, False), (0, False, False), (0, True, True), (CI, True, False)]
)
def test_whose_it_must_be(proc: FakeProc, uid: int, sudo: bool, ours: bool) -> None:
    add(proc, 41950, "x", ppid=41873, session=41873, group=41873, uid=uid)
    run = RunIdentity("r1", 41873, 4_187_300, sudo)
    assert (41950 in members(proc, run)) is ours


def test_a_pid_that_came_to_be_anothers_proves_nothing(proc: FakeProc) -> None:
    remove(proc, 41873)
    add(proc, 41873, "bash", start=9_000_000)
    add(proc, 41960, "make", ppid=41873, session=41873, group=41960, start=9_000_001)
    add(proc, 41961, "x", environment="DSV4_RUN=r1")
    (proc.root / "41960/environ").write_bytes(WIPED)
    reparent(proc, 41931)
    assert members(proc) == [41961]


def test_a_session_without_its_leader_may_be_anothers_by_now(proc: FakeProc) -> None:
    """A readable environment without our token then speaks against it."""
    remove(proc, 41873)
    reparent(proc, 41931)
    add(proc, 41970, "make", session=41873, group=41970)
    assert 41931 in members(proc)
    assert 41970 not in members(proc)


def test_a_circle_of_parents_ends(proc: FakeProc) -> None:
    add(proc, 41980, "x", ppid=41981)
    add(proc, 41981, "y", ppid=41980)
    assert members(proc) == [41873, 41931, 41932, 41935]
    assert servers(proc, 41980) == [41980, 41981]


def servers(proc: FakeProc, pid: int, start: int | None = None) -> list[int]:
    return members_of_server(ProcessTable(str(proc.root)), pid, pid * 100 if start is None else start)


def test_a_foreign_server_is_it_and_what_it_started(proc: FakeProc) -> None:
    assert servers(proc, 52010, 41_000_00) == [52010, 52044]
    assert servers(proc, 52010, 41_000_01) == [], "it is another process now"


def test_a_foreign_group_counts_only_where_the_server_leads_it(proc: FakeProc) -> None:
    add(proc, 70000, "bash run.sh")
    add(proc, 70001, "python3 -m sglang.launch_server", ppid=70000, group=70000, session=70000)
    add(proc, 70002, "sglang::scheduler_TP0", ppid=70001, group=70000, session=70000)
    add(proc, 70003, "tail -f log", ppid=70000, group=70000, session=70000)
    assert servers(proc, 70001) == [70001, 70002]
    assert servers(proc, 70000) == [70000, 70001, 70002, 70003]


def test_a_foreign_servers_orphans_are_found_by_the_group_that_it_led(proc: FakeProc) -> None:
    add(proc, 70001, "python3 -m sglang.launch_server")
    add(proc, 70002, "sglang::scheduler_TP0", group=70001, session=70001)
    remove(proc, 70001)
    assert servers(proc, 70001) == [70002]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[TestAgent]:
    agent = TestAgent(tmp_path / "state")
    agent.lock()
    yield agent
    for record in agent.records()["runs"]:
        end_run(record)
    until(lambda: agent.records()["runs"] == [])


def test_real_orphans_that_renamed_themselves_are_found_and_ended(agent: TestAgent) -> None:
    record = agent.order("launch", run=asked("r1", FAMILY))
    until(lambda: log_of(record).count("child") == 2)
    children = sorted(int(line.split()[1]) for line in log_of(record).splitlines())
    (group,) = agent.order("look", runs=["r1"], servers=[])["groups"]
    assert [(fact["pid"], fact["run"]) for fact in group["members"]] == [
        (pid, "r1") for pid in (record["pid"], *children)
    ]
    assert {fact["name"] for fact in group["members"][1:]} == {
        "sglang::scheduler_TP0",
        "sglang::scheduler_TP1",
    }
    os.kill(record["pid"], signal.SIGKILL)
    until(lambda: agent.order("look", runs=["r1"], servers=[])["groups"][0]["exit_code"] == -9)
    (group,) = agent.order("look", runs=["r1"], servers=[])["groups"]
    assert [fact["pid"] for fact in group["members"]] == children
    (run,) = agent.records()["runs"]
    assert (run["alive"], run["exit_code"]) == (True, -9), "schedulers live, so the run does"
    assert [agent.deployments.run_of(pid) for pid in children] == ["r1", "r1"]
    signalled = agent.order("signal", runs=["r1"], processes=[], signal="TERM")
    assert signalled == {"signalled": children, "refused": []}
    until(lambda: not any(map(lives, children)))
    until(lambda: agent.records()["runs"] == [])


def test_real_neighbours_are_never_touched(agent: TestAgent, tmp_path: Path) -> None:
    record = agent.order("launch", run=asked("r1", FAMILY))
    until(lambda: log_of(record).count("child") == 2)
    neighbours = [
        stand_by("bash", "-c", "exec -a 'vim /home/ops/sglang/launch_server.py' cat"),
        stand_by("bash", "-c", "exec -a sglang::scheduler_TP0 cat", DSV4_RUN="r2"),
        stand_by(sys.executable, "-S", "-c", "import sys; sys.stdin.read()", "sglang.launch_server"),
    ]
    signalled = agent.order("signal", runs=["r1"], processes=[], signal="KILL")
    assert record["pid"] in signalled["signalled"]
    assert len(signalled["signalled"]) == 3
    until(lambda: agent.records()["runs"] == [])
    for neighbour in neighbours:
        assert neighbour.poll() is None
        assert agent.deployments.run_of(neighbour.pid) is None
        neighbour.communicate("", timeout=20)


def test_a_real_foreign_group_is_looked_at_and_only_what_is_named_is_signalled(agent: TestAgent) -> None:
    server = stand_by("bash", "-c", "sleep 300 & echo $!; wait")
    assert server.stdout
    child = int(server.stdout.readline())
    process = [server.pid, start_ticks(server.pid)]
    (group,) = agent.order("look", runs=[], servers=[process])["groups"]
    assert [fact["pid"] for fact in group["members"]] == [server.pid, child]
    assert {fact["run"] for fact in group["members"]} == {None}
    signalled = agent.order("signal", runs=[], processes=[process], signal="KILL")
    assert signalled == {"signalled": [server.pid], "refused": []}
    server.wait(timeout=20)
    (group,) = agent.order("look", runs=[], servers=[process])["groups"]
    assert [fact["pid"] for fact in group["members"]] == [child]
    agent.order("signal", runs=[], processes=[[child, start_ticks(child)]], signal="KILL")
    until(lambda: not lives(child))
    server.communicate(timeout=20)


def test_a_zombie_is_told_as_one_and_needs_no_signal(agent: TestAgent) -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", "pass"], start_new_session=True)
    ticks = start_ticks(process.pid)
    until(lambda: not lives(process.pid))
    (group,) = agent.order("look", runs=[], servers=[[process.pid, ticks]])["groups"]
    assert [fact["state"] for fact in group["members"]] == ["Z"]
    signalled = agent.order("signal", runs=[], processes=[[process.pid, ticks]], signal="KILL")
    assert signalled == {"signalled": [], "refused": []}
    process.wait(timeout=20)
