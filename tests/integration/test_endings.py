"""However the console ends, the terminal is as it was (case G09)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.terminal import Terminal
from tests.integration.waiting import wait_until

CONSOLE = [sys.executable, "-m", "console", "--host", "local"]
MODES = ("?1000", "?1003", "?1006", "?1049", "?2004")


class Pty:
    """A program on a pty, and everything that it wrote."""

    def __init__(self, command: list[str]) -> None:
        self.fd, self.theirs = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        environment = os.environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            command,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env=environment,
            start_new_session=True,
        )
        self.written = b""

    def read_until(self, words: bytes) -> None:
        deadline = time.monotonic() + 20
        while words not in self.written:
            assert time.monotonic() < deadline, self.written[-2000:]
            self._read(0.1)

    def wait(self) -> int:
        deadline = time.monotonic() + 10
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self._read(0.05)
        while self._read(0.2):
            pass
        return self.process.returncode

    def _read(self, limit_s: float) -> bool:
        if not select.select([self.fd], [], [], limit_s)[0]:
            return False
        try:
            piece = os.read(self.fd, 65536)
        except OSError:
            return False
        self.written += piece
        return bool(piece)


@contextlib.contextmanager
def on_pty(command: list[str]) -> Iterator[Pty]:
    terminal = Pty(command)
    try:
        yield terminal
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
        os.close(terminal.fd)
        os.close(terminal.theirs)


def assert_as_before(terminal: Pty) -> None:
    """Every mode that was set is set back, the cursor shows, and the terminal echoes."""
    for mode in MODES:
        name = mode.encode()
        assert terminal.written.rfind(b"\x1b[" + name + b"l") > terminal.written.rfind(
            b"\x1b[" + name + b"h"
        ), mode
    assert terminal.written.rfind(b"\x1b[?25h") > terminal.written.rfind(b"\x1b[?25l")
    local_flags = termios.tcgetattr(terminal.fd)[3]
    assert local_flags & termios.ECHO
    assert local_flags & termios.ICANON
    assert b"Traceback" not in terminal.written


@pytest.mark.parametrize(
    ("how", "code"),
    [("q", 0), ("ctrl+c", 130), (signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)],
    ids=["q", "ctrl+c", "SIGTERM", "SIGHUP"],
)
def test_the_terminal_is_as_it_was(how: str | signal.Signals, code: int) -> None:
    with on_pty(CONSOLE) as terminal:
        terminal.read_until(b"connected")
        if isinstance(how, signal.Signals):
            terminal.process.send_signal(how)
        else:
            os.write(terminal.fd, b"q" if how == "q" else b"\x03")
        assert terminal.wait() == code
        assert_as_before(terminal)


def test_it_ends_when_its_terminal_is_gone_for_good(home: Path) -> None:
    marker = {"DSV4_TEST_ENDING": str(home), "HOME": str(home)}
    with Terminal(CONSOLE, columns=100, rows=30, environment=marker) as terminal:
        terminal.until("connected")
        (console,) = consoles_with(home)
    wait_until(lambda: not consoles_with(home), f"the console {console} outlives its terminal")


def consoles_with(home: Path) -> list[int]:
    """Pids of consoles whose environment holds this test's mark."""
    mark = f"DSV4_TEST_ENDING={home}".encode()
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if has(pid, mark)]


def has(pid: int, mark: bytes) -> bool:
    try:
        process = Path(f"/proc/{pid}")
        is_console = b"\0-m\0console\0" in (process / "cmdline").read_bytes()
        return is_console and mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def test_after_kill_9_reset_terminal_puts_it_right() -> None:
    with on_pty(CONSOLE) as terminal:
        terminal.read_until(b"connected")
        terminal.process.kill()
        terminal.process.wait()
        assert not termios.tcgetattr(terminal.fd)[3] & termios.ECHO
        reset = subprocess.run([sys.executable, "-m", "console", "--reset-terminal"], stdout=terminal.theirs)
        assert reset.returncode == 0
        terminal.wait()
        assert_as_before(terminal)
