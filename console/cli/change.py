"""`dsv4-console switch|restart|stop`: a plan, its consent, and its execution without a screen."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from console.cli.narrator import Narrator, printable, say
from console.cli.operator import TargetOperator
from console.cli.target import Given, Target, choose
from console.domain.errors import ConnectionLost, ReadOnly, UsageError
from console.domain.observation import Ended, Servers, Update
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult, StepEvent
from console.domain.preflight import Check, refused
from console.domain.run_record import HostRecords, Process

DONE, FAILED, INTERRUPTED = 0, 1, 130
LOOK_LIMIT_S = 20.0

MakePlan = Callable[[TargetOperator], Awaitable[Plan]]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says beside the verb."""

    dry_run: bool = False
    yes: bool = False
    as_json: bool = False
    rollback: bool = False
    end_pids: tuple[int, ...] = ()
    """First processes of servers of others that may be ended."""
    confirm: str | None = None
    """The name of a protected host, typed by whoever wants to change it."""


def change(given: Given, make: MakePlan, wish: Wish) -> int:
    """Make the plan, ask, carry it out; returns the exit code. Raises ConsoleError."""
    target = choose(given)
    return asyncio.run(_change(target, make, wish))


async def _change(target: Target, make: MakePlan, wish: Wish) -> int:
    async with operating(target) as operator:
        if operator.interrupted():
            say(f"interrupted: {operator.interrupted()}")
        plan = await make(operator)
        checks = await operator.check(plan)
        _show_plan(target, plan, checks, to=sys.stdout if wish.dry_run and not wish.as_json else sys.stderr)
        if wish.dry_run:
            if wish.as_json:
                _print_json(_as_dict(plan, checks, None, []))
            return FAILED if refused(checks) else DONE
        if (why := operator.refusal()) is not None:
            raise ReadOnly(why)
        if refused(checks):
            say("nothing was changed")
            return FAILED
        consent = _consent(target, plan, wish)
        code, result = await _carry_out(operator, plan, checks, consent, wish)
        if wish.rollback and result is not None and result.rollback and code == FAILED:
            say(f"rolling back to {result.rollback}")
            back = await operator.switch_plan(result.rollback)
            await _carry_out(operator, back, await operator.check(back), consent, wish)
        return code


@asynccontextmanager
async def operating(target: Target) -> AsyncGenerator[TargetOperator, None]:
    """A host whose servers and records have been seen, and who changes it. Raises HostError."""
    watch = target.watch(log_lines=200)
    async with aclosing(watch.updates()) as updates:
        await _look(updates)
        following = asyncio.create_task(_follow(updates))
        try:
            yield TargetOperator(target, watch)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _look(updates: AsyncGenerator[Update, None]) -> None:
    looked = recorded = False
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            async for update in updates:
                if isinstance(update, Ended):
                    raise update.error
                looked = looked or (isinstance(update, Servers) and update.looked)
                recorded = recorded or isinstance(update, HostRecords)
                if looked and recorded:
                    return
    except TimeoutError as error:
        raise ConnectionLost("the host has not told what runs on it") from error


async def _follow(updates: AsyncGenerator[Update, None]) -> None:
    """Take what the watch yields: its values are in the watch, and a watch that is not taken stands still."""
    async for _ in updates:
        pass


def _consent(target: Target, plan: Plan, wish: Wish) -> tuple[Process, ...]:
    """The processes of others that may be ended. Raises UsageError without consent to the plan as a whole."""
    on_terminal = sys.stdin.isatty()
    if target.host.protected and wish.confirm != target.name:
        if not on_terminal or wish.yes:
            raise UsageError(f"{target.name} is protected", next_step=f"give --confirm {target.name}")
        if input(f"{target.name} is protected. Type its name to go on: ").strip() != target.name:
            raise UsageError("that is not its name; nothing was changed")
    if not wish.yes:
        if not on_terminal:
            raise UsageError("nobody is there to confirm", next_step="give --yes, or look with --dry-run")
        if not _agrees(f"{plan.title}?"):
            raise UsageError("not confirmed; nothing was changed")
    return tuple(_foreign_consent(plan, wish, on_terminal))


