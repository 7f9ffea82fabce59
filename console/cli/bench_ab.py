"""`dsv4-console bench ab`: two profiles launched and measured in turn, and what that shows."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing

import msgspec

from console.cli.bench import DONE, FAILED, INTERRUPTED, settled
from console.cli.bench_compare import comparison_lines
from console.cli.bench_history import print_lines
from console.cli.bench_json import ab_line, json_line
from console.cli.bench_narrator import BenchNarrator
from console.cli.bench_report import result_lines
from console.cli.bencher import measuring
from console.cli.carrying_out import aborted_by_signals
from console.cli.consent import consent
from console.cli.narrator import Narrator, say
from console.cli.plan_text import check_lines, plan_lines
from console.cli.target import Given, choose
from console.cli.wish import Wish
from console.domain.bench.ab import (
    ABEvent,
    ABFinding,
    ABResult,
    ABSwitch,
    Experiment,
    order,
    settings_sentence,
    switches,
)
from console.domain.bench.benching import BenchAsk, BenchPhase, BenchStopped
from console.domain.bench.load import LoadRequests, LoadSecond
from console.domain.bench.result import BenchResult
from console.domain.errors import ReadOnly
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult, StepEvent
from console.domain.preflight import Check, refused
from console.services.ab import ABRun


def compare_profiles(given: Given, profile_a: str, profile_b: str, ask: BenchAsk, wish: Wish) -> int:
    """Look at both, ask, and carry it out; returns the exit code. Raises ConsoleError."""
    return asyncio.run(_compare(given, profile_a, profile_b, ask, wish))


async def _compare(given: Given, profile_a: str, profile_b: str, ask: BenchAsk, wish: Wish) -> int:
    target = choose(given)
    async with measuring(target) as (bencher, operator):
        await settled(bencher, ask)
        plans = {name: await operator.switch_plan(name) for name in dict.fromkeys((profile_a, profile_b))}
        looked = {name: await operator.check(plan) for name, plan in plans.items()}
        checks = [check for found in looked.values() for check in found]
        for line in [*_told(target.name, plans, ask), *check_lines(_once(checks))]:
            say(line)
        if (why := operator.refusal()) is not None:
            raise ReadOnly(why)
        if refused(checks):
            for name, found in looked.items():
                if refused(found):
                    await operator.note_refusal(plans[name], found)
            say("nothing was changed")
            return FAILED
        first = plans[profile_a]
        agreed = await consent(target, msgspec.structs.replace(first, verb="switch"), wish)
        run = ABRun(bencher, operator, profile_a, profile_b, ask, ask.repeats, agreed)
        return await _carried_out(operator.recorded(run), as_json=wish.as_json)


def _told(host: str, plans: Mapping[str, Plan], ask: BenchAsk) -> Iterator[str]:
    """The switches as they would be done now; what the next one ends is what this one has launched."""
    names = list(plans)
    yield f"{host}: measure A = {names[0]} against B = {names[-1]}"
    yield f"  in the order {' '.join(order(ask.repeats))}: up to {switches(ask.repeats) + 1} switches"
    yield "  each switch ends what runs, for everybody who uses it; at the end runs what runs now"
    for plan in plans.values():
        yield from plan_lines(host, plan)


def _once(checks: Sequence[Check]) -> list[Check]:
    """Without those that are said of both profiles."""
    return [check for number, check in enumerate(checks) if check not in checks[:number]]


async def _carried_out(run: Experiment, *, as_json: bool) -> int:
    teller = _Teller(as_json=as_json)
    with aborted_by_signals(run) as aborted:
        try:
            async with aclosing(run.events()) as events:
                async for event in events:
                    teller.tell(event)
        finally:
            teller.narrator.clear()
    if aborted.is_set():
        return INTERRUPTED
    end = teller.end
    return DONE if end is not None and end.answered else FAILED


class _Teller:
    """Tells switches and measurements on stderr, results on stdout as they come."""

    def __init__(self, *, as_json: bool) -> None:
        self.narrator = BenchNarrator()
        self.end: ABResult | None = None
        self._as_json = as_json
        self._steps: Narrator | None = None

    def tell(self, event: ABEvent) -> None:
        """Whatever it is."""
        if not isinstance(event, LoadSecond | LoadRequests | BenchPhase):
            self.narrator.clear()
        match event:
            case ABSwitch():
                self._begin(event)
            case StepEvent() if self._steps is not None:
                self._steps.tell(event)
            case PlanResult():
                say(event.sentence)
            case BenchResult():
                self._print(event)
            case BenchStopped():
                say(f"stopped: {event.reason}")
            case ABResult():
                self.end = event
                self._print(event)
            case BenchPhase() | LoadSecond() | LoadRequests():
                self.narrator.tell(event)

    def _begin(self, switch: ABSwitch) -> None:
        self._steps = Narrator(switch.plan)
        say(f"{switch.number}/{switch.of} {_switch_to(switch.plan, switch.side)}")

    def _print(self, told: BenchResult | ABResult) -> None:
        if isinstance(told, BenchResult):
            sys.stdout.write(json_line(told)) if self._as_json else print_lines([*result_lines(told), ""])
        elif self._as_json:
            sys.stdout.write(ab_line(told))
        else:
            print_lines(ab_lines(told))
        sys.stdout.flush()


def _switch_to(plan: Plan, side: str | None) -> str:
    return f"back: {plan.title}" if side is None else f"{side}: {plan.title}"


def ab_lines(result: ABResult) -> Iterator[str]:
    """The end of an A/B: the comparison at each concurrency, what it may be put down to, what runs now."""
    yield f"A = {result.profile_a}, B = {result.profile_b}, measured {' '.join(result.order) or 'never'}"
    if result.stopped:
        yield f"It ended before its time: {result.stopped}"
    for found in result.findings:
        yield f"C={found.concurrency}"
        yield from (f"  {line}" for line in _finding_lines(found))
    if result.findings:
        yield _sentence(settings_sentence(result.settings))
    else:
        yield "There is nothing to compare."
    yield _sentence(_now_runs(result))
    if result.next:
        yield f"Next: {result.next}"


def _finding_lines(found: ABFinding) -> Iterator[str]:
    yield from comparison_lines(found.comparisons, verdict=not found.obstacles)
    yield from (f"not comparable: {obstacle}" for obstacle in found.obstacles)


def _now_runs(result: ABResult) -> str:
    if result.before is None:
        return "no profile of the console's ran before" + (", and none runs now" if result.runs_again else "")
    return f"what ran before, {result.before}, {'runs again' if result.runs_again else 'DOES NOT RUN NOW'}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
