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
from typing import Any

import pytest

from tests.integration.sshd import SshServer
from tests.realstack.stack import RealStack
from tests.realstack.two_clients import Figures, Shape, by_console, by_sglang

pytestmark = pytest.mark.realstack

COMPARED = ("output_throughput", "median_ttft_ms", "median_tpot_ms")
TIMES = 5
CLOSE = 0.05
SHAPE = Shape(input_tokens=128, output_tokens=64, concurrency=4, requests=96)
GENERATOR = b"# dsv4-console load"
PATIENCE_S = 30.0
LONG = ("-c", "2", "--prompts", "400", "--input", "128", "--output", "64")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealStack]:
    """One server without a router."""
    with RealStack(tmp_path_factory.mktemp("single"), roles=("single",)) as stack:
        stack.wait_ready()
        yield stack


def test_agrees_with_sglangs_client_on_a_single_server(
    single: RealStack, ssh_server: SshServer, tmp_path: Path
) -> None:
    see_agreement(single.ports.single, tmp_path)


def test_agrees_with_sglangs_client_on_a_pair(
    real_stack: RealStack, ssh_server: SshServer, tmp_path: Path
) -> None:
    see_agreement(real_stack.ports.router, tmp_path)


def see_agreement(port: int, folder: Path) -> None:
    """Both clients in turn, so that whatever else this machine does falls on both."""
    ours: list[Figures] = []
    theirs: list[Figures] = []
    for number in range(TIMES):
        both: list[tuple[list[Figures], Callable[[], Figures]]] = [
            (ours, lambda: by_console(SHAPE)),
            (theirs, lambda: by_sglang(SHAPE, port, folder)),
        ]
        for found, measure in both if number % 2 == 0 else reversed(both):
            found.append(measure())
    for figures in (*ours, *theirs):
        assert figures["completed"] == SHAPE.requests
        assert figures["total_input_tokens"] == SHAPE.requests * SHAPE.input_tokens
        assert figures["total_output_tokens"] == SHAPE.requests * SHAPE.output_tokens
    counted = [figures["dsv4"]["context"]["server_tokens"] for figures in ours]
    assert counted == [SHAPE.requests * SHAPE.output_tokens] * TIMES
    ratios = {name: median_of(ours, name) / median_of(theirs, name) for name in COMPARED}
    assert ratios == {name: pytest.approx(1.0, abs=CLOSE) for name in COMPARED}, (ours, theirs)


def median_of(runs: list[Figures], name: str) -> float:
    return float(median(figures[name] for figures in runs))


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
