"""The server's log, in SGLang's shape: a time and, for a rank's line, the rank; no level, no logger name."""

from __future__ import annotations

import os
import time
from contextlib import suppress

_STDERR = 2


class ServerLog:
    """Writes to stderr. Lines are whole: each is one write."""

    def __init__(self, tp_size: int) -> None:
        self._ranked = tp_size > 1

    def line(self, text: str, rank: int | None = None) -> None:
        """A line of the main process, or of a rank's scheduler; a single rank is not named."""
        token = f" TP{rank}" if rank is not None and self._ranked else ""
        self.raw(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{token}] {text}\n")

    def uvicorn(self, level: str, text: str) -> None:
        """A line of the HTTP server's own logger."""
        self.line(f"{level + ':':<9} {text}")

    def raw(self, text: str) -> None:
        """Bytes as they are: progress bars, tracebacks. A log that cannot be written stops no server."""
        with suppress(OSError):
            os.write(_STDERR, text.encode())


def progress_bar(label: str, done: int, total: int, elapsed_s: float, width: int = 10) -> str:
    """A bar as tqdm draws it on a terminal-less stderr, without its line end."""
    eighths = done * width * 8 // total
    bar = "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")
    return (
        f"{label}: {100 * done / total:3.0f}%|{bar:<{width}}| {done}/{total} {timing(done, total, elapsed_s)}"
    )


def timing(done: int, total: int, elapsed_s: float) -> str:
    """tqdm's `[elapsed<remaining, rate]`."""
    if not done or elapsed_s <= 0:
        return f"[{_minutes(elapsed_s)}<?, ?it/s]"
    each = elapsed_s / done
    rate = f"{1 / each:5.2f}it/s" if each < 1 else f"{each:5.2f}s/it"
    return f"[{_minutes(elapsed_s)}<{_minutes(each * (total - done))}, {rate}]"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
