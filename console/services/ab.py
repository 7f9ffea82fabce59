"""An A/B: two profiles launched and measured in turn, A B B A …, and what ran before launched again."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

import msgspec

from console.domain.bench.ab import ABEvent, ABFinding, ABResult, ABSwitch, Side, order, switches
from console.domain.bench.benching import BenchAsk, Bencher, BenchRun, BenchStopped
from console.domain.bench.comparability import changed_settings, obstacles
from console.domain.bench.comparison import compare_all
from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError, NotRunning
from console.domain.operating import Execution, Operator
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult
from console.domain.run_record import Process
from console.services.bench_target import drawn_seed

Results = dict[Side, list[BenchResult]]
SEEDS_A_REPEAT = 1000
"""More than there are concurrencies, each of which takes one."""


class _Ended(Exception):
    """The experiment cannot go on."""


class ABRun:
    """See Experiment. `consent` are servers of others that may be ended."""

    def __init__(
        self,
        bencher: Bencher,
        operator: Operator,
        profile_a: str,
        profile_b: str,
        ask: BenchAsk,
        repeats: int,
        consent: Collection[Process] = (),
    ) -> None:
        self._bencher = bencher
        self._operator = operator
        self._profiles: dict[Side, str] = {"A": profile_a, "B": profile_b}
        self._ask = msgspec.structs.replace(ask, repeats=1)
        self._seed = drawn_seed() if ask.seed is None else ask.seed
        self._repeats = repeats
        self._consent = consent
        self._under_way: Execution | BenchRun | None = None
        self._aborted = False
        self._runs: str | None = None
        self._results: Results = {"A": [], "B": []}
        self._series: dict[Side, str] = {"A": secrets.token_hex(4), "B": secrets.token_hex(4)}
        self._measured: list[Side] = []
        self._switches = 0

    def abort(self) -> str:
        """See Experiment."""
        self._aborted = True
        said = "" if self._under_way is None else f"{self._under_way.abort()}; "
        return f"{said}then what ran before is launched again"

    async def events(self) -> AsyncGenerator[ABEvent, None]:
        """See Experiment."""
        before = self._runs = self._running()
        stopped: str | None = None
        try:
            for number, side in enumerate(order(self._repeats)):
                async with aclosing(self._one(side, number // 2 + 1)) as events:
                    async for event in events:
                        yield event
        except (_Ended, ConsoleError) as reason:
            stopped = str(reason)
        restored = False
        try:
            async with aclosing(self._back(before)) as events:
                async for event in events:
                    yield event
            restored = True
        except (_Ended, ConsoleError) as reason:
            stopped = stopped or f"the way back failed: {reason}"
        yield self._result(before, stopped, restored=restored)

    def _running(self) -> str | None:
        return next((entry.name for entry in self._operator.profiles() if entry.running), None)

    async def _one(self, side: Side, repeat: int) -> AsyncGenerator[ABEvent, None]:
        if self._aborted:
            raise _Ended("aborted")
        profile = self._profiles[side]
        if self._runs != profile:
            plan = await self._operator.switch_plan(profile)
            async with aclosing(self._switch(plan, side)) as events:
                async for event in events:
                    yield event
            self._runs = profile
        async with aclosing(self._measure(side, repeat)) as measured:
            async for told in measured:
                yield told

    async def _switch(self, plan: Plan, side: Side | None) -> AsyncGenerator[ABEvent, None]:
        """Raises _Ended unless it is done."""
        self._switches += 1
        yield ABSwitch(plan=plan, side=side, number=self._switches, of=switches(self._repeats) + 1)
        execution = self._under_way = self._operator.execute(plan, self._consent)
        self._runs = None
        result: PlanResult | None = None
        async with aclosing(execution.events()) as events:
            async for event in events:
                result = event if isinstance(event, PlanResult) else result
                yield event
        self._under_way = None
        if result is None or result.state != "done":
            raise _Ended(result.sentence if result else "the switch ended without a result")

    async def _measure(self, side: Side, repeat: int) -> AsyncGenerator[ABEvent, None]:
        plan = await self._bencher.plan(self._asked(side, repeat))
        run = self._under_way = self._bencher.run(plan)
        ended: str | None = None
        async with aclosing(run.events()) as events:
            async for event in events:
                if isinstance(event, BenchResult):
                    self._results[side].append(event)
                elif isinstance(event, BenchStopped):
                    ended = event.reason
                yield event
        self._under_way = None
        self._measured.append(side)
        if ended is not None or self._aborted:
            raise _Ended(ended or "aborted")

    def _asked(self, side: Side, repeat: int) -> BenchAsk:
        """Both sides get the same prompts, and no repeat those of another: a cache would serve them."""
        return msgspec.structs.replace(
            self._ask,
            label=f"{side} {repeat}/{self._repeats}",
            series=self._series[side],
            seed=self._seed + (repeat - 1) * SEEDS_A_REPEAT,
        )

    async def _back(self, before: str | None) -> AsyncGenerator[ABEvent, None]:
        """To the profile that ran before; where none did, nothing is left running that this launched.

        Raises _Ended, ConsoleError.
        """
        if self._switches == 0 or (before is not None and self._runs == before):
            return
        plan = await (self._ending() if before is None else self._operator.switch_plan(before))
        if plan is not None:
            async with aclosing(self._switch(plan, None)) as events:
                async for event in events:
                    yield event

    async def _ending(self) -> Plan | None:
        """None where nothing is left of what was launched."""
        try:
            plan = await self._operator.stop_plan()
        except NotRunning:
            return None
        return None if plan.foreign == plan.targets else plan

    def _result(self, before: str | None, stopped: str | None, *, restored: bool) -> ABResult:
        a, b = self._results["A"], self._results["B"]
        return ABResult(
            profile_a=self._profiles["A"],
            profile_b=self._profiles["B"],
            order=tuple(self._measured),
            a=tuple(_bare(result) for result in a),
            b=tuple(_bare(result) for result in b),
            findings=_findings(a, b),
            settings=len(changed_settings(a[0].context, b[0].context)) if a and b else 0,
            before=before,
            runs_again=restored,
            stopped=stopped,
            next=None if restored else "see `dsv4-console status`, then switch to what shall run",
        )


def _bare(result: BenchResult) -> BenchResult:
    return msgspec.structs.replace(result, requests=())


def _at(results: list[BenchResult], concurrency: int) -> list[BenchResult]:
    return [result for result in results if result.context.max_concurrency == concurrency]


def _concurrencies(a: list[BenchResult], b: list[BenchResult]) -> list[int]:
    sides = ({result.context.max_concurrency for result in side} for side in (a, b))
    return sorted(set.intersection(*sides))


def _finding(concurrency: int, a: list[BenchResult], b: list[BenchResult]) -> ABFinding:
    return ABFinding(concurrency=concurrency, comparisons=compare_all(a, b), obstacles=obstacles(a, b))


def _findings(a: list[BenchResult], b: list[BenchResult]) -> tuple[ABFinding, ...]:
    return tuple(_finding(each, _at(a, each), _at(b, each)) for each in _concurrencies(a, b))
