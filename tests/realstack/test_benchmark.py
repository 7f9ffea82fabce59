"""Benchmarks of a real SGLang over a real sshd, beside sglang's own client, and cut off in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

from tests.integration.sshd import SshServer
from tests.realstack.relay import Relay
from tests.realstack.stack import RealStack
from tests.realstack.two_clients import Figures, Shape, by_generator, by_sglang

pytestmark = pytest.mark.realstack

TIMES = 5
CLOSE = 0.05
TTFT = "median_ttft_ms"
COMPARED = ("output_throughput", TTFT, "median_tpot_ms")
CLOSE_MS = 3.0
"""Of a TTFT of 20 ms, 5 % are less than what a client takes to connect."""
TURN = Shape(input_tokens=256, output_tokens=64, concurrency=4, requests=24)
GENERATOR = b"# dsv4-console load"
PATIENCE_S = 30.0
SHORT = ("-c", "1,4", "--prompts", "12", "--input", "128", "--output", "32")
LONG = ("-c", "2", "--prompts", "400", "--input", "128", "--output", "64")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealStack]:
    """One server without a router."""
    with RealStack(tmp_path_factory.mktemp("single"), roles=("single",)) as stack:
        stack.wait_ready()
        yield stack


def test_as_sglangs_client_on_a_single_server(single: RealStack, tmp_path: Path) -> None:
    see_agreement(single.ports.single, tmp_path)


def test_as_sglangs_client_on_a_pair(real_stack: RealStack, tmp_path: Path) -> None:
    see_agreement(real_stack.ports.router, tmp_path)


def see_agreement(port: int, folder: Path) -> None:
    """Both clients in turn, each held against what has passed between it and the server."""
    ours: list[Turn] = []
    theirs: list[Turn] = []
    for number in range(TIMES):
        turns = [
            (ours, lambda port: by_generator(TURN, port)),
            (theirs, lambda port: by_sglang(TURN, port, folder)),
        ]
        for found, measure in turns if number % 2 == 0 else reversed(turns):
            found.append(against_the_relay(measure, port))
    for name in COMPARED:
        ratio = median(each.share(name) for each in ours) / median(each.share(name) for each in theirs)
        apart = abs(median(each.more(name) for each in ours) - median(each.more(name) for each in theirs))
        close = ratio == pytest.approx(1.0, abs=CLOSE) or (name == TTFT and apart < CLOSE_MS)
        assert close, (name, ratio, apart, ours, theirs)


class Turn(NamedTuple):
    """What a client says of one load, and what has passed between it and the server."""

    said: Figures
    passed: Figures

    def share(self, name: str) -> float:
        return float(self.said[name] / self.passed[name])

    def more(self, name: str) -> float:
        return float(self.said[name] - self.passed[name])


def against_the_relay(measure: Callable[[int], Figures], port: int) -> Turn:
    """One client's turn."""
    with Relay(port) as relay:
        said = measure(relay.port)
        passed = relay.figures(of=TURN.output_tokens)
    assert said["completed"] == passed["completed"] == TURN.requests
    assert said["total_input_tokens"] == TURN.requests * TURN.input_tokens
    assert said["total_output_tokens"] == TURN.requests * TURN.output_tokens
    return Turn({name: said[name] for name in COMPARED}, passed)


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
