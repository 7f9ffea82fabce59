"""What a log of 50,000 lines takes in memory, and what it takes one million lines later.

    python tests/perf/log_memory.py

Lines are those of a serving decode server, 180 and 220 characters long; then every one as long as a line can
be kept, and of wide characters. Measured is what Python allocates for them (tracemalloc), and the resident
memory of the process. A filter that half the lines pass and a search that matches them all are on too.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from console.domain.logline import LogLine
from console.ui.widgets.log_buffer import LogBuffer
from console.ui.widgets.log_pattern import Pattern
from console.ui.widgets.log_rows import ROW_LIMIT, Source
from console.ui.widgets.log_shown import ShownLog
from console.ui.widgets.merged_log import MergedLog, Tributary

BATCH = 500
LATER = 1_000_000
LIMIT_MB = 20.0

ACCESS = '[2026-06-17 16:24:57 TP0] INFO:     127.0.0.1:{:05} - "POST /v1/completions HTTP/1.1" 200 OK'
DECODE = (
    "[2026-06-17 16:24:57 TP0] Decode batch, #running-req: 16, #full token: {:05}, full token usage: 0.03, "
    "#swa token: 8192, swa token usage: 0.06, cuda graph: True, gen throughput (token/s): 1048.4, #queue: 4"
)


def serving(number: int) -> str:
    """Three batch lines for two requests: 180 characters a line."""
    return (DECODE if number % 5 < 3 else ACCESS).format(number % 100_000)


def batches(number: int) -> str:
    """Batch lines alone: 220 characters."""
    return DECODE.format(number % 100_000)


def hostile(number: int) -> str:
    """As long as a line is kept, and of characters that take two bytes."""
    return f"{number} " + "価" * 4090


class Filled:
    """A log, and all that is held for it on the screen."""

    def __init__(self, line: Callable[[int], str]) -> None:
        self._line = line
        self.buffer = LogBuffer()
        self.shown = ShownLog(self.buffer)
        self.shown.set_filter(self.shown.filter.with_typed("[02468] |[02468],"))
        self.shown.set_search(Pattern.of("."))

    def add(self, count: int) -> None:
        for start in range(0, count, BATCH):
            first = self.buffer.added + 1
            self.buffer.extend(
                [LogLine(n, self._line(n)) for n in range(first, first + min(BATCH, count - start))]
            )
            self.shown.look(slice_s=60.0)


def allocated_mb() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1e6


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def measure(name: str, line: Callable[[int], str], later: int) -> bool:
    """Print what one log takes, and later; returns whether it stays in its bounds."""
    before, resident = allocated_mb(), resident_mb()
    log = Filled(line)
    log.add(ROW_LIMIT)
    full = allocated_mb() - before
    start = time.process_time()
    log.add(later)
    spent = time.process_time() - start
    grown = allocated_mb() - before
    print(
        f"{name:>9}: {len(log.buffer):>6,} lines {full:5.1f} MB, {later:>9,} lines later {grown:5.1f} MB"
        f" (resident +{resident_mb() - resident:.0f} MB, {1e6 * spent / later:.1f} µs a line)"
    )
    return max(full, grown) <= LIMIT_MB and grown - full < 1.0


def measure_merged() -> bool:
    """The log of all servers shares its texts with theirs: print what it takes besides."""
    log = LogBuffer()
    log.extend([LogLine(n, serving(n)) for n in range(1, ROW_LIMIT + 1)])
    before = allocated_mb()
    merged = MergedLog()
    merged.join({(1, 1): Tributary(log, Source("decode", "decode"))})
    merged.catch_up(time.monotonic() + 60)
    besides = allocated_mb() - before
    print(f"   merged: {len(merged):>6,} lines {besides:5.1f} MB besides")
    return besides <= LIMIT_MB / 4


def main() -> None:
    tracemalloc.start()
    held = [
        measure("serving", serving, LATER),
        measure("batches", batches, LATER // 10),
        measure("hostile", hostile, LATER // 50),
        measure_merged(),
    ]
    sys.exit(0 if all(held) else f"more than {LIMIT_MB:.0f} MB, or it grows")


if __name__ == "__main__":
    main()
