"""From the bytes of a log to lines that are safe to show, each with its class.

`LineSplitter` turns bytes, cut anywhere, into lines of printable text. `classify` tells from one line alone
what it is; what only its neighbours can tell (frames of a traceback, advice below an error) stays plain.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import NamedTuple

from console.domain.logline import LineClass
from console.services import logpatterns

LINE_LIMIT = 4096
"""Characters of a line that are kept; the rest is counted and skipped."""

_KEPT_BYTES = 4 * LINE_LIMIT  # enough for LINE_LIMIT characters of UTF-8

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erase
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM
    r"|\x1b[ -/]*[0-~]"  # the rest of ECMA-35
)
_GLUED = re.compile(r"(?<=(?:it/s|s/it)\]) *(?=\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


class Split(NamedTuple):
    """What one piece of a log gave: the lines it completed, and the unfinished one at its end."""

    lines: list[str]
    live: str | None
    """Replaces the previous `live`, which is a part of `lines` or of this one by now."""


class LineSplitter:
    """Splits one log. A carriage return starts the line anew, so a progress bar is one line that changes.

    Every byte that is not UTF-8 becomes U+FFFD. Escape sequences, bidirectional controls and other characters
    without a glyph are dropped, control characters shown as their pictures (U+2400-2421), tabs expanded.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skipped = 0
        self._returned = False  # a carriage return stands at the end: what comes next replaces the line

    def feed(self, data: bytes) -> Split:
        """Takes the next bytes, however many and wherever they were cut."""
        first, newline, rest = data.partition(b"\n")
        self._append(first)
        if not newline:
            return Split([], self._live())
        lines = self._take()
        whole, newline, tail = rest.rpartition(b"\n")
        if newline:
            lines += _lines(whole)
        self._append(tail)
        return Split(lines, self._live())

    def end(self) -> list[str]:
        """The log ended, or another file took its place: what was unfinished is a line now."""
        return self._take() if self._pending else []

    def _append(self, data: bytes) -> None:
        visible = data.rstrip(b"\r")
        start = visible.rfind(b"\r") + 1
        if start or (visible and self._returned):
            self._forget()
        self._returned = visible != data if visible else self._returned or bool(data)
        room = start + _KEPT_BYTES - len(self._pending)
        self._pending += visible[start:room]
        self._skipped += max(0, len(visible) - room)

    def _forget(self) -> None:
        self._pending.clear()
        self._skipped = 0
        self._returned = False

    def _take(self) -> list[str]:
        lines = [_clean(part, self._skipped) for part in _unglue(self._pending.decode("utf-8", "replace"))]
        self._forget()
        return lines

    def _live(self) -> str | None:
        if not self._pending:
            return None
        # An incremental decoder holds back a character whose last bytes are still to come.
        raw = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._pending))
        return _clean(raw, self._skipped)


def _lines(block: bytes) -> list[str]:
    """The hot path: nine lines in ten are short printable ASCII and pass three cheap tests."""
    lines: list[str] = []
    for raw in block.decode("utf-8", "replace").split("\n"):
        if raw.isascii() and raw.isprintable() and len(raw) <= LINE_LIMIT:
            lines.append(raw)
        else:
            lines += [_clean(part, 0) for part in _unglue(raw)]
    return lines


def _unglue(raw: str) -> list[str]:
    """Parts a bar from the log line that another rank printed behind it, where no newline stands between."""
    last = raw.rstrip("\r").rpartition("\r")[2] if "\r" in raw else raw
    if "/s]" in last or "/it]" in last:
        return _GLUED.sub("\n", last).split("\n")
    return [last]


def _clean(text: str, skipped: int) -> str:
    if len(text) > LINE_LIMIT:
        skipped += len(text[LINE_LIMIT:].encode())
        text = text[:LINE_LIMIT]
    if not (text.isascii() and text.isprintable()):
        text = _SEQUENCE.sub("", text).expandtabs().translate(_GLYPHS)
    return f"{text} … +{_size(skipped)}" if skipped else text


class _Glyphs(dict[int, str]):
    """What stands for a character on the screen; filled as characters are met."""

    def __missing__(self, codepoint: int) -> str:
        glyph = self[codepoint] = _glyph(chr(codepoint))
        return glyph


_GLYPHS = _Glyphs()


