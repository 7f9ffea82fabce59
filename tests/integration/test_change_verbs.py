"""The verbs that change a host, as real child processes on a demo host that outlives them.

In order: each begins with what the one before it left on the host.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.demo_process import Demo, running_demo
from tests.integration.raw_terminal import RawTerminal
from tests.integration.waiting import wait_until

LIMIT_S = 60.0
CONFIG = """
[hosts.box]
python = {python}
interval_s = 0.2

[hosts.guarded]
ssh = "box"
python = {python}
protected = true
"""
SSH = """
Host box
  HostName {host}
  Port {port}
  User {username}
  IdentityFile {client_key}
  UserKnownHostsFile {known_hosts}
"""
PROFILES = {"pair": "demo-pd", "fast": "demo-ll", "one": "demo-single", "oom": "demo-oom", "slip": "demo-broken-flag"}
"""The demo's own profiles are for the host `demo`, which dies with its console; these are the same."""


class Box:
    """The demo host by the name `box`, and the command line."""

    def __init__(self, demo: Demo, home: Path) -> None:
        self.demo = demo
        self.home = home
        self.environment = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_DATA_HOME": str(home / "data"),
            **demo.said["variables"],
        }
        folder = home / "config" / "dsv4-console"
        (folder / "profiles").mkdir(parents=True)
        (folder / "config.toml").write_text(CONFIG.format(python=json.dumps(sys.executable)))
        for name, base in PROFILES.items():
            (folder / "profiles" / f"{name}.toml").write_text(f'extends = "{base}"\n')
        (home / ".ssh").mkdir(mode=0o700)
        (home / ".ssh" / "config").write_text(SSH.format(**demo.said))

    def words(self, *words: str, host: str = "box") -> list[str | Path]:
        return [sys.executable, "-m", "console", "--host", host, *words]

    def run(self, *words: str, host: str = "box") -> subprocess.CompletedProcess[str]:
        """To its end, without a terminal."""
        return subprocess.run(
            self.words(*words, host=host),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=self._environment(),
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(),
        )

    def terminal(self, *words: str, host: str = "box") -> RawTerminal:
        return RawTerminal(self.words(*words, host=host), columns=200, rows=50, environment=self.environment)

    def _environment(self) -> dict[str, str]:
        plain = {name: text for name, text in os.environ.items() if name not in ("SSH_AUTH_SOCK", "NO_COLOR")}
        return plain | self.environment

    def record(self, name: str) -> dict[str, Any]:
        """`deployment` or `plan`, as it is kept on the host."""
        found: dict[str, Any] = json.loads((self.demo.folder / "agent" / f"{name}.json").read_text())
        return found

    def running(self) -> tuple[str, dict[str, int]]:
        """The profile of the deployment, and the pid of each server that lives."""
        pids = {role: server["pid"] for role, server in self.demo.servers().items() if _lives(server["pid"])}
        return self.record("deployment")["profile"]["name"], pids


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with running_demo(tmp_path_factory.mktemp("demo"), load=False) as demo:
        wait_until(demo.is_ready, "the demo did not become ready")
        yield Box(demo, tmp_path_factory.mktemp("home"))
