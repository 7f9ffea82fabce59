"""On a terminal, over a real sshd: older lines come when scrolling up, and the whole file is searched."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.scripted import ScriptedServer
from tests.integration.sshd import SshServer
from tests.integration.terminal import Terminal


@pytest.fixture
def server(tmp_path: Path, gpu_box: SshServer) -> Iterator[ScriptedServer]:
    """A server that logs what it is told to."""
    scripted = ScriptedServer(tmp_path / "server", str(tmp_path))
    yield scripted
    scripted.kill()


def test_the_log_is_read_back_to_its_first_line_and_searched(server: ScriptedServer) -> None:
    server.lines(10_000)
    command = [sys.executable, "-m", "console", "--host", "gpu-box"]
    with Terminal(command, columns=120, rows=40) as terminal:
        terminal.until(r"line 10000\b")
        terminal.type("z", "g")
        terminal.until(r"line 8001\b")
        terminal.type("Up")
        terminal.until(r"paused")
        terminal.type("g")
        terminal.until(r"^\W*line 1\b")
        terminal.until("the log begins here")
        terminal.type("G")
        terminal.until(r"line 10000\b")
        terminal.type("*")
        terminal.type("line 12.4", "Enter")
        terminal.until(r"10 matches, newest first, in 0.1 MB")
        terminal.until(r"line 1294\b")
        terminal.type("q")
        terminal.until(r"line 10000\b")
