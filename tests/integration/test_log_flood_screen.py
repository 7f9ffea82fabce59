"""A server that writes without end (case G03): keys work, the view keeps up, and no line is missing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.scripted import ScriptedServer
from tests.integration.sshd import SshServer
from tests.integration.terminal import Terminal

BEFORE, MEANWHILE = 400_000, 200_000


@pytest.fixture
def server(tmp_path: Path, gpu_box: SshServer) -> Iterator[ScriptedServer]:
    """A server that logs what it is told to."""
    scripted = ScriptedServer(tmp_path / "server", str(tmp_path))
    yield scripted
    scripted.kill()


def test_keys_work_while_a_log_is_flooded(server: ScriptedServer) -> None:
    server.lines(BEFORE)
    command = [sys.executable, "-m", "console", "--host", "gpu-box"]
    with Terminal(command, columns=120, rows=40) as terminal:
        terminal.until(rf"line {BEFORE}\b")
        terminal.type("g")
        # It was opened near its end, not read from its beginning.
        terminal.until(rf"line {BEFORE - 1999}\b")
        terminal.type("G")
        flood = threading.Thread(target=server.lines, args=(MEANWHILE,))
        flood.start()
        terminal.type("Space")
        terminal.until("paused")
        terminal.type("Space")
        terminal.until("following")
        flood.join()
        terminal.until(rf"line {BEFORE + MEANWHILE}\b")
        terminal.type("q")
        terminal.until("EXIT-CODE 0")