def _glyph(char: str) -> str:
    if char == "\u3000":
        return "  "
    # Variation selectors make terminals disagree about the width of the character before them.
    if "\ufe00" <= char <= "\ufe0f":
        return ""
    if char.isprintable():
        return char
    match unicodedata.category(char):
        case "Cc" if char < " ":
            return chr(0x2400 + ord(char))
        case "Cc":
            return "\u2421" if char == "\x7f" else "\ufffd"
        case "Cf":
            return ""
        case "Zs":
            return " "
    return "\ufffd"


def _size(count: int) -> str:
    """Bytes in decimal units, rounded down."""
    if count < 1000:
        return f"{count} B"
    return f"{count // 1000} kB" if count < 1_000_000 else f"{count // 10_000 / 100:.2f} MB"


_PREFIX = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [A-Z_]+\d+)*\] ")
_DATED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +(?:NIXL +)?([A-Z]+) ")
_UVICORN = re.compile(r"(INFO|WARNING|ERROR|CRITICAL): +")
_ACCESS = re.compile(r'INFO: +\S+ - "[A-Z]+ (/health)?.*" (\d)\d\d\b')
_TORCH = re.compile(r"(?:\[rank\d+\]:\[)?([WEF])\d{3,4} \d\d:\d\d:")
_CAUSE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Timeout)(?::|$)")
_SHELL = re.compile(r".*: line \d+: +\d+ (Killed|Segmentation fault|Aborted|Terminated)\b")
_HEAD = 4


def _by_head() -> dict[str, list[tuple[str, LineClass]]]:
    heads: dict[str, list[tuple[str, LineClass]]] = {}
    for line_class, starts in logpatterns.STARTS:
        for start in starts:
            heads.setdefault(start[:_HEAD], []).append((start, line_class))
    return heads


_STARTS = _by_head()


def classify(text: str) -> LineClass:
    """The class of one line of a `Split`, judged alone.

    The cheap and common tests come first: a dictionary of first words, then literals, then expressions.
    """
    if not text or text.isspace():
        return "benign"
    if text[0] == "[" and (prefix := _PREFIX.match(text)):
        return _message(text[prefix.end() :])
    return _unprefixed(text)


def _message(text: str) -> LineClass:
    if text.rstrip() == logpatterns.READY:
        return "ready"
    if level := _UVICORN.match(text):
        return _uvicorn(text, level[1])
    return _start(text) or _needle(logpatterns.CONTAINS, text) or "plain"


def _unprefixed(text: str) -> LineClass:
    if text[0] == " ":
        # Frames of a traceback quote source code, which may say anything.
        return "progress" if "%|" in text else "plain"
    if " NCCL INFO " in text or " NCCL WARN " in text:
        return _needle(logpatterns.NCCL, text) or "plain"
    if level := _DATED.match(text):
        return _router(text, level[1])
    if level := _UVICORN.match(text):
        return _uvicorn(text, level[1])
    return _start(text) or _needle(logpatterns.CONTAINS, text) or _expression(text)


def _start(text: str) -> LineClass | None:
    for start, line_class in _STARTS.get(text[:_HEAD], ()):
        if text.startswith(start):
            return line_class
    return None


def _needle(needles: logpatterns.Needles, text: str) -> LineClass | None:
    for needle, line_class in needles:
        if needle in text:
            return line_class
    return None


def _uvicorn(text: str, level: str) -> LineClass:
    if access := _ACCESS.match(text):
        # A health check answers 503 for as long as the server starts; 4xx is the client's affair.
        return "error" if access[2] == "5" and not access[1] else "benign"
    return _needle(logpatterns.UVICORN, text) or logpatterns.LEVELS.get(level, "plain")


def _router(text: str, level: str) -> LineClass:
    if level == "ERROR":
        return "error"
    return _needle(logpatterns.ROUTER, text) or logpatterns.LEVELS.get(level, "plain")


def _expression(text: str) -> LineClass:
    if text.rstrip() == "Killed":
        return "fatal"
    if ": line " in text and (shell := _SHELL.match(text)):
        return "benign" if shell[1] == "Terminated" else "fatal"
    if level := _TORCH.match(text):
        return logpatterns.LEVELS[level[1]]
    return "error" if _CAUSE.match(text) else "plain"
