"""Blocking calls that nobody need wait for: a name that does not resolve, a dead home folder."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_background(call: Callable[[], T]) -> T:
    """Run a blocking call in a daemon thread of its own and give back its result or raise its error.

    asyncio's own executor is joined when the loop ends, so a name server that hangs would keep the console
    from quitting. A daemon thread is left behind instead.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def succeed(result: T) -> None:
        if not outcome.done():
            outcome.set_result(result)

    def fail(error: Exception) -> None:
        if not outcome.done():
            outcome.set_exception(error)

    def work() -> None:
        # The loop may be gone by the time the call returns.
        with contextlib.suppress(RuntimeError):
            try:
                result = call()
            except Exception as error:  # whatever it is, it belongs to the one who waits
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(succeed, result)

    threading.Thread(target=work, name=f"background {call!r}", daemon=True).start()
    return await outcome
