"""How fast a key is answered while four logs grow: our LogPane beside Textual's Log, in one run, on a real pty.

    python tests/perf/log_panes.py [LINES_A_SECOND] [SECONDS]

Ours takes bytes and does all the work of the console on them: splitting, cleaning, classifying. Textual's Log is
given finished lines, in batches as large. A key press changes one label; the time until the terminal gets it is
the latency. CPU is of one core.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from textual.app import App, ComposeResult  # noqa: E402
from textual.binding import Binding  # noqa: E402
from textual.containers import Vertical  # noqa: E402
from textual.widgets import Label, Log  # noqa: E402

from console.domain.logline import LogLine  # noqa: E402
from console.services.loglines import LineSplitter, classify  # noqa: E402
from console.ui.themes import load_themes  # noqa: E402
from console.ui.widgets.log_pane import LogPane  # noqa: E402

PANES = 4
BATCH_S = 0.02
COLUMNS, ROWS = 160, 50
DECODE = (
    "[2026-06-17 16:24:57 TP0] Decode batch, #running-req: 16, #full token: 37120, full token usage: 0.03, "
    "#swa token: 8192, swa token usage: 0.06, cuda graph: True, gen throughput (token/s): {}.40, #queue-req: 4"
)
ACCESS = '[2026-06-17 16:24:57] INFO:     127.0.0.1:{} - "POST /v1/completions HTTP/1.1" 200 OK'


class Feed:
    """The log of one server, mixed as a serving one is, with an error now and then."""

    def __init__(self) -> None:
        self.number = 0

    def lines(self, count: int) -> list[str]:
        start, self.number = self.number, self.number + count
        return [self._line(number) for number in range(start, self.number)]

    def _line(self, number: int) -> str:
        if number % 5000 == 0:
            return f"[2026-06-17 16:24:57 TP0] Health check failed. {number}"
        return DECODE.format(number) if number % 5 < 3 else ACCESS.format(number)


class OurLog(LogPane):
    """Everything from bytes to the pane."""

    def __init__(self) -> None:
        super().__init__("decode :30001", role="decode")
        self._splitter = LineSplitter()
        self._number = 0

    def give(self, lines: list[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        taken = [LogLine(n, text, classify(text)) for n, text in enumerate(self._splitter.feed(data).lines)]
        self.extend(taken)


class TextualLog(Log):
    """The same lines, as fast as Textual takes them."""

    def __init__(self) -> None:
        super().__init__(max_lines=50_000)

    def give(self, lines: list[str]) -> None:
        self.write_lines(lines)


class LoadedApp(App[None]):
    """Four logs that grow, and a label that counts keys."""

    CSS = "Vertical > * { height: 1fr; border: round $border; }"
    BINDINGS = [Binding("x", "count", priority=True)]  # noqa: RUF012

    def __init__(self, kind: type[OurLog] | type[TextualLog], rate: int) -> None:
        super().__init__()
        self.kind, self.rate, self.keys = kind, rate, 0
        for theme in load_themes().themes:
            self.register_theme(theme)
        self.theme = "dsv4-dark"

    def compose(self) -> ComposeResult:
        yield Label("<0>", id="count")
        with Vertical():
            yield from (self.kind() for _ in range(PANES))

    def on_mount(self) -> None:
        self.run_worker(self._load())

    def action_count(self) -> None:
        self.keys += 1
        self.query_one("#count", Label).update(f"<{self.keys}>")

    async def _load(self) -> None:
        feeds = [(pane, Feed()) for pane in self.query(self.kind)]
        due = time.monotonic()
        while True:
            for pane, feed in feeds:
                pane.give(feed.lines(round(self.rate * BATCH_S / PANES)))
                await asyncio.sleep(0)
            due = max(due + BATCH_S, time.monotonic() - 1)
            await asyncio.sleep(max(0, due - time.monotonic()))


class Result(NamedTuple):
    latencies_ms: list[float]
    timeouts: int
    cpu_pct: float

    def __str__(self) -> str:
        if not self.latencies_ms:
            return f"no key answered ({self.timeouts} time-outs), CPU {self.cpu_pct:.0f} %"
        p95 = sorted(self.latencies_ms)[int(len(self.latencies_ms) * 0.95)]
        return (
            f"key to frame median {statistics.median(self.latencies_ms):6.1f} ms, p95 {p95:6.1f} ms, "
            f"max {max(self.latencies_ms):6.1f} ms, {self.timeouts} time-outs, CPU {self.cpu_pct:3.0f} %"
        )


def measured(kind: str, rate: int, seconds: float) -> Result:
    """One app on a pty of its own, pressed a key ten times a second."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    app = subprocess.Popen(
        [sys.executable, __file__, "--app", kind, str(rate)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
    )
    os.close(theirs)
    try:
        answered(ours, b"<0>", 10)
        drain(ours, 2)
        cpu, start = cpu_seconds(app.pid), time.monotonic()
        latencies, timeouts, key = [], 0, 0
        while time.monotonic() - start < seconds:
            key += 1
            pressed = time.monotonic()
            os.write(ours, b"x")
            if answered(ours, f"<{key}>".encode(), 3):
                latencies.append((time.monotonic() - pressed) * 1000)
            else:
                timeouts += 1
            drain(ours, max(0.0, 0.1 - (time.monotonic() - pressed)))
        used = cpu_seconds(app.pid) - cpu
        return Result(latencies, timeouts, 100 * used / (time.monotonic() - start))
    finally:
        app.kill()
        app.wait()
        os.close(ours)


def answered(terminal: int, text: bytes, seconds: float) -> bool:
    """Whether the terminal gets this text in time."""
    seen, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            seen = seen[-len(text) :] + os.read(terminal, 65536)
            if text in seen:
                return True
    return False


def drain(terminal: int, seconds: float) -> None:
    """Reads as a terminal does while nobody types."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            os.read(terminal, 65536)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    if sys.argv[1:2] == ["--app"]:
        LoadedApp({"ours": OurLog, "textual": TextualLog}[sys.argv[2]], int(sys.argv[3])).run()
        return
    rate = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 8.0
    for kind, load in (("ours", 0), ("ours", rate), ("textual", rate)):
        print(f"{kind:>8} at {load:>7,} lines/s: {measured(kind, load, seconds)}", flush=True)


if __name__ == "__main__":
    main()
