"""A plan carried out for the command line, and told of line by line; Ctrl-C and SIGTERM abort it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

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
    with _aborted_by_signals(execution) as aborted:
        async with aclosing(execution.events()) as events:
            async for event in events:
                if isinstance(event, PlanResult):
                    result = event
                else:
                    told.append(event)
                    narrator.tell(event)
    assert result is not None
    return CarriedOut(result, tuple(told), aborted.is_set())


@contextmanager
def _aborted_by_signals(execution: Execution) -> Iterator[asyncio.Event]:
    loop, aborted = asyncio.get_running_loop(), asyncio.Event()

    def abort() -> None:
        aborted.set()
        say(f"aborting: {execution.abort()}")

    for number in ABORTING:
        loop.add_signal_handler(number, abort)
    try:
        yield aborted
    finally:
        for number in ABORTING:
            loop.remove_signal_handler(number)
