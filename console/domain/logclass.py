"""What one line of a log says, judged alone. What only its neighbours can tell is logcontext's affair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from . import logpatterns
from .logline import LineClass
from .logpatterns import BENIGN, ENDED, ERROR, FATAL, LONE, PLAIN, PROGRESS, READY, WARNING, Meaning
from .logprefix import sglang_prefix

_RANKED = re.compile(r"\[rank\d+\]: ?(?=\D)")
_DATED = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?"
    r"(?: +NIXL)?(?: - [\w.]+)?[ \[-]+(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b"
)
_LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):(?: |[\w.]+:)")
_ACCESS = re.compile(r'INFO: +\S+ - "[A-Z]+ (/health)?.*" (\d)\d\d\b')
_TORCH = re.compile(r"(?:\[rank\d+\]:)?\[?([IWEF])\d{3,4} \d\d:\d\d:")
_UCX = re.compile(r"\[\d+\.\d+\] \[[^]]+\] +\S+ +UCX +([A-Z]+) ")
_CAUSE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Timeout|Interrupt|Exit)(?::|$)")
_SHELL = re.compile(
    r".*: line \d+: +\d+ (Killed|Segmentation fault|Aborted|Bus error|Terminated)\b"
    r"|\[\d+\][+-]? +(?:\d+ )?(Killed|Segmentation fault|Aborted|Bus error|Terminated)\b"
    r"|(Killed|Segmentation fault|Aborted|Bus error|Illegal instruction|Terminated)(?: \(core dumped\))?\s*$"
)
_NO_COMMAND = re.compile(
    r"\S*python[\d.]*: (?:No module named|can't open file|Error while finding module)"
    r"|.*: (?:line \d+: )?\S+: command not found$"
)
_USAGE = re.compile(r"[\w. /-]+: error: ")
_PROCESS = re.compile(r"Process \S+-\d+:$")
_NCCL = (" NCCL INFO ", " NCCL WARN ")
_OWN_MARKS = ("%|", "% Completed |", *_NCCL)
_OWN_SHAPE = re.compile(
    "|".join(known.pattern for known in (_DATED, _LEVEL, _TORCH, _UCX, _SHELL, _USAGE, _PROCESS))
    + r"|\[ *\d|\S+:\d+: \w*Warning: "
)
_HEAD = 4


REGEX_REACH = 1024
"""So much of a line an expression of the user's is asked about: its time grows with a power of the length."""


class LinePattern(NamedTuple):
    """A pattern of the user's own: a literal, and where that is not enough an expression as well."""

    line_class: LineClass
    contains: str
    regex: re.Pattern[str] | None = None

    def fits(self, text: str) -> bool:
        """The expression is asked only where the literal stands, about the first `REGEX_REACH` characters."""
        if self.contains not in text:
            return False
        return self.regex is None or self.regex.search(text, 0, REGEX_REACH) is not None


def _by_head() -> dict[str, list[tuple[str, Meaning]]]:
    heads: dict[str, list[tuple[str, Meaning]]] = {}
    for meaning, starts in logpatterns.STARTS:
        for start in starts:
            heads.setdefault(start[:_HEAD], []).append((start, meaning))
    return heads


_STARTS = _by_head()


def classify(text: str) -> LineClass:
    """The class of one printable line, judged alone."""
    return judge(text).line_class


def judge(text: str) -> Meaning:
    """What one printable line says.

    The cheap and common tests come first: a dictionary of first words, then literals, then expressions.
    """
    if not text or text.isspace():
        return BENIGN
    if text[0] == "[":
        if prefix := sglang_prefix(text):
            return _message(text[prefix.end :])
        if ranked := _RANKED.match(text):
            return _unprefixed(text[ranked.end() :])
    return _unprefixed(text)


def judge_with(patterns: Sequence[LinePattern], text: str) -> Meaning:
    """The same, but the user's own patterns come before the tables; a logged prompt stays data."""
    meaning = judge(text)
    if meaning.event != "data":
        for pattern in patterns:
            if pattern.fits(text):
                return Meaning(pattern.line_class, meaning.event or "alarm")
    return meaning


def stands_alone(text: str) -> bool:
    """Has the line a shape of its own, so that it continues nothing? Frames and advice have none."""
    return (
        sglang_prefix(text) is not None
        or _OWN_SHAPE.match(text) is not None
        or any(mark in text for mark in _OWN_MARKS)
    )


def is_cause(text: str) -> bool:
    """Is it the last line of a traceback, the one that names the exception?"""
    return _CAUSE.match(text) is not None


def _message(text: str) -> Meaning:
    if text.rstrip() == logpatterns.READY_MESSAGE:
        return READY
    if level := _LEVEL.match(text):
        return _uvicorn(text, level[1])
    return (
        _start(text)
        or (_needle(logpatterns.NCCL, text) if " NCCL " in text else None)
        or _needle(logpatterns.CONTAINS, text)
        or (WARNING if _CAUSE.match(text) else None)
        or _needle(logpatterns.HINTS, text)
        or PLAIN
    )


def _unprefixed(text: str) -> Meaning:
    if not text or text[0] == " ":
        # Frames of a traceback quote source code, which may say anything.
        return PROGRESS if "%|" in text else PLAIN
    if " NCCL " in text and any(mark in text for mark in _NCCL):
        return _needle(logpatterns.NCCL, text) or PLAIN
    if text[0] == "2" and (level := _DATED.match(text)):
        return _router(text, level[1])
    if level := _LEVEL.match(text):
        return _uvicorn(text, level[1])
    return _start(text) or _needle(logpatterns.CONTAINS, text) or _expression(text)


def _start(text: str) -> Meaning | None:
    for start, meaning in _STARTS.get(text[:_HEAD], ()):
        if text.startswith(start):
            return meaning
    return None


def _needle(needles: logpatterns.Needles, text: str) -> Meaning | None:
    for needle, meaning in needles:
        if needle in text:
            return meaning
    return None


def _uvicorn(text: str, level: str) -> Meaning:
    if access := _ACCESS.match(text):
        # A health check answers 503 for as long as the server starts; 4xx is the client's affair.
        return ERROR if access[2] == "5" and not access[1] else BENIGN
    return _needle(logpatterns.UVICORN, text) or logpatterns.LEVELS.get(level, PLAIN)


def _router(text: str, level: str) -> Meaning:
    if level in ("ERROR", "CRITICAL", "FATAL"):
        return BENIGN if all(part in text for part in logpatterns.ROUTER_NOT_READY) else ERROR
    return _needle(logpatterns.ROUTER, text) or logpatterns.LEVELS.get(level, PLAIN)


def _expression(text: str) -> Meaning:
    if shell := _SHELL.match(text):
        return BENIGN if "Terminated" in shell.groups() else ENDED
    if level := _TORCH.match(text) or _UCX.match(text):
        return logpatterns.LEVELS.get(level[1], PLAIN)
    if _CAUSE.match(text):
        return ERROR
    if _PROCESS.match(text):
        return LONE
    if _USAGE.match(text) or (("python" in text or "not found" in text) and _NO_COMMAND.match(text)):
        return FATAL
    return PLAIN
