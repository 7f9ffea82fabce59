"""The same questions about real processes: stand-ins that have SGLang's command lines."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.agent.processes import ProcessScan

SERVER = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
if os.fork() == 0:
    print("child", os.getpid(), flush=True)
sys.stdin.readline()
"""

# exec keeps pid and start time, as the real router's setproctitle does.
ROUTER = """
import os, socket, sys
for flag in ("--prometheus-port", "--port"):
    listener = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index(flag) + 1])))
    listener.set_inheritable(True)
    listener.detach()
sys.stdin.readline()
os.execv("/bin/cat", ["sglang::router"])
"""


class Host:
    """Starts processes that only this test's scan sees, and ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = f"TEST_RUN={folder}"
        # Its clock runs fast, so that what it looks at seldom is not waited for.
        self.scan = ProcessScan(only_env=self.token, clock=lambda: 100 * time.monotonic())
        self.started: list[subprocess.Popen[bytes]] = []
        for package, module, text in [
            ("sglang", "launch_server", SERVER),
            ("sglang_router", "launch_router", ROUTER),
        ]:
            (folder / package).mkdir()
            (folder / package / "__init__.py").touch()
            (folder / package / f"{module}.py").write_text(text)

    def start(self, *command: str, log: Path | None = None) -> subprocess.Popen[bytes]:
        """Run a command in a session of its own, its output in `log`."""
        name, _, value = self.token.partition("=")
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(log.open("ab")) if log else subprocess.DEVNULL
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONPATH": str(self.folder), name: value},
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def until(self, true: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Scan until the servers are as expected."""
        deadline = time.monotonic() + 20
        while True:
            servers = self.scan.servers()
            if true(servers):
                return servers
            assert time.monotonic() < deadline, servers
            time.sleep(0.02)

    def stop(self) -> None:
        """Their stdin's end ends them; the orphans among their children too."""
        for process in self.started:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(timeout=20)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    started = Host(tmp_path)
    yield started
    started.stop()


@pytest.fixture
def free_ports() -> list[int]:
    """Ports that nothing listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        return [listener.getsockname()[1] for listener in sockets]


def test_a_server_its_log_and_its_child(host: Host, tmp_path: Path, free_ports: list[int]) -> None:
    log = tmp_path / "server.log"
    port = free_ports[0]
    command = [sys.executable, "-m", "sglang.launch_server", "--port", str(port)]
    process = host.start(*command, log=log)
    (server,) = host.until(
        lambda servers: any(server["listening"] for server in servers) and b"\n" in read(log)
    )
    assert server["pid"] == process.pid
    assert server["command"] == command
    assert server["listening"] == [port]
    assert server["python"] == sys.executable
    assert server["log"] == {"kind": "file", "path": str(log), "detail": None}
    assert (server["pgid"], server["sid"]) == (process.pid, process.pid)
    assert server["start_time"] == pytest.approx(time.time(), abs=60)
    child = int(read(log).split()[1])
    assert host.scan.owner_of(child) == process.pid
    assert host.scan.owner_of(os.getpid()) is None


def read(path: Path) -> bytes:
    """A file's content, empty while it does not exist."""
    return path.read_bytes() if path.exists() else b""


def test_a_deleted_log_is_open_for_the_agent_all_the_same(
    host: Host, tmp_path: Path, free_ports: list[int]
) -> None:
    log = tmp_path / "server.log"
    host.start(sys.executable, "-m", "sglang.launch_server", "--port", str(free_ports[0]), log=log)
    (server,) = host.until(lambda servers: bool(servers) and b"child" in read(log))
    log.unlink()
    place = ProcessScan(only_env=host.token).servers()[0]["log"]
    assert (place["kind"], place["path"]) == ("deleted", f"/proc/{server['pid']}/fd/1")
    assert b"child" in read(Path(place["path"]))


def test_a_log_behind_tee(host: Host, tmp_path: Path, free_ports: list[int]) -> None:
    log = tmp_path / "server.log"
    line = f"'{sys.executable}' -m sglang.launch_server --port {free_ports[0]} 2>&1 | tee '{log}'"
    host.start("bash", "-c", line)
    (server,) = host.until(lambda servers: bool(servers) and servers[0]["log"]["path"] is not None)
    assert (server["log"]["kind"], server["log"]["path"]) == ("file", str(log))
    assert "(tee)" in server["log"]["detail"]


def test_look_alikes(host: Host, tmp_path: Path, free_ports: list[int]) -> None:
    port = str(free_ports[0])
    server = host.start(sys.executable, "-m", "sglang.launch_server", "--port", port)
    host.start("bash", "-c", "exec -a 'vim sglang/launch_server.py' cat")
    host.start("bash", "-c", f"cat # python -m sglang.launch_server --port {port}")
    host.start("bash", "-c", "exec -a sglang::scheduler_TP0 cat")
    host.start("tail", "-f", "-s", "0.1", str(tmp_path / "sglang/launch_server.py"), f"--pid={server.pid}")
    servers = host.until(lambda servers: bool(servers) and bool(servers[0]["listening"]))
    assert [found["pid"] for found in servers] == [server.pid]


def test_a_router_before_and_after_it_renames_itself(
    host: Host, tmp_path: Path, free_ports: list[int]
) -> None:
    port, metrics = free_ports
    flags = ["--port", str(port), "--prometheus-port", str(metrics), "--decode", "http://127.0.0.1:1"]
    process = host.start(sys.executable, "-m", "sglang_router.launch_router", *flags)
    (before,) = host.until(lambda servers: bool(servers) and len(servers[0]["listening"]) == 2)
    assert (before["port"], before["metrics_port"], before["workers"]) == (
        port,
        metrics,
        ["http://127.0.0.1:1"],
    )
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    newcomer: list[dict[str, Any]] = []

    def renamed(servers: list[dict[str, Any]]) -> bool:
        newcomer[:] = ProcessScan(only_env=host.token).servers()
        return bool(newcomer) and newcomer[0]["command"] == ["sglang::router"]

    (after,) = host.until(renamed)
    assert {**after, "state": ""} == {**before, "state": ""}
    assert (newcomer[0]["port"], newcomer[0]["listening"]) == (None, sorted([port, metrics]))


def test_a_server_that_was_killed_is_a_zombie_until_it_is_collected(
    host: Host, free_ports: list[int]
) -> None:
    process = host.start(sys.executable, "-m", "sglang.launch_server", "--port", str(free_ports[0]))
    host.until(lambda servers: bool(servers) and bool(servers[0]["listening"]))
    process.kill()
    (zombie,) = host.until(lambda servers: servers[0]["state"] == "Z")
    assert zombie["pid"] == process.pid
    process.wait(timeout=20)
    assert host.scan.servers() == []
