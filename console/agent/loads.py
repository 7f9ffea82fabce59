"""The order `load`: one load generator at a time, as a child whose events are parts of the answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator

from . import tether
from .frames import FrameWriter
from .logsearch import source_of
from .refusal import Refused

BOOTSTRAP = """
# dsv4-console load
import importlib, json, sys
parcel = json.loads(sys.stdin.buffer.readline())
space = {"__name__": "dsv4_agent_importer"}
exec(compile(parcel["modules"]["importer"], "<importer>", "exec"), space)
sys.meta_path.insert(0, space["ParcelFinder"](parcel["modules"]))
importlib.import_module(space["PACKAGE"] + ".loadgen").main(parcel["spec"])
"""
MODULES = (
    "importer",
    "frames",
    "loadanswer",
    "loaddeck",
    "loadgen",
    "loadlead",
    "loadmerge",
    "loadrequest",
    "loadstats",
    "loadtransport",
    "loadworker",
    "sse",
    "tether",
)
LAST = ("done", "failed")
ONE_AT_A_TIME = "a load runs already in this session"
BEAT_S = 1.0
MORE_S = 3.0
"""Who asked hears this often that it goes on."""
END_S = 1.0
READ_SIZE = 1 << 16
NOTE_CHARS = 300

Order = Dict[str, Any]
Event = Dict[str, Any]
Clock = Callable[[], float]


class LoadChild:
    """A running generator. Raises OSError when `python` cannot be started."""

    def __init__(self, python: str, spec: dict[str, Any]) -> None:
        self._process = tether.start(
            [python, "-c", BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin = self._process.stdin
        self.stdout = self._process.stdout.fileno()
        self.stderr = self._process.stderr.fileno()
        for fd in (self.stdout, self.stderr):
            os.set_blocking(fd, False)
        self._said = b""
        self._complained = b""
        # Prompts may be megabytes, which no pipe takes at once.
        self._telling = threading.Thread(target=self._tell, args=(spec,), name="load", daemon=True)
        self._telling.start()

    def beat(self) -> None:
        """Tell it that the agent lives."""
        if not self._telling.is_alive() and not self._stdin.closed:
            with contextlib.suppress(OSError):
                os.set_blocking(self._stdin.fileno(), False)
                os.write(self._stdin.fileno(), b"\n")

    def stop(self) -> None:
        """Have it cut what is in flight, tell that, and end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)

    def hang_up(self) -> None:
        """Close its life line, as the end of the agent does."""
        self._telling.join()
        self._stdin.close()

    def events(self) -> Iterator[Event]:
        """What it has told since the last time; the last is `done` or `failed`."""
        data = read(self.stdout)
        if data == b"":
            yield {"event": "failed", "reason": self._end()}
            return
        *lines, self._said = (self._said + (data or b"")).split(b"\n")
        self._complained = (self._complained + (read(self.stderr) or b""))[-READ_SIZE:]
        for line in lines:
            event = event_in(line)
            if event is None:
                self._complained += line + b"\n"
            else:
                yield event

    def close(self) -> None:
        """End it and its workers at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=END_S)
        self._telling.join(timeout=END_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _tell(self, spec: dict[str, Any]) -> None:
        modules = {name: source_of(name) for name in MODULES}
        parcel = {"modules": dict(modules, __init__=""), "spec": spec}
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(json.dumps(parcel).encode() + b"\n")
            self._stdin.flush()

    def _end(self) -> str:
        """Why it ended without a last word."""
        self._complained += read(self.stderr) or b""
        said = self._complained.decode("utf-8", "replace").strip().splitlines()
        try:
            how = f"ended with status {self._process.wait(timeout=END_S)}"
        except subprocess.TimeoutExpired:
            how = "closed its output"
        return f"the load generator {how}" + (f": {said[-1][:NOTE_CHARS]}" if said else "")


class Loads:
    """Carries out `load` and its `cancel`; `refuse` raises Refused when the session changes nothing."""

    def __init__(
        self, writer: FrameWriter, refuse: Callable[[], None], clock: Clock = time.monotonic
    ) -> None:
        self._writer = writer
        self._refuse = refuse
        self._clock = clock
        self._child: LoadChild | None = None
        self._number = 0
        self._beat_at = 0.0
        self._more_at = 0.0

    def load(self, order: Order) -> None:
        """Begin a load."""
        number = int(order["id"])
        try:
            self._refuse()
            self._begin(number, str(order.get("python") or sys.executable), dict(order["spec"]))
        except Refused as refusal:
            self._writer.put({"kind": "reply", "id": number, "error": str(refusal), "more": False})

    def cancel(self, number: int) -> None:
        """Stop a load. What it still tells is told."""
        if self._child is not None and number == self._number:
            self._child.stop()

    def readable(self) -> list[int]:
        """Descriptors that tell when `pump` has something to do."""
        return [self._child.stdout, self._child.stderr] if self._child is not None else []

    def beat(self) -> None:
        """Called at least every 2 s: the generator does not outlive an agent that stands still."""
        if self._child is not None and self._clock() >= self._beat_at:
            self._child.beat()
            self._beat_at = self._clock() + BEAT_S

    def pump(self) -> None:
        """Pass on what it tells."""
        if self._child is None:
            return
        for event in self._child.events():
            self._put(value=event, more=event["event"] not in LAST)
            if event["event"] in LAST:
                self.close()
                return
        if self._clock() >= self._more_at:
            self._put(more=True)

    def close(self) -> None:
        """End what runs."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _begin(self, number: int, python: str, spec: dict[str, Any]) -> None:
        if self._child is not None:
            raise Refused(ONE_AT_A_TIME)
        try:
            self._child = LoadChild(python, spec)
        except OSError as error:
            raise Refused(f"{python}: {error.strerror or error}") from error
        self._number = number
        self._more_at = self._clock() + MORE_S

    def _put(self, **fields: Any) -> None:
        self._writer.put(dict(fields, kind="value", id=self._number))
        self._more_at = self._clock() + MORE_S


def read(fd: int) -> bytes | None:
    """What is there; None when there is nothing yet, b"" at the end."""
    try:
        return os.read(fd, READ_SIZE)
    except BlockingIOError:
        return None


def event_in(line: bytes) -> Event | None:
    """None for what a program says that is no load generator, or a start-up file of Python's."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "event" in found else None
