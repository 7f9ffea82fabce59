"""An agent's side of deployments on this machine: real processes, a state folder of the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from console.agent import processfacts, procfs
from console.agent.deployments import Deployments
from console.agent.frames import Header
from console.agent.groups import ProcessTable, RunIdentity, RunMembers

BOOT = "boot-1"
PATIENCE_S = 20.0

WAITS = "import signal; print('up', flush=True); signal.pause()"
ENDS = "import sys; sys.exit(7)"

# The children give themselves a title, as SGLang's do, which overwrites command line and environment.
FAMILY = """
import ctypes, os, signal
def retitle(title):
    fields = open("/proc/self/stat").read().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[48])
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, title, len(title))
for rank in range(2):
    if os.fork() == 0:
        retitle(b"sglang::scheduler_TP%d" % rank)
        os.write(1, b"child %d\\n" % os.getpid())
        signal.pause()
signal.pause()
"""


class Written:
    """Takes what an agent writes."""

    def __init__(self) -> None:
        self.seen: list[Header] = []

    def put(self, header: Header, body: bytes = b"") -> None:
        self.seen.append(header)

    def of_kind(self, kind: str) -> list[Header]:
        return [header for header in self.seen if header["kind"] == kind]


class TestAgent:
    """Deployments as the agent drives them, with answers handed back."""

    __test__ = False

    def __init__(
        self, state: Path, *, readonly: bool = False, login: Mapping[str, str] | None = None
    ) -> None:
        self.written = Written()
        self.deployments = Deployments(
            self.written,  # type: ignore[arg-type] # the one method used
            processfacts.fact,
            BOOT,
            readonly=readonly,
            environment={**(os.environ if login is None else login), "DSV4_AGENT_STATE": str(state)},
        )
        self._ids = iter(range(1, 10_000))

    def order(self, op: str, **fields: Any) -> Any:
        """The value of the answer, or its error as text."""
        number = next(self._ids)
        self.deployments.answer({"op": op, "id": number, **fields})
        answer = self.written.seen[-1]
        assert answer["id"] == number
        assert answer["more"] is False
        return answer["error"] if "error" in answer else answer.get("value")

    def records(self) -> Header:
        """The records, as they were told last."""
        self.deployments.look_for_changes()
        return self.written.of_kind("records")[-1]

    def lock(self) -> None:
        assert self.order("lock", by="me@desk", what="switch to pd-ll")["held"]


def asked(run: str, script: str = WAITS, **fields: Any) -> dict[str, Any]:
    """A run as the order `launch` names it."""
    return {
        "id": run,
        "deployment": "d1",
        "profile": "tp4-ll",
        "name": "single",
        "role": "single",
        "argv": [sys.executable, "-S", "-c", script],
        "environment": {},
        "gpus": [0, 1],
        "port": 30000,
        "ports": [30000, 31000],
        "by": "me@desk",
        "sudo": False,
    } | fields


def until(true: Callable[[], object], otherwise: str = "it did not happen") -> None:
    """Wait for `true()`."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


def log_of(record: Mapping[str, Any]) -> str:
    """What the run has written."""
    return Path(record["log"]).read_text()


def lives(pid: int) -> bool:
    """False for a zombie."""
    return ProcessTable().lives(pid)


def start_ticks(pid: int) -> int:
    found = procfs.stat("/proc", pid)
    assert found is not None
    return found.start_ticks


def end_run(record: Mapping[str, Any]) -> None:
    """Kill every process of a run, whoever launched it."""
    identity = RunIdentity(record["id"], record["pid"], record["start_ticks"])
    for pid in RunMembers(ProcessTable(), identity).all():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    until(lambda: not any(map(lives, RunMembers(ProcessTable(), identity).all())))


def stand_by(*command: str, **environment: str) -> subprocess.Popen[str]:
    """A process that is no run, in a session of its own; its first line tells that it is up."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )
