"""Benchmarks of a real SGLang over a real sshd: as the server counts, and cut off in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.sshd import SshServer
from tests.realstack.stack import RealStack

pytestmark = pytest.mark.realstack

GENERATOR = b"# dsv4-console load"
PATIENCE_S = 30.0
SHORT = ("-c", "1,4", "--prompts", "12", "--input", "128", "--output", "32")
LONG = ("-c", "2", "--prompts", "400", "--input", "128", "--output", "64")


def test_a_single_server_counts_the_same_tokens(single: RealStack, ssh_server: SshServer) -> None:
    see_the_same_count()


def test_a_pair_counts_the_same_tokens(real_stack: RealStack, ssh_server: SshServer) -> None:
    see_the_same_count()


def see_the_same_count() -> None:
    """A whole benchmark, over a real sshd."""
    command = [*(sys.executable, "-m", "console", "--host", "gpu-box", "bench", "--yes", "--json"), *SHORT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["max_concurrency"] for result in results] == [1, 4]
    for result in results:
        assert (result["completed"], result["total_output_tokens"]) == (12, 12 * 32)
        assert result["dsv4"]["context"]["server_tokens"] == 12 * 32
        assert result["dsv4"]["context"]["cached_share"] < 0.1


class TestCutOff:
    """In the middle of a measurement: no generator is left, and what was measured is kept."""

    def test_the_console_is_killed(self, single: RealStack, ssh_server: SshServer) -> None:
        with measuring() as console:
            console.kill()
            until(lambda: not generators(), "the generator to end")
        kept = kept_result()
        assert kept["partial"] == "the console ended while it measured"
        assert kept["figures"]["completed"] > 0

    def test_the_connection_is_lost(self, single: RealStack, ssh_server: SshServer) -> None:
        with measuring() as console:
            ssh_server.kill_sessions()
            until(lambda: not generators(), "the generator to end")
            assert console.wait(PATIENCE_S) == 1
            assert console.stderr is not None
            said = console.stderr.read()
        kept = kept_result()
        assert f"stopped: {kept['partial']}" in said
        assert kept["figures"]["completed"] > 0

    def test_the_server_is_killed(self, single: RealStack, ssh_server: SshServer) -> None:
        with measuring() as console:
            single.servers["single"].signal_group(signal.SIGKILL)
            until(lambda: not generators(), "the generator to end")
            console.wait(PATIENCE_S)
        kept = kept_result()
        assert kept["partial"].startswith("the target answered no more: the last ")
        assert 0 < kept["figures"]["completed"] < 400
        assert kept["figures"]["failures"]["refused"] > 0
        single.servers["single"].process.wait()
        single.start("single")
        single.wait_ready()


@contextmanager
def measuring() -> Iterator[subprocess.Popen[str]]:
    """A console that measures, and has kept some of it."""
    command = [sys.executable, "-m", "console", "--host", "gpu-box", "bench", "--yes", *LONG]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as console:
        try:
            until(lambda: generators() and kept_results(), "a measurement to be under way")
            yield console
        finally:
            console.kill()


def generators() -> list[int]:
    """Processes of load generators on this machine."""
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if GENERATOR in read(path)]


def read(path: Path) -> bytes:
    """Empty for what has just ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def kept_result() -> dict[str, Any]:
    (kept,) = kept_results()
    return kept


def kept_results() -> list[dict[str, Any]]:
    """By `bench list`, the newest first."""
    command = [sys.executable, "-m", "console", "bench", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line)["dsv4"] for line in done.stdout.splitlines()]


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for it. AssertionError when it does not come."""
    end_at = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_at, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.1)
