"""An A/B over an operator and a bencher that are made up: what is switched and measured, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Any, cast

import msgspec
import pytest

from console.domain.bench.ab import ABResult, ABSwitch
from console.domain.bench.benching import BenchAsk, Bencher, BenchEvent, BenchPlan, BenchStopped
from console.domain.bench.result import Client
from console.domain.errors import NotRunning
from console.domain.operating import Operator, ProfileEntry
from console.domain.plan import Plan
from console.domain.plan_progress import PlanEvent, PlanResult
from console.domain.run_record import Process
from console.domain.steps import Target
from console.services.ab import ABRun
from tests.unit.bench_results import result

OWN = Target(name="single :30000", role="single", run="r1", pids=(7,))
OTHERS = Target(name="single :31000", role="single", server=(9, 9), pids=(9,))


TOO_MUCH = 64
"""A concurrency that is beyond what the client can do."""


class FakeExecution:
    def __init__(self, end: PlanResult) -> None:
        self._end = end

    async def events(self) -> AsyncGenerator[PlanEvent, None]:
        yield self._end

    def abort(self) -> str:
        return "it stops"


class FakeOperator:
    """A host on which some profiles do not start."""

    def __init__(self, running: str | None = None, broken: Collection[str] = ()) -> None:
        self.running = running
        self.broken = broken
        self.left: Sequence[Target] = ()
        """Servers that run while no profile does."""
        self.done: list[str] = []

    def profiles(self) -> tuple[ProfileEntry, ...]:
        return tuple(ProfileEntry(name=name, running=name == self.running) for name in ("old", "a", "b"))

    async def switch_plan(self, profile: str) -> Plan:
        return Plan(verb="switch", steps=(), consequence=profile)

    async def stop_plan(self) -> Plan:
        targets = (OWN,) if self.running else tuple(self.left)
        if not targets:
            raise NotRunning("no server runs on this host")
        return Plan(verb="stop", steps=(), targets=targets, consequence="stop")

    def execute(self, plan: Plan, consent: Collection[Process] = ()) -> FakeExecution:
        self.done.append(plan.consequence)
        failed = plan.consequence in self.broken
        self.running = None if failed or plan.verb == "stop" else plan.consequence
        return FakeExecution(PlanResult(state="failed" if failed else "done", sentence=plan.consequence))


class FakeRun:
    def __init__(self, plan: BenchPlan, why: str | None) -> None:
        self._plan = plan
        self._why = why

    async def events(self) -> AsyncGenerator[BenchEvent, None]:
        if self._why is not None:
            yield BenchStopped(reason=self._why)
            return
        ask = self._plan.ask
        for concurrency in ask.concurrency or (1,):
            found = result(id=f"{ask.series} {ask.label} {concurrency}", max_concurrency=concurrency)
            yield msgspec.structs.replace(found, series=ask.series, client=self._client(concurrency))

    def _client(self, concurrency: int) -> Client:
        limited = "its loop lagged" if concurrency == TOO_MUCH else None
        return msgspec.structs.replace(result().client, limited=limited)

    def abort(self) -> str:
        return "it is cut"


class FakeBencher:
    def __init__(self, why: str | None = None) -> None:
        self.asked: list[BenchAsk] = []
        self._why = why

    async def plan(self, ask: BenchAsk) -> BenchPlan:
        self.asked.append(ask)
        return BenchPlan(ask=ask, host="gpu-box", target="single :30000", url="", model="m")

    def run(self, plan: BenchPlan) -> FakeRun:
        return FakeRun(plan, self._why)


async def carried_out(
    operator: FakeOperator, bencher: FakeBencher, repeats: int = 1, **asked: Any
) -> tuple[ABResult, list[ABSwitch]]:
    run = ABRun(cast(Bencher, bencher), cast(Operator, operator), "a", "b", BenchAsk(**asked), repeats, ())
    events = [event async for event in run.events()]
    end = events[-1]
    assert isinstance(end, ABResult)
    return end, [event for event in events if isinstance(event, ABSwitch)]


async def test_each_side_in_turn_and_then_what_ran_before() -> None:
    operator, bencher = FakeOperator("old"), FakeBencher()
    end, switches = await carried_out(operator, bencher, repeats=2)
    assert operator.done == ["a", "b", "a", "old"]
    assert [(switch.number, switch.of) for switch in switches] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (end.order, end.before, end.runs_again, end.stopped) == (("A", "B", "B", "A"), "old", True, None)


async def test_the_repeats_of_a_side_are_one_series() -> None:
    bencher = FakeBencher()
    end, _ = await carried_out(FakeOperator("a"), bencher, repeats=3)
    a, b = ({each.series for each in side} for side in (end.a, end.b))
    assert (len(a), len(b), len(a | b)) == (1, 1, 2)
    assert [ask.label for ask in bencher.asked] == ["A 1/3", "B 1/3", "B 2/3", "A 2/3", "A 3/3", "B 3/3"]


@pytest.mark.parametrize("seed", [None, 7])
async def test_both_sides_get_the_same_prompts_and_each_repeat_others(seed: int | None) -> None:
    bencher = FakeBencher()
    await carried_out(FakeOperator("a"), bencher, repeats=2, seed=seed)
    first, second, third, fourth = (ask.seed for ask in bencher.asked)
    assert first == second
    assert third == fourth
    assert first != third
    assert seed in (None, first)


async def test_what_spoils_one_concurrency_is_no_obstacle_at_another() -> None:
    end, _ = await carried_out(FakeOperator(), FakeBencher(), repeats=2, concurrency=(1, TOO_MUCH))
    alone, together = end.findings
    assert (alone.concurrency, alone.obstacles, together.concurrency) == (1, (), TOO_MUCH)
    assert together.obstacles == (
        "the client may have been the limit of A: its loop lagged",
        "the client may have been the limit of B: its loop lagged",
    )
    assert alone.comparisons[0].metric == together.comparisons[0].metric == "output_throughput"
    assert not end.answered
    end, _ = await carried_out(FakeOperator(), FakeBencher(), repeats=2, concurrency=(1,))
    assert end.answered


async def test_a_profile_that_does_not_start_ends_it_and_the_old_one_comes_back() -> None:
    operator = FakeOperator("old", broken={"b"})
    end, _ = await carried_out(operator, FakeBencher())
    assert operator.done == ["a", "b", "old"]
    assert (end.stopped, end.runs_again, end.findings) == ("b", True, ())


async def test_a_way_back_that_fails_is_told() -> None:
    operator = FakeOperator("old", broken={"old"})
    end, _ = await carried_out(operator, FakeBencher())
    assert (end.stopped, end.runs_again) == ("the way back failed: old", False)
    assert end.next is not None


async def test_where_nothing_ran_nothing_is_left() -> None:
    operator = FakeOperator()
    end, _ = await carried_out(operator, FakeBencher())
    assert operator.done == ["a", "b", "stop"]
    assert (end.before, end.runs_again, end.stopped) == (None, True, None)


@pytest.mark.parametrize("left", [(), (OTHERS,)])
async def test_what_is_nobodys_of_ours_is_not_ended_on_the_way_back(left: Sequence[Target]) -> None:
    """The first switch failed, and was cleaned up; a stranger's server stood there before."""
    operator = FakeOperator(broken={"a"})
    operator.left = left
    end, _ = await carried_out(operator, FakeBencher())
    assert operator.done == ["a"]
    assert (end.runs_again, end.stopped) == (True, "a")


async def test_a_measurement_that_stops_is_the_end_of_it() -> None:
    operator = FakeOperator("a")
    end, switches = await carried_out(operator, FakeBencher("the target does not answer"))
    assert (end.stopped, end.runs_again, switches) == ("the target does not answer", True, [])
