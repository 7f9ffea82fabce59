"""The operator's word on the command line: by options, or by answers on a terminal.

Whoever takes a minute to answer keeps the connection: the event loop goes on while a question stands.
"""

from __future__ import annotations

import asyncio
import sys

from console.cli.target import Target
from console.cli.wish import Wish
from console.domain.errors import UsageError
from console.domain.plan import Plan
from console.domain.plan import Target as Ended
from console.domain.printable import printable
from console.domain.run_record import Process

NOT_CONFIRMED = "not confirmed; nothing was changed"


async def consent(target: Target, plan: Plan, wish: Wish) -> tuple[Process, ...]:
    """The processes of others that may be ended. Raises UsageError where the plan as a whole may not be."""
    asks = sys.stdin.isatty() and not wish.yes
    if target.host.protected and wish.confirm != target.name:
        await _confirm_host(target.name, asks)
    if not wish.yes:
        if not asks:
            raise UsageError("nobody is there to confirm", next_step="give --yes, or look with --dry-run")
        await agree(f"{plan.title}?")
    return tuple([await _foreign(each, wish, asks) for each in plan.foreign])


async def _confirm_host(name: str, asks: bool) -> None:
    if not asks:
        raise UsageError(f"{name} is protected", next_step=f"give --confirm {name}")
    if await _answer(f"{name} is protected. Type its name to go on:") != name:
        raise UsageError("that is not its name; nothing was changed")


async def _foreign(ended: Ended, wish: Wish, asks: bool) -> Process:
    assert ended.server is not None
    pids = f"pid {ended.pids[0]}" if len(ended.pids) == 1 else f"pids {', '.join(map(str, ended.pids))}"
    told = f"{ended.name} of {ended.owner or 'another user'}, {pids}, was not launched from here"
    if ended.server[0] not in wish.end_pids:
        if not asks:
            raise UsageError(told, next_step=f"give --end {ended.server[0]} to end it")
        await agree(f"{told}. End it?")
    return ended.server


async def agree(question: str) -> None:
    """Ask on the terminal. Raises UsageError where the answer is no."""
    if (await _answer(f"{question} [y/N]")).lower() not in ("y", "yes"):
        raise UsageError(NOT_CONFIRMED)


async def _answer(question: str) -> str:
    """A line that is typed; empty at the end of input."""
    print(f"{printable(question)} ", end="", file=sys.stderr, flush=True)
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline().strip()
