"""The console on a real prefill/decode pair with its router, over a real sshd: nothing installed, nothing
configured."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.sshd import SshServer
from tests.integration.terminal import Terminal
from tests.realstack.stack import RealStack

pytestmark = pytest.mark.realstack

CONSOLE = [sys.executable, "-m", "console", "--host", "gpu-box"]


@contextmanager
def load(stack: RealStack) -> Iterator[None]:
    """A real client that sends one request after the other."""
    over = threading.Event()

    def work() -> None:
        number = 0
        while not over.is_set():
            number += 1
            stack.complete(f"request {number} of a client that wants many tokens", max_tokens=200)

    client = threading.Thread(target=work)
    client.start()
    try:
        yield
    finally:
        over.set()
        client.join()


def status(stack: RealStack) -> dict[str, Any]:
    """`status --json`, with only the servers of this stack, by role."""
    done = subprocess.run([*CONSOLE, "status", "--json"], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    said: dict[str, Any] = json.loads(done.stdout)
    ports = {server.port for server in stack.servers.values()}
    said["servers"] = {server["role"]: server for server in said["servers"] if server["port"] in ports}
    said["exit_code"] = done.returncode
    return said


def test_status_finds_the_three_servers(real_stack: RealStack, ssh_server: SshServer) -> None:
    said = status(real_stack)
    assert said["exit_code"] == 0
    assert (said["host"], said["demo"]) == ("gpu-box", False)
    assert said["gpus"] == []
    assert said["gpu_note"]
    deployment = said["deployment"]
    assert (deployment["profile"], deployment["state"]) == (None, "roles up")
    assert deployment["verified"] is None
    for role, server in said["servers"].items():
        real = real_stack.servers[role]
        assert (server["port"], server["pid"]) == (real.port, real.process.pid)
        assert (server["state"], server["ready"]) == ("ready", True)
        assert server["log"] == str(real.log)
        assert server["version"] == ("0.3.2" if role == "router" else "0.5.15")
    assert set(said["servers"]) == {"prefill", "decode", "router"}
    assert said["servers"]["router"]["workers"] == "1+1"


def test_tokens_a_second_move_with_a_real_client(real_stack: RealStack, ssh_server: SshServer) -> None:
    with load(real_stack):
        rates = status(real_stack)["throughput"]
    assert rates["source"] == "counters"
    assert rates["gen_tok_s"] > 0


def test_the_logs_verb_prints_the_log(real_stack: RealStack, ssh_server: SshServer) -> None:
    done = subprocess.run(
        [*CONSOLE, "logs", "decode", "-n", "50000"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "The server is fired up and ready to roll!" in done.stdout
    assert "\x1b" not in done.stdout


def test_the_screen_shows_them_and_moves(real_stack: RealStack, ssh_server: SshServer) -> None:
    with Terminal(CONSOLE, columns=120, rows=40) as terminal:
        for role in ("prefill", "decode", "router"):
            terminal.until(rf"READY +{role} +:{real_stack.servers[role].port}", 30.0)
        terminal.until("1\\+1 workers")
        terminal.until(r"gen +0 tok/s")
        with load(real_stack):
            terminal.until(r"gen +[1-9][\d,]* tok/s")
            terminal.until(r"TP0 Decode batch|Decode batch, #running-req: 1")
        assert "not proven" in terminal.screen()
        terminal.type("q")
        terminal.until("EXIT-CODE 0")
