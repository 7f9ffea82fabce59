"""How fast a key is answered while four logs grow, on a real pty: our LogPane, Textual's Log and RichLog.

    python tests/perf/log_panes.py [LINES_A_SECOND] [SECONDS]

Ours takes bytes and does all the work of the console on them: splitting, cleaning, classifying; then once
more with a filter and a search over each log (`finding`), and with all four shown as one by time (`merged`).
Textual's Log is given finished lines, in batches as large. A key changes one label; the time until the
terminal gets it is the latency. CPU is of one core. All share the machine with whatever else runs on it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
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
from textual.widgets import Label, Log, RichLog  # noqa: E402

from console.domain.logline import LogLine  # noqa: E402
from console.services.loglines import LineSplitter, classify  # noqa: E402
from console.ui.themes import load_themes  # noqa: E402
from console.ui.widgets.log_pane import LogPane  # noqa: E402
from console.ui.widgets.log_pattern import Pattern  # noqa: E402
from console.ui.widgets.log_rows import Source  # noqa: E402
from console.ui.widgets.merged_log import Tributary  # noqa: E402
from console.ui.widgets.merged_pane import MergedPane  # noqa: E402

PANES = 4
BATCH_S = 0.02
COLUMNS, ROWS = 160, 50
DECODE = (
    "[2026-06-17 16:24:57 TP0] Decode batch, #running-req: 16, #full token: 37120, full token usage: 0.03, "
    "#swa token: 8192, swa token usage: 0.06, cuda graph: True, gen throughput (token/s): {}.4, #queue-req: 4"
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


class FindingLog(OurLog):
    """The same with a filter and a search, which look at every line."""

    def on_mount(self) -> None:
        self.view.set_filter(self.view.shown.filter.with_typed("batch|POST").with_typed("!no such word"))
        self.view.set_search(Pattern.of("running-req: 1[0-9]"))


class TextualLog(Log):
    """The same lines, as fast as Textual takes them."""

    def __init__(self) -> None:
        super().__init__(max_lines=50_000)

    def give(self, lines: list[str]) -> None:
        self.write_lines(lines)


class TextualRichLog(RichLog):
    """The same, a line at a time, which is all that it takes."""

    def __init__(self) -> None:
        super().__init__(max_lines=50_000)

    def give(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)


LogKind = type[OurLog] | type[TextualLog] | type[TextualRichLog]


class LoadedApp(App[None]):
    """Four logs that grow, and a label that counts keys."""

    CSS = "Vertical > * { height: 1fr; border: round $border; }"
    BINDINGS = [Binding("x", "count", priority=True)]  # noqa: RUF012

    def __init__(self, kind: LogKind, rate: int, *, merged: bool = False) -> None:
        super().__init__()
        self.kind, self.rate, self.merged = kind, rate, merged
        self.keys = self.given = 0
        for theme in load_themes().themes:
            self.register_theme(theme)
        self.theme = "dsv4-dark"

    def compose(self) -> ComposeResult:
        yield Label("<0>", id="count")
        with Vertical():
            yield from (self.kind() for _ in range(PANES))
            if self.merged:
                yield MergedPane()

    def on_mount(self) -> None:
        if self.merged:
            panes = list(self.query(OurLog))
            source = Source("decode", "decode")
            self.query_one(MergedPane).join(
                {(number, 0): Tributary(pane.log_rows, source) for number, pane in enumerate(panes)}
            )
            for pane in panes:
                pane.display = False
        self.run_worker(self._load())

    def action_count(self) -> None:
        self.keys += 1
        self.query_one("#count", Label).update(f"<{self.keys}> {self.given} lines")

    async def _load(self) -> None:
        feeds = [(pane, Feed()) for pane in self.query(self.kind)]
        merged = list(self.query(MergedPane))
        due = time.monotonic()
        while self.rate:
            for pane, feed in feeds:
                pane.give(feed.lines(round(self.rate * BATCH_S / PANES)))
                for each in merged:
                    each.view.changed()
                await asyncio.sleep(0)
            self.given = sum(feed.number for _, feed in feeds)
            due = max(due + BATCH_S, time.monotonic() - 1)
            await asyncio.sleep(max(0, due - time.monotonic()))


class Result(NamedTuple):
    latencies_ms: list[float]
    timeouts: int
    cpu_pct: float
    lines_s: float

    def __str__(self) -> str:
        if not self.latencies_ms:
            return f"no key answered in time ({self.timeouts} time-outs), CPU {self.cpu_pct:.0f} %"
        p95 = sorted(self.latencies_ms)[int(len(self.latencies_ms) * 0.95)]
        return (
            f"key to frame median {statistics.median(self.latencies_ms):6.1f} ms, p95 {p95:6.1f} ms, "
            f"max {max(self.latencies_ms):6.1f} ms, {self.timeouts} time-outs, CPU {self.cpu_pct:3.0f} %, "
            f"{self.lines_s:,.0f} lines/s taken"
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
        seen = answered(ours, b"<0>", 10)
        drain(ours, 2)
        cpu, start, first = cpu_seconds(app.pid), time.monotonic(), lines_given(seen)
        latencies, timeouts, key = [], 0, 0
        while time.monotonic() - start < seconds:
            key += 1
            pressed = time.monotonic()
            os.write(ours, b"x")
            seen = answered(ours, f"<{key}>".encode(), 3) or seen
            took = time.monotonic() - pressed
            if took < 3:
                latencies.append(took * 1000)
                first = first or lines_given(seen)
            else:
                timeouts += 1
            drain(ours, max(0.0, 0.1 - took))
        elapsed = time.monotonic() - start
        cpu_pct = 100 * (cpu_seconds(app.pid) - cpu) / elapsed
        return Result(latencies, timeouts, cpu_pct, (lines_given(seen) - first) / elapsed)
    finally:
        app.kill()
        app.wait()
        os.close(ours)


def answered(terminal: int, text: bytes, seconds: float) -> bytes:
    """What the terminal gets, up to this text and a little further; empty if it does not come in time."""
    seen, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            seen = seen[-100:] + os.read(terminal, 65536)
            if text in seen:
                return seen
    return b""


def lines_given(seen: bytes) -> int:
    """The count of lines that the label shows."""
    shown = re.findall(rb"> (\d+) lines", seen)
    return int(shown[-1]) if shown else 0


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
        kinds: dict[str, LogKind] = {
            "log": TextualLog,
            "richlog": TextualRichLog,
            "finding": FindingLog,
        }
        LoadedApp(kinds.get(sys.argv[2], OurLog), int(sys.argv[3]), merged=sys.argv[2] == "merged").run()
        return
    rate = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 8.0
    ours = (("ours", 0), ("ours", rate), ("finding", rate), ("merged", rate))
    # RichLog is also given what it can take.
    theirs = (("log", rate), ("richlog", 1_000), ("richlog", rate))
    for kind, load in (*ours, *theirs):
        print(f"{kind:>8} at {load:>7,} lines/s: {measured(kind, load, seconds)}", flush=True)


if __name__ == "__main__":
    main()
