"""Signals while a plan is carried out for the command line."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator

import pytest

from console.cli.carrying_out import carry_out
from console.domain.plan import Plan, Step
from console.domain.plan_progress import PlanEvent, PlanResult, StepEvent

PLAN = Plan(
    verb="stop", steps=(Step(kind="stop", title="stop it", waits_for="", limit_s=9.0),), consequence=""
)


class Scripted:
    """Ends when it is aborted; or, `deaf`, never."""

    def __init__(self, signals: list[signal.Signals], *, deaf: bool = False) -> None:
        self._signals = signals
        self._deaf = deaf
        self._aborted = asyncio.Event()

    def abort(self) -> str:
        self._aborted.set()
        return "nothing was changed"

    async def events(self) -> AsyncGenerator[PlanEvent, None]:
        yield StepEvent(index=0, kind="began")
        for number in self._signals:
            os.kill(os.getpid(), number)
            await self._aborted.wait()
        if self._deaf:
            await asyncio.Event().wait()
        state = PlanResult(state="aborted" if self._signals else "done", sentence="so it ended")
        yield state


async def test_without_a_signal_it_goes_to_its_end() -> None:
    done = await carry_out(Scripted([]), PLAN)
    assert (done.result.state, done.interrupted) == ("done", False)
    assert [event.kind for event in done.told] == ["began"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_aborts_it_in_order(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    done = await asyncio.wait_for(carry_out(Scripted([number]), PLAN), 10.0)
    assert (done.result.state, done.interrupted) == ("aborted", True)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "aborting: nothing was changed (once more: leave it where it stands)"
    )


def test_a_second_one_leaves_it(capsys: pytest.CaptureFixture[str]) -> None:
    async def carried() -> None:
        await asyncio.wait_for(carry_out(Scripted([signal.SIGINT, signal.SIGTERM], deaf=True), PLAN), 10.0)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(carried())
    assert capsys.readouterr().err.splitlines()[-1] == "left where it stands"


async def test_afterwards_signals_are_as_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    await carry_out(Scripted([]), PLAN)
    assert signal.getsignal(signal.SIGTERM) == before
