"""A plan carried out for the command line, and told of line by line.

Ctrl-C or SIGTERM aborts it in order. A second one leaves it where it stands, as when the host stays away.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Protocol

import msgspec

from console.cli.narrator import Narrator, say
from console.domain.operating import Execution
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult, StepEvent

ABORTING = (signal.SIGINT, signal.SIGTERM)


class CarriedOut(msgspec.Struct, frozen=True):
    """How it went."""

    result: PlanResult
    told: tuple[StepEvent, ...]
    interrupted: bool


async def carry_out(execution: Execution, plan: Plan) -> CarriedOut:
    """To its end, or where a signal has it end. Raises HostError, Locked."""
    narrator = Narrator(plan)
    told: list[StepEvent] = []
    result: PlanResult | None = None
    with aborted_by_signals(execution) as aborted:
        async with aclosing(execution.events()) as events:
            async for event in events:
                if isinstance(event, PlanResult):
                    result = event
                else:
                    told.append(event)
                    narrator.tell(event)
    assert result is not None
    return CarriedOut(result, tuple(told), aborted.is_set())


class Abortable(Protocol):
    """What can be asked to end."""

    def abort(self) -> str:
        """Ask it; what that will lead to, in a sentence."""
        ...


@contextmanager
def aborted_by_signals(running: Abortable) -> Iterator[asyncio.Event]:
    """Ctrl-C and SIGTERM ask it to end, and set the event; a second one raises KeyboardInterrupt."""
    loop, aborted = asyncio.get_running_loop(), asyncio.Event()

    def abort() -> None:
        if aborted.is_set():
            say("left where it stands")
            raise KeyboardInterrupt
        aborted.set()
        say(f"aborting: {running.abort()} (once more: leave it where it stands)")

    for number in ABORTING:
        loop.add_signal_handler(number, abort)
    try:
        yield aborted
    finally:
        for number in ABORTING:
            loop.remove_signal_handler(number)
