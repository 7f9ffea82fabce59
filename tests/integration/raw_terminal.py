"""A terminal that keeps every byte it is sent: what a program really writes, before it is interpreted."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

KEYS = {"enter": b"\r", "escape": b"\x1b", "up": b"\x1b[A", "shift+up": b"\x1b[1;2A"}

_SEQUENCE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\x1b[\]PX^_](?:[^\x07\x1b]|\x1b[^\\])*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC
    rb"|\x1b[ -~]"
)


@contextmanager
def _heard_interrupts() -> Iterator[None]:
    """What is started meanwhile hears Ctrl-C, as from a terminal.

    A script's shell has what it puts in the background ignore SIGINT, and such tests would pass that on.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class RawTerminal:
    """One program on one pty."""

    def __init__(
        self,
        command: list[str | Path],
        *,
        columns: int,
        rows: int,
        environment: Mapping[str, str],
    ) -> None:
        self._command = command
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        self._environment = os.environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | dict(environment)
        self.sent = bytearray()

    def __enter__(self) -> RawTerminal:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, self._size)
        with _heard_interrupts():
            self._process = subprocess.Popen(
                self._command, stdin=theirs, stdout=theirs, stderr=theirs, env=self._environment
            )
        os.close(theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def type(self, *keys: str) -> None:
        """Press keys: letters as they are, others by name."""
        for key in keys:
            os.write(self._ours, KEYS.get(key, key.encode()))

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def exit_code(self, limit_s: float = 20.0) -> int:
        """Wait for its end."""
        return self._process.wait(limit_s)

    def until(self, condition: Callable[[bytes], object], limit_s: float = 20.0) -> None:
        """Read until what was sent meets the condition; AssertionError with its end when it does not."""
        deadline = time.monotonic() + limit_s
        while not condition(bytes(self.sent)):
            assert time.monotonic() < deadline, f"not within {limit_s} s: …{bytes(self.sent[-3000:])!r}"
            if select.select([self._ours], [], [], 0.05)[0]:
                self.sent += os.read(self._ours, 65536)

    def shows(self, text: str, limit_s: float = 20.0) -> None:
        """Wait until this text is written somewhere on the screen from now on."""
        start = len(self.sent)
        self.until(lambda sent: text.encode() in _SEQUENCE.sub(b"", sent[start:]), limit_s)

    @property
    def sequences(self) -> set[bytes]:
        """The control sequences that were sent, with every number in them as 0."""
        return {re.sub(rb"\d+", b"0", found) for found in _SEQUENCE.findall(bytes(self.sent))}

    @property
    def text(self) -> str:
        """What was sent besides them."""
        return _SEQUENCE.sub(b"", bytes(self.sent)).decode()
