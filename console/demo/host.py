"""The demo host's life: a folder, the simulated servers, the SSH server, and an end that leaves nothing."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from console.demo.deployment import Deployment
from console.demo.ports import PortBlock

PYTHONPATH = Path(__file__).with_name("pythonpath")
END_PATIENCE_S = 1.0
"""Seconds that simulated servers may take to notice that the demo is over, before they are killed."""
SESSION_PATIENCE_S = 0.3
"""The same for what runs in SSH sessions."""
_POLL_S = 0.03
_TUNING = ("CUDA_", "NCCL_", "SGL_", "SGLANG_", "UCX_")
"""Variables of whoever starts the demo that its servers would heed."""
MODELS = Path(__file__).with_name("models")
"""Enough of a model for whoever looks whether it is there. Not in the host's folder: benchmarks of
another path are of another model."""


class DemoHost:
    """A folder and the processes that belong to it. `close` ends them all and removes the folder.

    The folder has `state`, by which the simulated programs know of each other, `alive` (see
    demohost.lifeline), and `agent`, the state folder of the console's agent.
    """

    def __init__(self, folder: Path, gpus: int, ports: PortBlock) -> None:
        self._folder, self._gpus, self._ports = folder, gpus, ports
        self._id = uuid4().hex
        self._token = f"DSV4_DEMO={self._id}"
        for name in ("agent", "state"):
            (folder / name).mkdir(mode=0o700)
        self._alive = _hold(folder / "alive")
        self._deployment = Deployment(folder / "agent", self.environment)

    @property
    def variables(self) -> dict[str, str]:
        """What the demo's profiles must be told about the host."""
        return {"DSV4_DEMO_MODELS": str(MODELS), "DSV4_DEMO_PORTS": str(self._ports.prefix)}

    @property
    def environment(self) -> Mapping[str, str]:
        """Of everything that runs on the host, launched by whomever."""
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(_TUNING)}
        return {
            **inherited,
            **self.variables,
            "DSV4_DEMO_FOLDER": str(self._folder),
            "PYTHONPATH": str(PYTHONPATH),
            "DSV4_DEMO": self._id,
            # The agent shows this host's own processes, not those of the machine that it runs on.
            "DSV4_AGENT_ONLY_ENV": self._token,
            "DSV4_AGENT_STATE": str(self._folder / "agent"),
            "DSV4_DEMO_GPUS": str(self._gpus),
        }

    def launch(self) -> None:
        """Start the first deployment. Raises ProfileError."""
        # The variables go to profiles through the environment (see console.profiles).
        os.environ.update(self.variables)
        self._deployment.start()

    def collect(self) -> None:
        """Some process that the host launched has ended."""
        self._deployment.collect()

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
            "variables": self.variables,
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
        self._deployment.wait()
        self._ports.reservation.close()
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
