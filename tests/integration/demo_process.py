"""A demo host as a real child process, and the processes that belong to it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh

from tests.integration.waiting import PATIENCE_S


class Demo(NamedTuple):
    """A running demo and what it said about itself."""

    process: subprocess.Popen[bytes]
    said: dict[str, Any]

    @property
    def folder(self) -> Path:
        return Path(self.said["folder"])

    def log(self, name: str) -> str:
        """The log of a server's last run, carriage returns and all."""
        logs = self.folder.rglob(f"{name}.log")
        return max(logs, key=lambda log: log.stat().st_mtime_ns).read_bytes().decode()

    def pids(self) -> list[int]:
        """Everything that lives with the demo's token in its environment, whoever started it."""
        token = self.said["env"][0].encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has(pid, token)]

    def servers(self) -> dict[str, dict[str, Any]]:
        """What each server publishes, by role."""
        found = {}
        for path in (self.folder / "state").glob("*.json"):
            with suppress(FileNotFoundError):
                server = json.loads(path.read_text())
                found[server["role"]] = server
        return found

    def server(self, role: str) -> dict[str, Any]:
        """What a server publishes."""
        return self.servers()[role]

    def is_ready(self) -> bool:
        """Does everything serve, the router included?"""
        return [server["phase"] for server in self.servers().values()] == ["serving"] * 3

    def flag(self, role: str, name: str) -> str:
        """The value of a flag on a server's command line."""
        words = Path(f"/proc/{self.server(role)['pid']}/cmdline").read_text().split("\0")
        return words[words.index(name) + 1]

    def router_port(self) -> int:
        """From the router's log, for its command line is gone."""
        return int(self.log("router").partition("Starting router on 127.0.0.1:")[2].partition(" ")[0])

    def router_metrics_port(self) -> int:
        """The other port on which the router listens."""
        inodes = {os.readlink(fd) for fd in Path(f"/proc/{self.server('router')['pid']}/fd").iterdir()}
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ports = {int(row[1][-4:], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}
        (other,) = ports - {self.router_port()}
        return other

    def connect(self, **changes: Any) -> Any:
        """An SSH connection, as a context manager."""
        said = self.said
        options = {
            "username": said["username"],
            "client_keys": [said["client_key"]],
            "known_hosts": said["known_hosts"],
            "config": None,
            "agent_path": None,
        }
        return asyncssh.connect(said["host"], said["port"], **(options | changes))

    async def ask(
        self, port: int, path: str, body: dict[str, Any] | None = None, through: Any = None
    ) -> tuple[int, bytes]:
        """Status and body of one HTTP request through an SSH connection, one of its own unless given."""
        if through is None:
            async with self.connect() as connection:
                return await self.ask(port, path, body, connection)
        content = b"" if body is None else json.dumps(body).encode()
        verb = "GET" if body is None else "POST"
        reader, writer = await through.open_connection("127.0.0.1", port, encoding=None)
        writer.write(
            f"{verb} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n".encode()
            + content
        )
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        head, _, rest = answer.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head:
            rest = b"".join(rest.split(b"\r\n")[1::2])
        return int(head.split()[1]), rest


@contextmanager
def running_demo(folder: Path, start_s: float = 0.3, load: bool = True) -> Iterator[Demo]:
    """A demo host whose own folder is made in `folder`. Whatever is left at the end is killed."""
    changes = {"DSV4_DEMO_START_S": str(start_s), "DSV4_DEMO_LOAD": str(int(load))}
    with subprocess.Popen(
        (sys.executable, "-m", "console.demo", "--folder", str(folder)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | changes,
    ) as process:
        assert process.stdout is not None
        demo = Demo(process, json.loads(process.stdout.readline()))
        try:
            yield demo
        finally:
            process.kill()
            for pid in demo.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _has(pid: int, token: bytes) -> bool:
    """A zombie has no environment any more."""
    try:
        return token in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
