"""`dsv4-console switch|restart|stop`: a plan, its consent, and its execution without a screen."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from console.cli.carrying_out import CarriedOut, carry_out
from console.cli.connected import connected
from console.cli.consent import consent
from console.cli.narrator import say
from console.cli.operator import TargetOperator
from console.cli.plan_json import plan_object
from console.cli.plan_text import check_lines, plan_lines, result_lines
from console.cli.target import Given, Target, choose
from console.cli.wish import Wish
from console.domain.errors import ReadOnly
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult
from console.domain.preflight import Check, refused
from console.domain.printable import printable
from console.domain.run_record import Process

DONE, FAILED, INTERRUPTED = 0, 1, 130

MakePlan = Callable[[TargetOperator], Awaitable[Plan]]


def change(given: Given, make: MakePlan, wish: Wish) -> int:
    """Make the plan, ask, carry it out; returns the exit code. Raises ConsoleError."""
    return asyncio.run(_change(choose(given), make, wish))


async def _change(target: Target, make: MakePlan, wish: Wish) -> int:
    async with connected(target) as operator:
        if (stands := operator.interrupted()) is not None:
            say(f"interrupted: {stands}")
        plan = await make(operator)
        checks = await operator.check(plan)
        _tell([*plan_lines(target.name, plan), *check_lines(checks)], data=wish.dry_run and not wish.as_json)
        if wish.dry_run:
            return _looked(plan, checks, wish)
        if (why := operator.refusal()) is not None:
            raise ReadOnly(why)
        if refused(checks):
            await operator.note_refusal(plan, checks)
            return _refused(plan, checks, wish)
        agreed = await consent(target, plan, wish)
        return await _carried_out(operator, plan, checks, agreed, wish)


def _looked(plan: Plan, checks: Sequence[Check], wish: Wish) -> int:
    if wish.as_json:
        _print_json(plan_object(plan, checks))
    return FAILED if refused(checks) else DONE


def _refused(plan: Plan, checks: Sequence[Check], wish: Wish) -> int:
    if wish.as_json:
        _print_json({**plan_object(plan, checks), "state": "refused", "sentence": "nothing was changed"})
    say("nothing was changed")
    return FAILED


async def _carried_out(
    operator: TargetOperator,
    plan: Plan,
    checks: Sequence[Check],
    agreed: tuple[Process, ...],
    wish: Wish,
) -> int:
    done = await carry_out(operator.execute(plan, agreed), plan)
    said = plan_object(plan, checks, done.result, done.told)
    if not wish.as_json:
        _tell(result_lines(done.result), data=True)
    code, to = _code(done), _way_back(done.result)
    if wish.rollback and to is not None and code == FAILED:
        code, said["rolled_back"] = await _rolled_back(operator, to, agreed, wish)
    elif to is not None and not wish.as_json:
        _tell([f"Next: `dsv4-console switch {to}` goes back to what ran well before"], data=True)
    if wish.as_json:
        _print_json(said)
    return code


async def _rolled_back(
    operator: TargetOperator, to: str, agreed: tuple[Process, ...], wish: Wish
) -> tuple[int, dict[str, Any]]:
    """What was asked for has failed, however well the way back goes."""
    say(f"rolling back to {to}")
    plan = await operator.switch_plan(to)
    done = await carry_out(operator.execute(plan, agreed), plan)
    if not wish.as_json:
        _tell(result_lines(done.result), data=True)
    code = INTERRUPTED if done.interrupted else FAILED
    return code, plan_object(plan, done.result.checks, done.result, done.told)


def _way_back(result: PlanResult) -> str | None:
    return None if result.state == "done" else result.rollback


def _code(done: CarriedOut) -> int:
    if done.interrupted:
        return INTERRUPTED
    return DONE if done.result.state == "done" else FAILED


def _tell(lines: Iterable[str], *, data: bool) -> None:
    """On stdout what was asked for, on stderr what is told on the way there."""
    for line in lines:
        print(printable(line), file=sys.stdout if data else sys.stderr, flush=True)


def _print_json(said: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
