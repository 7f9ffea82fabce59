"""One line of a server's log, safe to show.

`text` holds printable characters only: control characters, escape sequences and bidirectional controls were
neutralised when the line was split (services/logs.py), so whoever draws it may trust it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

LineClass = Literal["ready", "error", "fatal", "warning", "benign", "stats", "progress", "config", "plain"]


class LogLine(NamedTuple):
    """A line: `number` counts from 1 for the tail it belongs to and never repeats."""

    number: int
    text: str
    line_class: LineClass = "plain"
