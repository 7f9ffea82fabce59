"""A plan, its checks and its result as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult
from console.domain.preflight import Check
from console.domain.run_record import Difference


def plan_lines(host: str, plan: Plan) -> Iterator[str]:
    """What it is, what it does to those who use it, and its steps with their commands."""
    yield f"{host}: {plan.title}"
    yield plan.consequence
    for number, step in enumerate(plan.steps, 1):
        yield f"{number:>3}. {step.title} ({step.limit_s:.0f} s at most)"
        yield from (f"       {command}" for command in step.commands)


def check_lines(checks: Iterable[Check]) -> Iterator[str]:
    """Those that are not in order."""
    for check in checks:
        if check.outcome != "ok":
            after = f". Next: {check.next}" if check.next else ""
            yield f"{check.outcome}: {check.told.rstrip('.')}{after}"


def result_lines(result: PlanResult) -> Iterator[str]:
    """What came of it, each setting that differs, and what to do next."""
    yield result.sentence
    if result.deployment is not None and result.deployment.verification is not None:
        yield from map(_difference, result.deployment.verification.differences)
    if result.next:
        yield f"Next: {result.next}"


def _difference(each: Difference) -> str:
    actual = "not known" if each.actual is None else each.actual
    return f"  {each.server} {each.setting} {each.kind}: wanted {each.wanted}, it is {actual}"
