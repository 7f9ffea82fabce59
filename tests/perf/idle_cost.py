"""What the console costs while nothing happens: 8 GPUs at 1 Hz, three quiet logs, on a real pty.

usage: python tests/perf/idle_cost.py [SECONDS]

The host is the demo without simulated load; only the console's own process is measured. Prints its share of
a core and its resident memory (goal: under 8 % and 120 MB), and those of a bare Textual app in the same run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

SETTLE_S = 20.0
BARE = """
from textual.app import App
from textual.widgets import Footer, Header, Tabs
class Bare(App):
    def compose(self):
        yield Header()
        yield Tabs("one", "two")
        yield Footer()
Bare().run()
"""
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def on_a_terminal(command: list[str]) -> Iterator[int]:
    """Run a program on a pty that is read all the time; yields its pid."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "DSV4_DEMO_LOAD": "0", "DSV4_DEMO_START_S": "1"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    threading.Thread(target=drain, args=(ours,), daemon=True).start()
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def drain(fd: int) -> None:
    """Read until the other side is gone."""
    with contextlib.suppress(OSError):
        while os.read(fd, 65536):
            pass


def cpu_s(pid: int) -> float:
    """CPU seconds of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    """Resident memory in MB (10^6 bytes)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def measure(name: str, command: list[str], seconds: float) -> None:
    """Print what a program costs once it has settled."""
    with on_a_terminal(command) as pid:
        time.sleep(SETTLE_S)
        before = cpu_s(pid)
        time.sleep(seconds)
        share = 100 * (cpu_s(pid) - before) / seconds
        print(f"{name:<8} {share:5.2f} % of a core   {resident_mb(pid):6.1f} MB")


def main() -> None:
    """Measure both."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    measure("bare", [sys.executable, "-c", BARE], min(seconds, 20.0))
    measure("console", [sys.executable, "-m", "console", "--demo"], seconds)


if __name__ == "__main__":
    main()
