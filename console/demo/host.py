"""The demo host's life: a folder, the simulated servers, the SSH server, and an end that leaves nothing."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from console.demo.deployment import Launch, launches

PYTHONPATH = Path(__file__).with_name("pythonpath")
END_PATIENCE_S = 1.0
"""Seconds that simulated servers may take to notice that the demo is over, before they are killed."""
SESSION_PATIENCE_S = 0.3
"""The same for what runs in SSH sessions."""
_POLL_S = 0.03


class DemoHost:
    """A folder and the processes that belong to it. `close` ends them all and removes the folder."""

    def __init__(self, folder: Path, gpus: int) -> None:
        self._folder, self._gpus = folder, gpus
        self._id = uuid4().hex
        self._token = f"DSV4_DEMO={self._id}"
        self._servers: list[subprocess.Popen[bytes]] = []
        for name in ("logs", "state"):
            (folder / name).mkdir(mode=0o700)
        self._alive = _hold(folder / "alive")

    @property
    def environment(self) -> Mapping[str, str]:
        """Of everything that runs on the host."""
        return {
            **os.environ,
            "PYTHONPATH": str(PYTHONPATH),
            "DSV4_DEMO": self._id,
            # The agent shows this host's own processes, not those of the machine that it runs on.
            "DSV4_AGENT_ONLY_ENV": f"DSV4_DEMO={self._id}",
            "DSV4_DEMO_FOLDER": str(self._folder),
            "DSV4_DEMO_GPUS": str(self._gpus),
        }

    def launch(self) -> None:
        """Start the deployment."""
        self._servers = [self._start(launch) for launch in launches(self._gpus)]

    def _start(self, launch: Launch) -> subprocess.Popen[bytes]:
        with open(self._folder / "logs" / f"{launch.name}.log", "ab") as log:
            return subprocess.Popen(
                (sys.executable, *launch.arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )

    async def serve(self, stop: asyncio.Event) -> None:
        """Listen, say where in one line of JSON, and go on until asked to stop."""
        # asyncssh takes a tenth of a second to import, in which the servers are already starting.
        from console.demo.session import Sessions
        from console.demo.ssh_server import listen

        sessions = Sessions(self.environment)
        acceptor, keys = await listen(self._folder, sessions)
        print(json.dumps(self._address(acceptor.get_port(), *map(str, keys))), flush=True)
        await stop.wait()
        acceptor.close()
        sessions.patience_s = SESSION_PATIENCE_S

    def _address(self, port: int, client_key: str, known_hosts: str) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": port,
            "username": "demo",
            "client_key": client_key,
            "known_hosts": known_hosts,
            "folder": str(self._folder),
            "python": sys.executable,
            "env": [self._token],
        }

    def close(self) -> None:
        """End everything that runs on the host and remove its folder."""
        self._alive.close()
        deadline = time.monotonic() + END_PATIENCE_S
        while self._processes() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for server in self._servers:
            server.wait()
        # The servers remove it as well, for they cannot know whether the demo still can.
        shutil.rmtree(self._folder, ignore_errors=True)

    def _processes(self) -> list[int]:
        """All that live with this demo's token in their environment, whoever launched them."""
        pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        return [pid for pid in pids if self._token.encode() in _environment_of(pid)]


def _hold(path: Path) -> IO[bytes]:
    """A lock that the kernel drops when this process is gone, whatever ends it: all others wait for that."""
    alive = open(path, "wb")  # noqa: SIM115 - held for as long as the host lives
    fcntl.flock(alive, fcntl.LOCK_EX)
    return alive


def _environment_of(pid: int) -> list[bytes]:
    """Empty for a zombie, for a process that is gone, and for another user's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