def _foreign_consent(plan: Plan, wish: Wish, on_terminal: bool) -> list[Process]:
    agreed = []
    for each in plan.foreign:
        named = f"{each.name} of {each.owner}, pids {', '.join(map(str, each.pids))}"
        assert each.server is not None
        if each.server[0] not in wish.end_pids:
            if wish.yes or not on_terminal:
                raise UsageError(
                    f"{named}, was not launched from here", next_step=f"give --end {each.server[0]} to end it"
                )
            if not _agrees(f"{named}, was not launched from here. End it?"):
                raise UsageError("not confirmed; nothing was changed")
        agreed.append(each.server)
    return agreed


def _agrees(question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _carry_out(
    operator: TargetOperator,
    plan: Plan,
    checks: tuple[Check, ...],
    consent: tuple[Process, ...],
    wish: Wish,
) -> tuple[int, PlanResult | None]:
    execution = operator.execute(plan, consent)
    loop, aborted = asyncio.get_running_loop(), asyncio.Event()

    def abort() -> None:
        aborted.set()
        say(f"aborting: {execution.abort()}")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, abort)
    told: list[StepEvent] = []
    narrator = Narrator(plan)
    result: PlanResult | None = None
    try:
        async with aclosing(execution.events()) as events:
            async for event in events:
                if isinstance(event, StepEvent):
                    told.append(event)
                    narrator.tell(event)
                else:
                    result = event
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    assert result is not None
    _show_result(result, wish, _as_dict(plan, checks, result, told))
    if aborted.is_set():
        return INTERRUPTED, result
    return (DONE if result.state == "done" else FAILED), result


def _show_result(result: PlanResult, wish: Wish, said: dict[str, Any]) -> None:
    if wish.as_json:
        _print_json(said)
        return
    print(printable(result.sentence))
    if result.deployment is not None and result.deployment.verification is not None:
        for each in result.deployment.verification.differences:
            actual = "not known" if each.actual is None else each.actual
            print(printable(f"  {each.server} {each.setting} {each.kind}: {each.wanted}, it is {actual}"))
    if result.next:
        print(printable(f"Next: {result.next}"))
    if result.rollback and not wish.rollback:
        print(f"Next: `dsv4-console switch {result.rollback}` goes back to the last verified profile")


def _show_plan(target: Target, plan: Plan, checks: tuple[Check, ...], to: Any) -> None:
    print(printable(f"{target.name}: {plan.title}. {plan.consequence}"), file=to)
    for index, step in enumerate(plan.steps, 1):
        print(printable(f"{index:>3}. {step.title} ({step.limit_s:.0f} s at most)"), file=to)
        for command in step.commands:
            print(printable(f"       {command}"), file=to)
    for check in checks:
        if check.outcome != "ok":
            after = f" Next: {check.next}" if check.next else ""
            print(printable(f"{check.outcome}: {check.sentence}{after}"), file=to)


def _as_dict(
    plan: Plan, checks: tuple[Check, ...], result: PlanResult | None, told: list[StepEvent]
) -> dict[str, Any]:
    took = {event.index: event for event in told if event.kind in ("done", "failed")}
    steps = [
        {
            "kind": step.kind,
            "title": step.title,
            "commands": step.commands,
            "limit_s": step.limit_s,
            "outcome": took[index].kind if index in took else None,
            "seconds": took[index].seconds if index in took else None,
            "text": took[index].text if index in took else None,
        }
        for index, step in enumerate(plan.steps)
    ]
    said: dict[str, Any] = {
        "verb": plan.verb,
        "profile": plan.profile.name if plan.profile else None,
        "consequence": plan.consequence,
        "checks": msgspec.to_builtins(checks),
        "steps": steps,
    }
    if result is None:
        return said
    deployment = result.deployment
    return said | {
        "state": result.state,
        "sentence": result.sentence,
        "next": result.next,
        "rollback": result.rollback,
        "seconds": result.seconds,
        "overhead_s": result.overhead_s,
        "deployment": deployment.id if deployment else None,
        "proof": msgspec.to_builtins(deployment.proof) if deployment else None,
        "verification": msgspec.to_builtins(deployment.verification) if deployment else None,
    }


def _print_json(said: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
