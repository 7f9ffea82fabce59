"""A logged request that goes on over several lines: whatever they say is text of users, not of the server.

SGLang prints requests as Python literals (srt/utils/request_logger.py), so one is over when its quotes and
brackets are. A line inside that looks like the server's own is doubtful: if the end of the request does not
come soon, it never will, and those lines were the server's after all.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .logline import LogLine
from .logpatterns import Meaning
from .logprefix import sglang_prefix

DOUBTFUL_LINES = 16
"""So many lines after the first doubtful one, the request is given up."""

_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_CLOSED = re.compile(r"['\"][)\]}]+$")
_BRACKETS = (")", "]", "}")
_TAIL = 64


class Taken(NamedTuple):
    """A line as it was given out, and what it would mean by itself."""

    line: LogLine
    meaning: Meaning


class Prompt:
    """An open request; `doubtful` are the lines that may be the server's own, in order."""

    def __init__(self, head: LogLine, quote: str) -> None:
        prefix = sglang_prefix(head.text)
        self.number = head.number
        self.doubtful: list[Taken] = []
        self.given_up = False
        """Its end would have come by now."""
        self._quote = quote
        self._stamp = prefix.stamp if prefix else None

    def takes_last(self, line: LogLine, meaning: Meaning, end: str | None) -> bool:
        """One more line; is it the last?"""
        is_doubtful = self._is_doubtful(line.text)
        # Another request has begun, so this one will not end.
        self.given_up = meaning.event == "data" and is_doubtful
        if not self.given_up and self._closes((end or line.text).rstrip()):
            return True
        if self.doubtful or is_doubtful:
            self.doubtful.append(Taken(line, meaning))
        self.given_up |= len(self.doubtful) >= DOUBTFUL_LINES
        return False

    def _closes(self, text: str) -> bool:
        if not text.endswith(_BRACKETS):
            return False
        quote = self._quote
        return not quote or f"{quote}," in text or any(f"{quote}{bracket}" in text for bracket in _BRACKETS)

    def _is_doubtful(self, text: str) -> bool:
        """A pasted log is older than the request that it stands in."""
        prefix = sglang_prefix(text)
        return prefix is not None and (prefix.stamp or "") >= (self._stamp or "")


def opened(head: LogLine, end: str | None) -> Prompt | None:
    """The request that this line begins and does not end; `end` is the line's true end where it was cut."""
    text = (end or head.text).rstrip()
    if _CLOSED.search(text[-_TAIL:]):
        return None
    rest = "" if end is not None else _STRING.sub("", text)
    quote = next((char for char in rest if char in "'\""), "")
    return Prompt(head, quote) if quote or not text.endswith(_BRACKETS) else None
