"""Signals reach exactly the processes that are meant."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.agent import signals
from console.agent.signals import Target, deliver
from tests.unit.agent_runs import TestAgent, lives, stand_by, start_ticks, until

NOBODY: dict[str, list[object]] = {"signalled": [], "refused": []}
HOLDS_OUT = """
import signal
signal.signal(signal.SIGTERM, lambda *_: None)
print("up", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def victim() -> Iterator[Target]:
    """A process that SIGTERM does not end."""
    process = stand_by(sys.executable, "-S", "-c", HOLDS_OUT)
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    yield Target(process.pid, start_ticks(process.pid))
    process.kill()
    process.communicate(timeout=20)


@pytest.fixture(params=["pidfd", "kill"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the kernel's and Python's help."""
    if request.param == "kill":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.usefixtures("way")
def test_a_process_is_signalled_once(victim: Target) -> None:
    assert deliver("/proc", [victim], "TERM") == {"signalled": [victim.pid], "refused": []}
    assert lives(victim.pid)
    assert deliver("/proc", [victim], "KILL") == {"signalled": [victim.pid], "refused": []}
    until(lambda: not lives(victim.pid))
    assert deliver("/proc", [victim], "KILL") == NOBODY


@pytest.mark.usefixtures("way")
def test_a_pid_that_is_anothers_by_now_is_left_alone(victim: Target) -> None:
    before = victim._replace(start_ticks=victim.start_ticks - 1)
    assert deliver("/proc", [before], "KILL") == NOBODY
    assert lives(victim.pid)


def test_the_agent_never_signals_what_it_runs_below() -> None:
    own = [1, os.getpid(), os.getppid()]
    targets = [Target(pid, start_ticks(pid)) for pid in own]
    answer = deliver("/proc", targets, "CONT")
    assert answer["signalled"] == []
    assert [each["pid"] for each in answer["refused"]] == own


def test_anothers_process_is_refused_with_its_owner(victim: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch)
    monkeypatch.setattr("console.agent.procfs.user", lambda proc, pid: "ci")
    assert deliver("/proc", [victim], "KILL") == {
        "signalled": [],
        "refused": [{"pid": victim.pid, "why": "it belongs to ci"}],
    }


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(*_: object) -> bool:
        raise PermissionError

    monkeypatch.setattr(signals, "send", send)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('[ "$1 $2 $3 $4 $5" = "-n kill -s TERM --" ] && kill -s KILL "$6"', None),
        ("echo 'sudo: a password is required' >&2; exit 1", "sudo: a password is required"),
        ("echo 'kill: (1): No such process' >&2; exit 1", None),
        ("exit 3", "sudo: exit code 3"),
    ],
)
def test_what_runs_as_root_is_signalled_with_sudo(
    victim: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str | None
) -> None:
    refuse(monkeypatch)
    (tmp_path / "sudo").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    answer = deliver("/proc", [victim._replace(sudo=True)], "TERM")
    if why is None:
        assert answer == {"signalled": [victim.pid], "refused": []}
    else:
        assert answer == {"signalled": [], "refused": [{"pid": victim.pid, "why": why}]}


def test_a_host_without_sudo_is_told(victim: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    (refused,) = deliver("/proc", [victim._replace(sudo=True)], "TERM")["refused"]
    assert refused == {"pid": victim.pid, "why": "sudo: command not found"}


def test_no_other_signal_is_sent(tmp_path: Path) -> None:
    agent = TestAgent(tmp_path)
    agent.lock()
    assert "not a signal" in agent.order("signal", runs=[], processes=[], signal="HUP")
