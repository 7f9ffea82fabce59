"""One console at a time changes the host."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from console.agent.hostlock import HostLock
from console.agent.statefolder import StateFolder
from console.domain.run_record import LockHolder
from tests.unit.agent_runs import TestAgent, asked, until

HOLDER = """
import sys
from pathlib import Path
from tests.unit.agent_runs import TestAgent
agent = TestAgent(Path(sys.argv[1]))
agent.lock()
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def holder(state: Path) -> Iterator[subprocess.Popen[str]]:
    """Another agent, which holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate(timeout=20)


def test_a_second_agent_is_told_who_holds_it_and_since_when(
    state: Path, holder: subprocess.Popen[str]
) -> None:
    second = TestAgent(state)
    answer = second.order("lock", by="you@lap", what="stop")
    assert answer["held"] is False
    told = msgspec.convert(answer["holder"], LockHolder)
    assert (told.by, told.what, told.pid) == ("me@desk", "switch to pd-ll", holder.pid)
    assert told.since == pytest.approx(time.time(), abs=30)
    assert second.records()["lock"] == answer["holder"]
    for op, fields in CHANGES.items():
        assert second.order(op, **fields) == "this session does not hold the lock of the host"


CHANGES: dict[str, dict[str, Any]] = {
    "launch": {"run": asked("r1")},
    "signal": {"runs": ["r1"], "processes": [], "signal": "TERM"},
    "write": {"name": "plan", "content": {}},
}


def test_the_lock_ends_with_its_agent_and_the_text_left_behind_is_no_lock(
    state: Path, holder: subprocess.Popen[str]
) -> None:
    second = TestAgent(state)
    assert second.records()["lock"]["pid"] == holder.pid
    holder.kill()
    until(lambda: second.records()["lock"] is None)
    assert json.loads((state / "lock").read_text())["pid"] == holder.pid
    second.lock()
    assert second.records()["lock"]["pid"] == os.getpid()


def test_unlocking_empties_the_file_and_lets_others(state: Path) -> None:
    first, second = TestAgent(state), TestAgent(state)
    first.lock()
    assert second.order("lock", by="you@lap", what="stop")["held"] is False
    first.order("unlock")
    assert (state / "lock").read_text() == ""
    assert first.records()["lock"] is None
    assert second.order("lock", by="you@lap", what="stop")["held"] is True
    assert second.order("unlock") is None
    assert second.order("unlock") is None, "there is nothing to let go of, and no harm in it"


def test_who_holds_it_can_say_that_it_does_something_else_now(state: Path) -> None:
    agent = TestAgent(state)
    agent.order("lock", by="me@desk", what="restart a-profile-with-a-long-name")
    answer = agent.order("lock", by="me@desk", what="stop")
    assert answer["holder"]["what"] == "stop"
    assert json.loads((state / "lock").read_text()) == answer["holder"]


def test_to_look_is_not_to_hold(state: Path) -> None:
    agent = TestAgent(state)
    agent.lock()
    agent.order("unlock")
    lookers = [HostLock(StateFolder(str(state))) for _ in range(2)]
    assert [looker.holder() for looker in lookers] == [None, None]
    assert agent.order("lock", by="me@desk", what="stop")["held"] is True


def test_who_only_looks_at_that_moment_does_not_keep_others_from_it(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = TestAgent(state)
    agent.lock()
    agent.order("unlock")
    looks = os.open(state / "lock", os.O_RDONLY)
    fcntl.flock(looks, fcntl.LOCK_SH)
    monkeypatch.setattr("console.agent.hostlock.time.sleep", lambda _: os.close(looks))
    assert agent.order("lock", by="me@desk", what="stop")["held"] is True


def test_a_lock_that_is_held_without_saying_by_whom_is_held(state: Path) -> None:
    state.mkdir()
    fd = os.open(state / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    agent = TestAgent(state)
    told = msgspec.convert(agent.records()["lock"], LockHolder)
    assert told.by == "another console"
    os.close(fd)
    assert agent.records()["lock"] is None


def test_a_file_system_without_locks_is_told(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("console.agent.hostlock.fcntl.flock", flock)
    agent = TestAgent(state)
    answer = agent.order("lock", by="me@desk", what="stop")
    assert "nothing can be locked on the file system of the state folder: No locks available" in answer
    assert agent.records()["lock"] is None
    assert "does not hold the lock" in agent.order("launch", run=asked("r1"))


def test_a_state_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    agent = TestAgent(tmp_path / "file/state")
    assert "Not a directory" in agent.order("lock", by="me@desk", what="stop")
    assert agent.records()["runs"] == []
    assert agent.records()["note"] == f"{tmp_path}/file/state cannot be used: Not a directory"
    in_the_way = TestAgent(tmp_path / "file")
    assert in_the_way.records()["note"] == f"{tmp_path}/file cannot be used: it is no folder"


def test_a_read_only_agent_changes_nothing(state: Path) -> None:
    agent = TestAgent(state, readonly=True)
    for op, fields in {**CHANGES, "lock": {"by": "me@desk", "what": "stop"}}.items():
        assert agent.order(op, **fields) == "this session is read-only"
    assert agent.order("readonly", on=False) is None
    assert agent.order("lock", by="me@desk", what="stop") == "this session is read-only"
    assert agent.order("look", runs=["r1"], servers=[])["groups"] == [{"members": [], "exit_code": None}]
    assert agent.order("unlock") is None
    assert not state.exists()


def test_a_session_can_be_told_to_be_read_only_and_not_to_be(state: Path) -> None:
    agent = TestAgent(state)
    agent.lock()
    assert agent.order("readonly", on=True) is None
    assert agent.order("write", name="plan", content={}) == "this session is read-only"
    assert agent.order("readonly", on=False) is None
    assert agent.order("write", name="plan", content={}) is None
