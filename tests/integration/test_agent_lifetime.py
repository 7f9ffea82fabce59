"""The agent ends with the console, however the console ends, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.sshd import SshServer

HOLDER = Path(__file__).with_name("hold_agent.py")


@pytest.fixture
def holder(ssh_server: SshServer, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds an agent over SSH."""
    process = subprocess.Popen(
        [sys.executable, HOLDER],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path)},
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def agent_of(holder: subprocess.Popen[str]) -> int:
    assert holder.stdout is not None
    return int(holder.stdout.readline())


def lives(pid: int) -> bool:
    try:
        return b"dsv4-console agent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


def seconds_until(condition: Callable[[], bool], limit_s: float) -> float:
    """How long it took; fails when it takes longer than the limit."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < limit_s, f"not within {limit_s} s"
        time.sleep(0.01)
    return time.monotonic() - begun


def test_kill_9_of_the_console_ends_the_agent_within_a_second(holder: subprocess.Popen[str]) -> None:
    agent = agent_of(holder)
    assert lives(agent)
    holder.kill()
    seconds_until(lambda: not lives(agent), 1.0)


def test_a_frozen_console_ends_the_agent_within_12_seconds(holder: subprocess.Popen[str]) -> None:
    agent = agent_of(holder)
    holder.send_signal(signal.SIGSTOP)
    assert lives(agent)
    assert seconds_until(lambda: not lives(agent), 12.0) > 5.0


def files_below(*folders: Path) -> set[Path]:
    return {path for folder in folders for path in folder.rglob("*")}


def test_the_agent_leaves_no_process_and_no_file(
    holder: subprocess.Popen[str], tmp_path: Path, home: Path
) -> None:
    before = files_below(home, tmp_path)
    agent = agent_of(holder)
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    holder.kill()
    seconds_until(
        lambda: not lives(agent) and not any(Path(f"/proc/{pid}").exists() for pid in children), 1.0
    )
    assert files_below(home, tmp_path) == before
