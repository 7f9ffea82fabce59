"""What is kept on a host, and how every agent there comes to know of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from console.agent import statefolder
from console.agent.frames import Header
from console.agent.runs import KEPT, is_record
from console.agent.statefolder import StateFolder
from console.domain.run_record import HostRecords
from console.remote.frames import decode
from tests.unit.agent_runs import BOOT, ENDS, TestAgent, asked, end_run, until


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def agent(state: Path) -> Iterator[TestAgent]:
    agent = TestAgent(state)
    agent.lock()
    yield agent
    for record in agent.records()["runs"]:
        end_run(record)
    until(lambda: all(not run["alive"] for run in agent.records()["runs"]))


def as_the_console_reads_it(frame: Header) -> HostRecords:
    found = decode(msgspec.json.encode(frame), b"")
    assert isinstance(found, HostRecords)
    return found


def run_folder(state: Path, run: str, **fields: Any) -> Path:
    """A run of the past, as an agent left it."""
    folder = state / "runs" / run
    folder.mkdir(parents=True)
    record = asked(run) | {
        "pid": 1 << 22,
        "start_ticks": 1,
        "boot_id": BOOT,
        "launched_at": 1.0,
        "log": str(folder / "single.log"),
    }
    (folder / "run.json").write_text(json.dumps(record | fields))
    return folder


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"DSV4_AGENT_STATE": "/x/y"}, "/x/y"),
        ({"DSV4_AGENT_STATE": "/x/y", "XDG_STATE_HOME": "/z"}, "/x/y"),
        ({"XDG_STATE_HOME": "/z"}, "/z/dsv4-console"),
        ({"XDG_STATE_HOME": "relative"}, "/home/ops/.local/state/dsv4-console"),
        ({}, "/home/ops/.local/state/dsv4-console"),
    ],
)
def test_where_the_state_folder_is(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], place: str
) -> None:
    monkeypatch.setenv("HOME", "/home/ops")
    assert statefolder.location(environment) == place


def test_to_look_makes_nothing(state: Path) -> None:
    agent = TestAgent(state)
    assert as_the_console_reads_it(agent.records()) == HostRecords()
    assert not state.exists()


def test_every_agent_comes_to_know_of_a_run(agent: TestAgent, state: Path) -> None:
    second = TestAgent(state)
    assert second.records()["runs"] == []
    record = agent.order("launch", run=asked("r1"))
    assert agent.written.of_kind("records")[-1]["runs"] == [record], "told before the answer"
    until(lambda: second.records()["runs"] == [record])
    (run,) = as_the_console_reads_it(second.records()).runs
    assert (run.id, run.alive, run.profile) == ("r1", True, "tp4-ll")


def test_nothing_is_told_twice(agent: TestAgent) -> None:
    agent.order("launch", run=asked("r1"))
    told = len(agent.written.of_kind("records"))
    for _ in range(3):
        agent.records()
    assert len(agent.written.of_kind("records")) == told


def test_what_the_console_keeps_is_told_until_it_is_taken_back(agent: TestAgent, state: Path) -> None:
    second = TestAgent(state)
    for number in range(3):
        agent.order("write", name="plan", content={"id": "p", "step": number})
        assert second.records()["plan"] == {"id": "p", "step": number}
    agent.order("write", name="plan", content=None)
    assert second.records()["plan"] is None
    assert agent.order("write", name="plan", content=None) is None
    assert "not a record" in agent.order("write", name="../lock", content={})


def test_a_run_that_ended_is_told_only_while_the_deployment_names_it(agent: TestAgent) -> None:
    agent.order("write", name="deployment", content={"id": "d1", "runs": ["r1"]})
    agent.order("launch", run=asked("r1", ENDS))
    agent.order("launch", run=asked("r2", ENDS))
    until(lambda: [(run["id"], run["alive"]) for run in agent.records()["runs"]] == [("r1", False)])
    agent.order("write", name="deployment", content=None)
    assert agent.records()["runs"] == []


def test_a_run_of_another_boot_is_over(agent: TestAgent, state: Path) -> None:
    record = agent.order("launch", run=asked("r1"))
    path = state / "runs/r1/run.json"
    path.write_text(path.read_text().replace(BOOT, "boot-0"))
    assert TestAgent(state).records()["runs"] == []
    path.write_text(path.read_text().replace("boot-0", BOOT))
    assert TestAgent(state).records()["runs"] == [record]


def test_what_has_the_pid_of_a_run_of_another_boot_is_not_taken_for_it(agent: TestAgent, state: Path) -> None:
    record = agent.order("launch", run=asked("new"))
    run_folder(state, "old", pid=record["pid"], start_ticks=record["start_ticks"], boot_id="boot-0")
    assert agent.order("look", runs=["old"], servers=[])["groups"] == [{"members": [], "exit_code": None}]
    assert agent.order("signal", runs=["old"], processes=[], signal="KILL")["signalled"] == []
    assert agent.records()["runs"] == [record]


@pytest.mark.parametrize(
    "damage",
    ["", '{"id": "r2"', "[1]", '{"id": "r2"}', '{"id": "other"}', "\udcff"],
)
def test_a_damaged_record_is_told_and_hides_nothing_else(agent: TestAgent, state: Path, damage: str) -> None:
    record = agent.order("launch", run=asked("r1"))
    path = run_folder(state, "r2") / "run.json"
    path.write_text(damage, errors="surrogateescape")
    second = TestAgent(state)
    assert second.records()["runs"] == [record]
    note = second.records()["note"]
    assert note.startswith(f"{path} is damaged")
    assert "\n" not in note
    (state / "plan.json").write_text(damage, errors="surrogateescape")
    assert second.order("look", runs=["r2"], servers=[])["groups"][0]["members"] == []


@pytest.mark.parametrize("name", ["plan", "deployment"])
def test_a_damaged_plan_is_told_until_it_is_written_anew(agent: TestAgent, state: Path, name: str) -> None:
    agent.order("write", name=name, content={"id": "1"})
    (state / f"{name}.json").write_text('{"id": ')
    assert agent.records()[name] is None
    assert f"{name}.json is damaged" in agent.records()["note"]
    agent.order("write", name=name, content={"id": "2"})
    assert (agent.records()[name], agent.records()["note"]) == ({"id": "2"}, None)


FIELDS = {
    "id": 1,
    "role": "boss",
    "pid": 1,
    "start_ticks": "12",
    "port": True,
    "argv": "x",
    "gpus": ["0"],
    "environment": {"A": 1},
    "launched_at": None,
    "boot_id": 3,
    "sudo": "no",
}


@pytest.mark.parametrize(("field", "value"), FIELDS.items())
def test_a_record_that_the_console_could_not_read_is_not_sent(state: Path, field: str, value: object) -> None:
    path = run_folder(state, "r1") / "run.json"
    record = json.loads(path.read_text())
    assert is_record(record, "r1")
    assert not is_record({**record, field: value}, "r1")


def test_a_record_that_is_written_a_moment_after_its_folder_is_found(state: Path) -> None:
    agent = TestAgent(state)
    record = json.loads((run_folder(state, "r1", pid=os.getpid(), start_ticks=0) / "run.json").read_text())
    path = state / "runs/r1/run.json"
    path.unlink()
    (state / "deployment.json").write_text('{"id": "d1", "runs": ["r1"]}')
    assert agent.records()["runs"] == []
    path.write_text(json.dumps(record))
    until(lambda: agent.records()["runs"])
    assert agent.records()["runs"][0]["alive"] is False


def test_only_the_newest_runs_that_ended_are_kept(agent: TestAgent, state: Path) -> None:
    living = agent.order("launch", run=asked("living"))
    run_folder(state, "named")
    agent.order("write", name="deployment", content={"id": "d1", "runs": ["named"]})
    for number in range(KEPT + 3):
        folder = run_folder(state, f"old{number:02}")
        os.utime(folder, (number, number))
    for name in ("living", "named"):
        os.utime(state / "runs" / name, (0, 0))
    agent.order("launch", run=asked("new"))
    kept = {path.name for path in (state / "runs").iterdir()}
    assert kept == {"living", "named", "new"} | {f"old{number:02}" for number in range(3, KEPT + 3)}
    assert living in agent.records()["runs"]


def test_a_full_disk_leaves_the_old_content(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = StateFolder(str(state))
    folder.write({"id": "old"}, "plan.json")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("console.agent.statefolder.json.dump", full)
    with pytest.raises(OSError, match="No space left"):
        folder.write({"id": "new"}, "plan.json")
    assert folder.read("plan.json") == {"id": "old"}
    assert [path.name for path in state.iterdir()] == ["plan.json"]


def test_a_full_disk_is_told_in_a_sentence(agent: TestAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("console.agent.statefolder.json.dump", full)
    answer = agent.order("write", name="plan", content={"id": "new"})
    assert answer.endswith(": No space left on device")
