"""A benchmark that is killed midway, over a real sshd: no generator is left; what was measured is kept."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.domain.bench.result import BenchResult
from console.services.bench_store import BenchStore
from console.services.measurement import UNDER_WAY
from tests.integration import numbered
from tests.integration.sshd import SshServer
from tests.integration.waiting import wait_until
from tests.unit.streaming_server import StreamingServer

HOLDER = Path(__file__).with_name("hold_bench.py")


class Run:
    """A console that measures, seen from outside."""

    def __init__(self, folder: Path, server: StreamingServer) -> None:
        self._mark = f"DSV4_AGENT_ONLY_ENV={numbered.MARK}={folder}".encode()
        self._journal = folder / "journal.db"
        self.console = subprocess.Popen(
            [sys.executable, HOLDER, str(server.port), str(self._journal)],
            env=os.environ | {"PYTHONPATH": os.getcwd()},
        )

    def generators(self) -> list[int]:
        """Processes of the load generator on the host."""
        return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if self._is_generator(entry)]

    def _is_generator(self, entry: Path) -> bool:
        try:
            is_load = b"# dsv4-console load" in (entry / "cmdline").read_bytes()
            return is_load and self._mark in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def result(self) -> BenchResult | None:
        """As it is kept at this moment, with its requests."""

        async def read() -> BenchResult | None:
            store = BenchStore(self._journal)
            found = await store.history()
            result = await store.result(found[0].id) if found else None
            await store.close()
            return result

        return asyncio.run(read())

    def measures(self) -> bool:
        """Some requests have been answered, and that is kept."""
        return len(self.generators()) == 2 and (found := self.result()) is not None and bool(found.requests)

    def end(self) -> BenchResult:
        """Of a console that lives: it ends by itself, and the result is as it leaves it."""
        assert self.console.wait(timeout=30) == 0
        found = self.result()
        assert found is not None
        return found


@pytest.fixture
def server() -> Iterator[StreamingServer]:
    with StreamingServer() as server:
        yield server


@pytest.fixture
def run(gpu_box: SshServer, tmp_path: Path, server: StreamingServer) -> Iterator[Run]:
    """A benchmark in its middle."""
    run = Run(tmp_path, server)
    try:
        wait_until(run.measures, "nothing is measured")
        yield run
    finally:
        run.console.kill()
        run.console.wait()


def is_measured(result: BenchResult) -> bool:
    """With figures of the requests that were answered, which are kept too."""
    done = [timing for timing in result.requests if timing.ok]
    return bool(done) and result.figures.completed == len(done) and result.figures.output_throughput > 0


def test_a_console_that_is_killed(run: Run) -> None:
    run.console.kill()
    wait_until(lambda: not run.generators(), "a generator outlives the console")
    result = run.result()
    assert result is not None
    assert result.partial == UNDER_WAY
    assert is_measured(result)


def test_a_connection_that_is_killed(run: Run, gpu_box: SshServer) -> None:
    gpu_box.kill_sessions()
    wait_until(lambda: not run.generators(), "a generator outlives the connection")
    result = run.end()
    assert result.partial is not None
    assert "connection" in result.partial
    assert is_measured(result)
    assert result.context.server_tokens is None


def test_a_server_that_is_killed(run: Run, server: StreamingServer) -> None:
    os.kill(server.pid, signal.SIGKILL)
    result = run.end()
    assert run.generators() == []
    lost = result.figures.failed
    assert result.partial == f"the target answered no more: the last {lost} requests all failed"
    assert result.figures.failures.keys() == {"cut off", "refused"}
    assert result.figures.completed + lost == 5000
    assert is_measured(result)
