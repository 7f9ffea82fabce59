"""`dsv4-console bench` and `bench sweep`: a plan, its consent, the measurement, results as they come."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress

import msgspec

from console.cli.bench_chart import chart_lines
from console.cli.bench_json import json_line
from console.cli.bench_narrator import BenchNarrator
from console.cli.bench_report import plan_lines, result_lines
from console.cli.bench_standing import Earlier
from console.cli.bencher import measuring
from console.cli.carrying_out import aborted_by_signals
from console.cli.consent import agree
from console.cli.narrator import say
from console.cli.target import Given, choose
from console.domain.bench.benching import BenchAsk, Bencher, BenchPlan, BenchRun, BenchStopped
from console.domain.bench.result import BenchResult
from console.domain.errors import NotReady, NotRunning, ReadOnly, UsageError
from console.domain.operating import ProfileEntry
from console.domain.printable import printable

DONE, FAILED, INTERRUPTED = 0, 1, 130
STARTING_S = 60.0


class BenchWish(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says beside what is to be measured."""

    yes: bool = False
    as_json: bool = False
    chart: bool = False


def measure(given: Given, ask: BenchAsk, wish: BenchWish) -> int:
    """Make the plan, ask, measure; returns the exit code. Raises ConsoleError."""
    return asyncio.run(_measure(given, ask, wish))


async def _measure(given: Given, ask: BenchAsk, wish: BenchWish) -> int:
    async with measuring(choose(given)) as (bencher, operator):
        plan = await _planned(bencher, ask)
        for line in plan_lines(plan):
            say(line)
        if (why := bencher.refusal()) is not None:
            raise ReadOnly(why)
        await consent_to_load(f"Measure {plan.target}?", yes=wish.yes)
        earlier = Earlier(
            bencher,
            await bencher.history(host=plan.host, profile=plan.profile),
            _targets(operator.profiles(), plan.profile),
        )
        return await _carried_out(bencher, plan, earlier, wish)


def _targets(entries: Iterable[ProfileEntry], name: str | None) -> dict[int, float]:
    """Tokens per second that a profile wants, by concurrency."""
    profiles = (entry.profile for entry in entries if entry.name == name)
    return next((profile.bench.targets for profile in profiles if profile is not None), {})


async def consent_to_load(question: str, *, yes: bool) -> None:
    """A benchmark loads a server that others use. Raises UsageError where nobody agrees to that."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "a benchmark loads a server that others may use, and nobody is there to confirm",
            next_step="give --yes",
        )
    await agree(question)


async def _planned(bencher: Bencher, ask: BenchAsk) -> BenchPlan:
    """The plan; a server on its way up is waited for. Raises NotReady when it does not come."""
    end_at = time.monotonic() + STARTING_S
    told = ""
    while True:
        try:
            return await bencher.plan(ask)
        except NotReady as unready:
            if time.monotonic() > end_at:
                raise
            if unready.what.partition(":")[0] != told:
                told = unready.what.partition(":")[0]
                say(f"{told}; waiting, {STARTING_S:.0f} s at most")
            await asyncio.sleep(0.5)


async def settled(bencher: Bencher, ask: BenchAsk) -> None:
    """Wait for what is on its way up: before that it can be neither measured nor taken for what ran before.

    Raises UsageError for a shape that cannot be measured.
    """
    with suppress(NotRunning):
        await _planned(bencher, ask)


async def _carried_out(bencher: Bencher, plan: BenchPlan, earlier: Earlier, wish: BenchWish) -> int:
    run = bencher.run(plan)
    with aborted_by_signals(run) as aborted:
        results, stopped = await _measured(run, earlier, wish)
    if not wish.as_json:
        _print([*(chart_lines(results) if wish.chart else ()), *(earlier.references() if results else ())])
    if stopped is not None:
        say(f"stopped: {stopped.reason}" + (f". Next: {stopped.next}" if stopped.next else ""))
    if aborted.is_set():
        return INTERRUPTED
    limited = plan.ask.total_limit_s is not None
    return DONE if stopped is None and are_whole(results, limited=limited) else FAILED


def are_whole(results: Sequence[BenchResult], *, limited: bool) -> bool:
    """Is there at least one, and did each come to its end, or to the limit that was given?"""
    ended = (result.figures.completed and (limited or result.partial is None) for result in results)
    return bool(results) and all(ended)


async def _measured(
    run: BenchRun, earlier: Earlier, wish: BenchWish
) -> tuple[list[BenchResult], BenchStopped | None]:
    """To its end, each result printed as it comes: what follows may still be lost."""
    narrator, results, stopped = BenchNarrator(), list[BenchResult](), None
    try:
        async with aclosing(run.events()) as events:
            async for event in events:
                narrator.tell(event)
                if isinstance(event, BenchStopped):
                    stopped = event
                elif isinstance(event, BenchResult):
                    results.append(event)
                    narrator.clear()
                    await _tell(event, earlier, wish)
    finally:
        narrator.clear()
    return results, stopped


async def _tell(result: BenchResult, earlier: Earlier, wish: BenchWish) -> None:
    if wish.as_json:
        sys.stdout.write(json_line(result))
        sys.stdout.flush()
    else:
        _print([*result_lines(result), *await earlier.lines(result), ""])


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line), flush=True)
