"""The order `launch`: what a server gets, and that it outlives who launched it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from console.agent import launchenv
from console.domain.run_record import RunRecord
from tests.unit.agent_runs import BOOT, ENDS, TestAgent, asked, end_run, lives, log_of, start_ticks, until

SHOWS = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def agent(state: Path) -> Iterator[TestAgent]:
    """One that holds the lock; its runs end with the test."""
    agent = TestAgent(state)
    agent.lock()
    yield agent
    end_all(agent)


def end_all(agent: TestAgent) -> None:
    for record in agent.records()["runs"]:
        end_run(record)
    until(lambda: all(not run["alive"] for run in agent.records()["runs"]))


def test_a_run_is_a_session_of_its_own_with_its_own_log_and_no_stdin(agent: TestAgent, state: Path) -> None:
    begun = time.monotonic()
    record = agent.order("launch", run=asked("r1"))
    assert time.monotonic() - begun < 1.0
    run = msgspec.convert(record, RunRecord)
    assert (run.id, run.boot_id, run.alive, run.exit_code) == ("r1", BOOT, True, None)
    assert run.process == (run.pid, start_ticks(run.pid))
    assert run.launched_at == pytest.approx(time.time(), abs=20)
    assert os.getsid(run.pid) == run.pid == os.getpgid(run.pid)
    assert Path(run.log) == state / "runs/r1/single.log"
    until(lambda: "up" in log_of(record))
    fds = {name: os.readlink(f"/proc/{run.pid}/fd/{name}") for name in os.listdir(f"/proc/{run.pid}/fd")}
    assert fds == {"0": "/dev/null", "1": run.log, "2": run.log}
    assert os.readlink(f"/proc/{run.pid}/cwd") == str(state / "runs/r1")


def test_nobody_else_may_read_what_is_kept(agent: TestAgent, state: Path) -> None:
    agent.order("launch", run=asked("r1"))
    agent.order("write", name="plan", content={"id": "p"})
    for path in [state, *state.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_environment_is_the_logins_without_what_would_tune_the_server(state: Path) -> None:
    login = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/ops",
        "NCCL_PROTO": "LL",
        "SGLANG_X": "1",
        "SGL_Y": "1",
        "UCX_TLS": "tcp",
        "NIXL_Z": "1",
        "OMP_NUM_THREADS": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "x",
        "CUDA_VISIBLE_DEVICES": "7",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_HOME": "/usr/local/cuda",
        "LC_ALL": "C",
        "DSV4_LOGIN_LC_ALL": "de_DE.UTF-8",
        "DSV4_RUN": "another",
    }
    agent = TestAgent(state, login=login)
    agent.lock()
    record = agent.order("launch", run=asked("r1", SHOWS, environment={"NCCL_PROTO": "Simple"}))
    until(lambda: log_of(record))
    assert json.loads(log_of(record)) == {
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
        "HOME": "/home/ops",
        "NCCL_PROTO": "Simple",
        "CUDA_HOME": "/usr/local/cuda",
        "LC_ALL": "de_DE.UTF-8",
        "DSV4_RUN": "r1",
        "DSV4_AGENT_STATE": str(state),
    }
    assert record["environment"] == {"NCCL_PROTO": "Simple"}
    end_all(agent)


@pytest.mark.parametrize(
    ("login", "locale"),
    [
        ({"LC_ALL": "C", "DSV4_LOGIN_LC_ALL": ""}, None),
        ({"LC_ALL": "C", "DSV4_LOGIN_LC_ALL": "en_US.UTF-8"}, "en_US.UTF-8"),
        ({"LC_ALL": "fr_FR.UTF-8"}, "fr_FR.UTF-8"),
    ],
)
def test_the_locale_is_that_of_the_login(login: dict[str, str], locale: str | None) -> None:
    environment = launchenv.launch_environment(login, "r1", ["/venv/bin/python"], {})
    assert environment.get("LC_ALL") == locale
    assert launchenv.LOGIN_LC_ALL not in environment


def test_a_run_that_is_there_is_not_launched_again(agent: TestAgent, state: Path) -> None:
    first = agent.order("launch", run=asked("r1"))
    assert agent.order("launch", run=asked("r1", "raise SystemExit")) == first
    agent.order("unlock")
    other = TestAgent(state)
    other.lock()
    assert other.order("launch", run=asked("r1")) == first
    assert len(other.records()["runs"]) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"argv": ["/no/such/python", "-m", "sglang"]}, "/no/such/python: No such file or directory"),
        ({"argv": ["/etc/passwd"]}, "/etc/passwd: Permission denied"),
        ({"environment": {"A=B": "1"}}, "illegal environment variable name"),
        ({"argv": ["/bin/echo", "a\0b"]}, "embedded null byte"),
        ({"id": "../r1"}, "'../r1' cannot be used as a file name"),
        ({"id": ".r1"}, "'.r1' cannot be used as a file name"),
        ({"id": "r" * 81}, "cannot be used as a file name"),
        ({"name": "a/b"}, "'a/b' cannot be used as a file name"),
        ({"argv": []}, "no command"),
        ({"port": "30000"}, "no port"),
        ({"environment": {"A": 1}}, "no environment"),
        ({"role": "boss"}, "'boss' is no role"),
        ({"ports": None}, "no ports"),
        ({"profile": None}, "no profile"),
    ],
)
def test_what_cannot_be_launched_is_told_and_leaves_nothing(
    agent: TestAgent, state: Path, change: dict[str, Any], says: str
) -> None:
    answer = agent.order("launch", run=asked("r1") | change)
    assert answer.startswith("nothing was launched: ")
    assert says in answer
    assert not (state / "runs").exists() or list((state / "runs").iterdir()) == []
    assert agent.records()["runs"] == []


def test_a_folder_without_a_record_is_not_taken_over(agent: TestAgent, state: Path) -> None:
    (state / "runs/r1").mkdir(parents=True)
    assert "has a folder and no record" in agent.order("launch", run=asked("r1"))
    assert (state / "runs/r1").is_dir()


def test_a_run_whose_record_cannot_be_kept_is_ended(
    agent: TestAgent, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, content: dict[str, Any], *names: str) -> None:
        if names[-1] == "run.json":
            pids.append(content["pid"])
        raise OSError(28, "No space left on device")

    pids: list[int] = []
    monkeypatch.setattr("console.agent.statefolder.StateFolder.write", full)
    assert "No space left on device" in agent.order("launch", run=asked("r1"))
    assert len(pids) == 1
    assert not Path(f"/proc/{pids[0]}").exists()
    assert list((state / "runs").iterdir()) == []


def test_sudo_gets_the_environment_on_the_command_line(state: Path, tmp_path: Path) -> None:
    sudo = tmp_path / "bin/sudo"
    sudo.parent.mkdir()
    sudo.write_text('#!/bin/sh\n[ "$1" = -n ] || exit 9\nshift\nexec env -i "$@"\n')
    sudo.chmod(0o755)
    agent = TestAgent(state, login={"PATH": f"{sudo.parent}:/usr/bin:/bin", "HOME": "/home/ops"})
    agent.lock()
    record = agent.order("launch", run=asked("r1", SHOWS, environment={"NCCL_PROTO": "LL"}, sudo=True))
    until(lambda: log_of(record))
    environment = json.loads(log_of(record))
    # Python sets it for itself where nothing says which locale to use.
    environment.pop("LC_CTYPE", None)
    assert environment.pop("PATH").split(":")[0] == os.path.dirname(sys.executable)
    assert environment == {"DSV4_RUN": "r1", "NCCL_PROTO": "LL"}
    assert record["sudo"] is True
    end_all(agent)


def test_a_run_that_ended_leaves_its_exit_code(agent: TestAgent, state: Path) -> None:
    record = agent.order("launch", run=asked("r1", ENDS))
    agent.order("write", name="deployment", content={"id": "d1", "runs": ["r1"]})
    until(lambda: agent.records()["runs"][0]["exit_code"] == 7)
    assert agent.records()["runs"][0]["alive"] is False
    assert not Path(f"/proc/{record['pid']}").exists(), "its zombie is collected"
    (seen,) = TestAgent(state).records()["runs"]
    assert (seen["exit_code"], seen["alive"]) == (7, False)


def test_a_run_that_was_killed_tells_the_signal(agent: TestAgent) -> None:
    agent.order("launch", run=asked("r1"))
    agent.order("write", name="deployment", content={"id": "d1", "runs": ["r1"]})
    agent.order("signal", runs=["r1"], processes=[], signal="KILL")
    until(lambda: agent.records()["runs"][0]["exit_code"] == -9)
    assert agent.order("look", runs=["r1"], servers=[])["groups"] == [{"members": [], "exit_code": -9}]


AGENT = """
import json, os, sys
from console.agent import processfacts
from tests.unit.agent_runs import TestAgent, asked
from pathlib import Path
agent = TestAgent(Path(sys.argv[1]))
agent.lock()
print(json.dumps(agent.order("launch", run=asked("r1"))), flush=True)
sys.stdin.readline()
os._exit(0)
"""


def test_a_run_outlives_its_agent_and_holds_nothing_of_it_open(state: Path) -> None:
    """Case C05: the channel that it was launched through closes at once."""
    launcher = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        text=True,
        start_new_session=True,
    )
    assert launcher.stdout
    record = json.loads(launcher.stdout.readline())
    rest, complaints = launcher.communicate("\n", timeout=5)
    assert (rest, complaints, launcher.returncode) == ("", "", 0)
    assert lives(record["pid"])
    assert os.getsid(record["pid"]) == record["pid"]
    other = TestAgent(state)
    (seen,) = other.records()["runs"]
    assert seen == record
    other.lock()
    signalled = other.order("signal", runs=["r1"], processes=[], signal="TERM")
    assert signalled == {"signalled": [record["pid"]], "refused": []}
    until(lambda: other.records()["runs"] == [])
    assert other.order("look", runs=["r1"], servers=[])["groups"][0]["exit_code"] is None, "nobody saw it"


def test_the_environment_of_a_run_can_be_asked_for(agent: TestAgent) -> None:
    record = agent.order("launch", run=asked("r1", environment={"NCCL_PROTO": "LL", "A": ""}))
    until(lambda: "up" in log_of(record))
    names = ["NCCL_PROTO", "A", "DSV4_RUN", "NOT_SET"]
    assert agent.order("environment", run="r1", names=names) == {
        "environment": {"NCCL_PROTO": "LL", "A": "", "DSV4_RUN": "r1"}
    }
    agent.order("signal", runs=["r1"], processes=[], signal="KILL")
    until(lambda: agent.records()["runs"] == [])
    assert agent.order("environment", run="r1", names=names) == {"environment": None}
    assert agent.order("environment", run="unknown", names=names) == {"environment": None}


def test_the_words_of_an_order_do_not_reach_a_shell(agent: TestAgent, tmp_path: Path) -> None:
    echo = shutil.which("echo")
    assert echo
    words = [echo, "$(touch x)", ";", "a b", "*"]
    record = agent.order("launch", run=asked("r1", argv=words))
    until(lambda: log_of(record))
    assert log_of(record) == "$(touch x) ; a b *\n"
