"""What stands before the message of a line: when, and which rank.

SGLang writes `[2026-06-17 16:24:53 DP0 TP2] ` (srt/utils/common.py; milliseconds under SGLANG_LOG_MS), torch
`[rank2]: ` before each line of an uncaught exception, routers and NIXL a date without brackets.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SGLANG = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)((?: [A-Z_]+\d+)*)\](?: |$)")
_TORCH = re.compile(r"\[(rank\d+)\]: ?(?=\D)")
_DATED = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?) +")
_RANK = re.compile(r"([A-Z_]+)(\d+)")


class Prefix(NamedTuple):
    """A line's own date and ranks, each as written; the message begins at `end`."""

    stamp: str | None = None
    ranks: str = ""
    end: int = 0


NO_PREFIX = Prefix()


def sglang_prefix(text: str) -> Prefix | None:
    """The prefix of SGLang's own loggers; a process that is no rank (HTTP, detokenizer) has a date alone."""
    found = _SGLANG.match(text) if text.startswith("[2") else None
    return Prefix(found[1], found[2][1:], found.end()) if found else None


def prefix_of(text: str) -> Prefix:
    """The prefix, whoever wrote it; an unprefixed line has an empty one."""
    if own := sglang_prefix(text):
        return own
    if found := _TORCH.match(text):
        return Prefix(None, found[1], found.end())
    if found := _DATED.match(text):
        return Prefix(found[1], "", found.end())
    return NO_PREFIX


def rank_of(text: str) -> str | None:
    """`TP0`, `DP1 TP0`, torch's `rank2`; None for a line that names no rank."""
    return prefix_of(text).ranks or None


def rank_numbers(ranks: str) -> dict[str, int]:
    """`DP1 TP0` -> {"DP": 1, "TP": 0}."""
    return {name: int(number) for name, number in _RANK.findall(ranks)}
