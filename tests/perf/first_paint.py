"""Time from the start of a process to its first text on a real pty: the console against a bare Textual app.

usage: python tests/perf/first_paint.py [RUNS]

Prints the medians of both and their ratio (the goal is at most 1.5). The two run in turn, so that a noisy
machine is noisy for both.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from statistics import median

BARE = """
from textual.app import App
from textual.widgets import Footer, Header, Tabs
class Bare(App):
    BINDINGS = [("q", "quit", "quit")]
    TITLE = "FIRST-TEXT"
    def compose(self):
        yield Header()
        yield Tabs("one", "two")
        yield Footer()
Bare().run()
"""
PROGRAMS = {
    "bare": ([sys.executable, "-c", BARE], b"FIRST-TEXT"),
    "console": ([sys.executable, "-m", "console", "--host", "local"], b"Throughput"),
}


def first_text_s(command: list[str], text: bytes) -> float:
    """Seconds until `text` is on the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TEXTUAL_THEME")
    }
    begun = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"TERM": "xterm-256color"},
        close_fds=True,
    )
    os.close(theirs)
    seen = b""
    while text not in seen and time.monotonic() - begun < 20:
        if select.select([ours], [], [], 0.5)[0]:
            seen += os.read(ours, 65536)
    taken = time.monotonic() - begun
    process.kill()
    process.wait()
    os.close(ours)
    if text not in seen:
        raise SystemExit(f"{command[:4]} never showed {text.decode()}")
    return taken


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(runs):
        for name, (command, text) in PROGRAMS.items():
            taken[name].append(first_text_s(command, text))
    for name, seconds in taken.items():
        low, middle, high = (1000 * value for value in (min(seconds), median(seconds), max(seconds)))
        print(f"{name:<8} median {middle:6.0f} ms  ({low:.0f}-{high:.0f})")
    print(f"ratio    {median(taken['console']) / median(taken['bare']):.2f}")


if __name__ == "__main__":
    main()
