"""What is fetched of a log on request: lines from before those that are known, and matches of a search."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec

from console.domain.logline import LineClass, LogLine

ServerKey = tuple[int, int]
"""(pid, start_ticks), as in console.domain.observation."""


class OlderLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines directly before a known one, oldest first.

    Their numbers count down from it: they are 0 and negative before the first line that was followed.
    """

    lines: tuple[LogLine, ...] = ()
    exhausted: bool = False
    """Nothing older can be had."""
    note: str | None = None
    """Why that is so, unless the log begins here."""


class HostSearch(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for in a file on the host. Each line is searched as it is shown, but whole."""

    pattern: str
    """A regular expression (re), or with `literal` a text."""
    literal: bool = False
    ignore_case: bool = False
    backwards: bool = True
    """The newest matches first."""
    max_matches: int = 1000
    """At most 1000."""


class HostMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A line found in a file on the host."""

    offset: int
    """Of its first byte."""
    size: int
    """Bytes of the whole line, its end included."""
    text: str
    """Safe to show; a part with the match in it when the line is long."""
    line_class: LineClass = "plain"


class HostMatches(msgspec.Struct, frozen=True, kw_only=True):
    """What a search has found so far, in the order in which it went through the file."""

    matches: tuple[HostMatch, ...] = ()
    searched: int = 0
    size: int = 0
    """Bytes searched, and bytes of the file when the search began."""
    done: bool = False
    complete: bool = False
    """The whole file was searched: there is no other match, unless `note` says that something was left."""
    note: str | None = None
    """What was left out, or why the search ended before its time."""


class LogSource(Protocol):
    """Where a log can be asked for what was not followed. All raise ConnectionLost."""

    async def older(self, server: ServerKey, before: int) -> OlderLines:
        """Lines directly before line number `before`."""
        ...

    def search(self, server: ServerKey, search: HostSearch) -> AsyncGenerator[HostMatches, None]:
        """What was found so far, the last one `done`. Raises UsageError for a bad pattern."""
        ...

    def cut_line(self, server: ServerKey, number: int) -> AsyncGenerator[bytes, None]:
        """The whole of a line that is shown in part, in pieces. Raises UsageError when it is not cut."""
        ...
