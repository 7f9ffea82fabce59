"""One line of a server's log, safe to show.

`text` holds printable characters only: control characters, escape sequences and bidirectional controls were
neutralised when the line was split (domain/printable.py), so whoever draws it may trust it.
"""

from __future__ import annotations

import calendar
import re
from typing import Literal, NamedTuple

LineClass = Literal["ready", "error", "fatal", "warning", "benign", "stats", "progress", "config", "plain"]


class LogLine(NamedTuple):
    """A line: `number` counts from 1 for the tail it belongs to and never repeats."""

    number: int
    text: str
    line_class: LineClass = "plain"
    head: int | None = None
    """The number of the line that this one belongs to: it continues it (a frame, a cause, advice, a stack) or
    follows from it (what fails within a minute after a fatal line, the same message of another rank)."""


_STAMP = re.compile(r"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")


def line_time(text: str) -> float | None:
    """The time in SGLang's line prefix (srt/utils/common.py), in seconds since 1970 on the host's wall clock.

    The zone is not in the line. A router writes without brackets and may write UTC, so its lines give None.
    """
    found = _STAMP.match(text)
    if found is None:
        return None
    return float(calendar.timegm(tuple(int(part) for part in found.groups())))
