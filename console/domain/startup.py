"""How far a server's start has come, read off its log: steps in order, and the bars inside them.

Wordings of sglang 0.5.5 to 0.5.23 (srt/model_executor/model_runner.py, srt/entrypoints/http_server.py) and of
sglang_router 0.3.2.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Phase = Literal["launching", "loading", "capturing graphs", "warming up"]

PHASES: tuple[Phase, ...] = ("launching", "loading", "capturing graphs", "warming up")

STALL_LIMIT_S: dict[Phase, float] = {
    "launching": 180.0,
    "loading": 300.0,
    "capturing graphs": 600.0,
    "warming up": 600.0,
}
"""Silence for longer is a stall. The first size of a graph, and the first request, compile kernels for
minutes without a word."""

STEPS: tuple[tuple[str, Phase, str], ...] = (
    ("Ignore import error when loading", "launching", "importing models"),
    ("Init torch distributed begin", "launching", "joining the ranks"),
    ("Init parallel begin", "launching", "joining the ranks"),
    ("Load weight begin", "loading", "weights"),
    ("Load weight end", "loading", "weights are in"),
    ("KV Cache is allocated", "loading", "KV cache"),
    ("Post-capture KV sizing", "loading", "KV cache"),
    ("Memory pool end", "loading", "KV cache is in"),
    ("Capture ", "capturing graphs", ""),
    ("INFO:     Started server process", "warming up", "HTTP server"),
    ("INFO:     Application startup complete", "warming up", "HTTP server"),
    ("INFO:     Uvicorn running on", "warming up", "first request"),
    ("Start of pd disaggregation warmup", "warming up", "first request"),
)
"""How a message begins, the phase that it opens, and what is being done then."""

_BAR = re.compile(
    r"(?P<label>[^|\r]*?): *\d+%(?: Completed)? *\|.*?(?P<done>\d+)/(?P<total>\d+)"
    r" \[(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)<"
)
_BARS: tuple[tuple[str, Phase, str], ...] = (
    ("shards", "loading", "shards"),
    ("Capturing ", "capturing graphs", "graphs"),
    ("Fetching ", "launching", "files"),
)
_WEIGHTS = re.compile(r"Load weight end\..*?elapsed=([\d.]+) s.*?mem usage=(-?[\d.]+) GB")
_CAPTURE = re.compile(
    r"Capture (?:(?P<what>[\w ]+?) )?(?:CUDA|cuda) graph (?:begin|end)\b"
    r"(?:.*?elapsed[=:] ?(?P<seconds>[\d.]+) s)?"
)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What is being done in a phase, and how much of it is done."""

    doing: str = ""
    done: int | None = None
    total: int | None = None
    unit: str = ""
    """`shards`, `graphs` or `files`."""
    seconds: float | None = None
    """By the bar's own clock, or as the server said at the end."""
    gb: float | None = None
    """Weights in GPU memory, known once they are in."""

    def __str__(self) -> str:
        """Such as `23/46 shards 62 s`, or `weights are in, 41.8 GB 85 s`."""
        amount = "" if self.total is None else f"{self.done}/{self.total} {self.unit}"
        size = "" if self.gb is None else f"{self.gb:.1f} GB"
        time = "" if self.seconds is None else f"{self.seconds:.0f} s"
        measured = " ".join(part for part in (amount, size, time) if part)
        return ", ".join(part for part in (self.doing, measured) if part)


def step(message: str) -> tuple[Phase, Progress] | None:
    """The step that a message (a line without its prefix) opens."""
    for start, phase, doing in STEPS:
        if message.startswith(start):
            return phase, _measured(message, doing)
    return None


def _measured(message: str, doing: str) -> Progress:
    if found := _WEIGHTS.match(message):
        return Progress(doing=doing, seconds=float(found[1]), gb=max(0.0, float(found[2])))
    if found := _CAPTURE.match(message):
        return Progress(
            doing=found["what"] or "", seconds=float(found["seconds"]) if found["seconds"] else None
        )
    return Progress(doing=doing)


def bar(text: str) -> tuple[Phase, Progress] | None:
    """What a progress bar tells, and the phase that it belongs to; None for a bar of something else."""
    found = _BAR.match(text)
    if found is None:
        return None
    for label, phase, unit in _BARS:
        if label in found["label"]:
            seconds = 3600 * int(found["hours"] or 0) + 60 * int(found["minutes"]) + int(found["seconds"])
            return phase, Progress(
                done=int(found["done"]), total=int(found["total"]), unit=unit, seconds=float(seconds)
            )
    return None
