"""`dsv4-console logs ROLE [-f]`: a server's log on stdout, safe to look at."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import get_args

from console.cli.target import Given, Target, choose
from console.domain.errors import NotRunning, UsageError
from console.domain.logline import LineClass, LogLine
from console.domain.observation import Ended, LogUpdate, ServerKey, Servers, Update
from console.domain.server_view import ServerView

QUIET_S = 1.0
"""Without -f: the log has been read to its end when nothing came for so long."""
LOOK_S = 15.0
"""For finding the servers, once the host has answered at all."""
ALL: frozenset[str] = frozenset(get_args(LineClass))


def show_logs(given: Given, role: str, *, follow: bool, lines: int, only: frozenset[str] = ALL) -> int:
    """Print the log; returns the exit code. Raises NotRunning when there is no such server or no log of
    it."""
    asyncio.run(_Printer(choose(given), role, lines, only).run(follow=follow))
    return 0


def chosen_classes(names: str) -> frozenset[str]:
    """The classes in `error,fatal`; all of them when none is named. Raises UsageError."""
    chosen = frozenset(name.strip() for name in names.split(",") if name.strip())
    unknown = sorted(chosen - ALL)
    if unknown:
        raise UsageError(
            f"there is no class {unknown[0]!r} of log lines",
            next_step=f"take one or more of {', '.join(get_args(LineClass))}",
        )
    return chosen or ALL


class _Printer:
    """Prints the log of the server that was asked for, as it comes."""

    def __init__(self, target: Target, role: str, lines: int, only: frozenset[str]) -> None:
        self._target = target
        self._role = role
        self._lines = lines
        self._only = only
        self._server: ServerKey | None = None
        self._live: LogLine | None = None
        self._news_at = time.monotonic()

    async def run(self, *, follow: bool) -> None:
        """Print until interrupted, or without `follow` until the end of what is there."""
        printing = asyncio.create_task(self._print_updates())
        while not printing.done() and (follow or not self._is_over()):
            await asyncio.wait([printing], timeout=0.1)
        if printing.done():
            printing.result()
        printing.cancel()
        await asyncio.wait([printing])
        if self._server is None:
            raise NotRunning(f"the servers on {self._target.name} could not be listed within {LOOK_S:.0f} s")
        if self._live is not None:
            self._print_line(self._live)

    def _is_over(self) -> bool:
        return time.monotonic() - self._news_at > (LOOK_S if self._server is None else QUIET_S)

    async def _print_updates(self) -> None:
        async with aclosing(self._target.updates(log_lines=self._lines)) as updates:
            async for update in updates:
                self._take(update)

    def _take(self, update: Update) -> None:
        if isinstance(update, Ended):
            raise update.error
        if isinstance(update, Servers) and update.looked and self._server is None:
            self._server = chosen(update.views, self._role, self._target.name).process.key
            self._news_at = time.monotonic()
        if isinstance(update, LogUpdate) and update.server == self._server:
            self._news_at = time.monotonic()
            self._print(update)

    def _print(self, update: LogUpdate) -> None:
        for line in update.lines:
            self._print_line(line)
        sys.stdout.flush()
        for note in update.notes:
            print(f"dsv4-console: {note}", file=sys.stderr)
        self._live = update.live

    def _print_line(self, line: LogLine) -> None:
        if line.line_class in self._only:
            print(line.text)


def chosen(views: Sequence[ServerView], role: str, host: str) -> ServerView:
    """The server of this role, or with this port. Raises NotRunning, saying what there is instead."""
    present = [view for view in views if role in (view.process.role, str(view.process.port))]
    if not present:
        there = ", ".join(f"{view.process.role} :{view.process.port}" for view in views) or "none"
        raise NotRunning(
            f"no {role} server on {host}", cause=f"found: {there}", next_step="see `dsv4-console status`"
        )
    if len(present) > 1:
        ports = ", ".join(str(view.process.port) for view in present)
        raise NotRunning(
            f"{len(present)} {role} servers on {host}", next_step=f"name one by its port: {ports}"
        )
    if present[0].process.log.path is None:
        raise NotRunning(
            f"the {role} server's log cannot be followed",
            cause=present[0].log_note or "its stdout is no file",
        )
    return present[0]
