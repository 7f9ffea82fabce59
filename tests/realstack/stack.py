"""A real SGLang prefill/decode pair behind its real router, on this machine's CPU.

    with RealStack(folder_for_logs) as stack:
        stack.wait_ready()
        stack.complete("prefill decode", max_tokens=8)

setup.sh builds the folder that DSV4_REALSTACK names. A server needs about 2.5 GB of memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).parent
HOME = Path(os.environ.get("DSV4_REALSTACK", "/var/tmp/dsv4-realstack"))
SERVER_READY = "The server is fired up and ready to roll!"

Role = Literal["single", "prefill", "decode", "router"]
PAIR: tuple[Role, ...] = ("prefill", "decode", "router")


@dataclasses.dataclass(frozen=True)
class Ports:
    """Every port that a pair, its router and a single server listen on."""

    single: int
    single_nccl: int
    prefill: int
    prefill_nccl: int
    bootstrap: int
    decode: int
    decode_nccl: int
    router: int
    router_metrics: int

    @classmethod
    def free(cls) -> Ports:
        """Ports nobody has now, from below the kernel's own range, so that no client socket takes one."""
        wanted = len(dataclasses.fields(cls))
        candidates = (port for port in random.sample(range(20000, 32000), 200) if _is_free(port))
        return cls(*(next(candidates) for _ in range(wanted)))

    def environment(self) -> dict[str, str]:
        """The variables of serve.sh: PREFILL_PORT, PREFILL_NCCL_PORT, …"""
        return {f"{name.upper()}_PORT": str(port) for name, port in dataclasses.asdict(self).items()}


@dataclasses.dataclass(frozen=True)
class Completion:
    """What the router answered to one request."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class RealServer:
    """One server or router: a child in a session of its own, its output appended to `log`."""

    def __init__(self, role: Role, ports: Ports, log: Path) -> None:
        self.role = role
        self.port: int = getattr(ports, role)
        self.metrics_port = ports.router_metrics if role == "router" else self.port
        self.log = log
        with log.open("ab") as output:
            # The signal is for the day this process is killed outright: 5 GB of servers must not outlive it.
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", HERE / "serve.sh", HOME, role],
                env={**os.environ, **ports.environment()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def get(self, path: str, timeout_s: float = 30.0) -> str:
        """The body of a GET. Raises OSError unless it is answered with 200."""
        return fetch(f"http://127.0.0.1:{self.port}{path}", timeout_s)

    def metrics(self) -> str:
        """The page of /metrics."""
        return fetch(f"http://127.0.0.1:{self.metrics_port}/metrics", 30.0)

    def is_ready(self) -> bool:
        """A server: its ready line. The router: /readiness, so a healthy prefill and decode."""
        if self.role != "router":
            return SERVER_READY in self.log.read_text(errors="replace")
        try:
            self.get("/readiness", timeout_s=5.0)
        except OSError:
            return False
        return True

    def flush_cache(self, timeout_s: float) -> None:
        """Have it forget its prefixes, which it refuses while a request is under way. Raises OSError."""
        for _ in _until(timeout_s):
            with contextlib.suppress(urllib.error.HTTPError):
                fetch(f"http://127.0.0.1:{self.port}/flush_cache", timeout_s, {})
                return
        raise TimeoutError(f"{self.role} has not flushed its cache within {timeout_s:g} s")

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the whole session; nothing when none of it is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class RealStack:
    """The pair and its router, or other roles; started on entry, stopped on exit."""

    def __init__(self, folder: Path, roles: tuple[Role, ...] = PAIR, ports: Ports | None = None) -> None:
        self.folder = folder
        self.roles = roles
        self.ports = ports or Ports.free()
        self.servers: dict[Role, RealServer] = {}

    def __enter__(self) -> RealStack:
        if not (HOME / "stamp").exists():
            raise RuntimeError(f"no SGLang in {HOME}: run {HERE / 'setup.sh'} {HOME} (or set DSV4_REALSTACK)")
        for role in self.roles:
            self.start(role)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, role: Role) -> RealServer:
        """Start one role, for the first time or again; its log goes on in the same file."""
        server = RealServer(role, self.ports, self.folder / f"{role}.log")
        self.servers[role] = server
        return server

    def wait_ready(self, timeout_s: float = 240.0) -> None:
        """Wait for every role. Raises RuntimeError with the end of the log when one dies or is late."""
        for _ in _until(timeout_s):
            for server in self.servers.values():
                if server.process.poll() is not None:
                    code = server.process.returncode
                    raise RuntimeError(f"{server.role} ended with code {code}; its log:\n{server.tail()}")
            # Stops at the first that is not ready, so that the router's log does not fill with our questions.
            if all(server.is_ready() for server in self.servers.values()):
                return
        logs = "\n".join(f"--- {server.role}\n{server.tail()}" for server in self.servers.values())
        raise RuntimeError(f"not ready after {timeout_s:g} s; the end of each log:\n{logs}")

    def complete(self, prompt: str, max_tokens: int, timeout_s: float = 60.0) -> Completion:
        """One real request, through the router when there is one. Raises OSError when it is refused."""
        server = self.servers.get("router") or self.servers["single"]
        asked = {"model": "default", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}
        answer = json.loads(fetch(f"http://127.0.0.1:{server.port}/v1/completions", timeout_s, asked))
        usage = answer["usage"]
        text: str = answer["choices"][0]["text"]
        return Completion(text, usage["prompt_tokens"], usage["completion_tokens"])

    def flush_caches(self, timeout_s: float = 10.0) -> None:
        """Have every server forget its prefixes. Raises OSError where one stays busy."""
        for server in self.servers.values():
            if server.role != "router":
                server.flush_cache(timeout_s)

    def stop(self, grace_s: float = 20.0) -> None:
        """End what was started: SIGTERM, then SIGKILL for what is left. An idle server takes 16 s to end."""
        servers = list(self.servers.values())
        for server in servers:
            server.signal_group(signal.SIGTERM)
        _wait(grace_s, lambda: all(server.process.poll() is not None for server in servers))
        for server in servers:
            server.signal_group(signal.SIGKILL)
            server.process.wait()
        self.servers.clear()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def fetch(url: str, timeout_s: float, posted: dict[str, Any] | None = None) -> str:
    data = None if posted is None else json.dumps(posted).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout_s) as response:
        body: bytes = response.read()
    return body.decode()


def _until(timeout_s: float) -> Iterator[None]:
    """Ten looks a second, until the time is over."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        yield
        time.sleep(0.1)


def _wait(timeout_s: float, condition: Callable[[], bool]) -> bool:
    return any(condition() for _ in _until(timeout_s))
