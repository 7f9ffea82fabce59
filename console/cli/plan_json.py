"""A plan, its checks and what came of it as one object of JSON.

`steps` have what was planned of each, and `outcome`, `seconds` and `text` of those that were carried out; a
clean-up after a failure follows as a step without commands. `state`, `sentence` and what follows are null in
a dry run; `state` is `refused` where a check refused the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult, StepEvent
from console.domain.preflight import Check


def plan_object(
    plan: Plan,
    checks: Sequence[Check],
    result: PlanResult | None = None,
    told: Sequence[StepEvent] = (),
) -> dict[str, Any]:
    """Of a plan with its checks, or of one that was carried out, with the events of its steps."""
    return {
        "verb": plan.verb,
        "profile": plan.profile.name if plan.profile else None,
        "consequence": plan.consequence,
        "checks": msgspec.to_builtins(checks),
        "steps": _steps(plan, told),
        **_outcome(result),
    }


def _steps(plan: Plan, told: Sequence[StepEvent]) -> list[dict[str, Any]]:
    ended = {event.index: event for event in told if event.kind in ("done", "failed")}
    planned = [
        {
            "kind": step.kind,
            "title": step.title,
            "commands": step.commands,
            "limit_s": step.limit_s,
            **_ended(ended.get(index)),
        }
        for index, step in enumerate(plan.steps)
    ]
    cleaning = [
        {
            "kind": "stop",
            "title": event.title,
            "commands": (),
            "limit_s": None,
            **_ended(ended.get(event.index)),
        }
        for event in told
        if event.kind == "began" and event.index >= len(plan.steps)
    ]
    return planned + cleaning


def _ended(event: StepEvent | None) -> dict[str, Any]:
    if event is None:
        return {"outcome": None, "seconds": None, "text": None}
    return {"outcome": event.kind, "seconds": event.seconds, "text": event.text}


def _outcome(result: PlanResult | None) -> dict[str, Any]:
    deployment = None if result is None else result.deployment
    return {
        "state": result.state if result else None,
        "sentence": result.sentence if result else None,
        "next": result.next if result else None,
        "rollback": result.rollback if result else None,
        "seconds": result.seconds if result else None,
        "overhead_s": result.overhead_s if result else None,
        "deployment": deployment.id if deployment else None,
        "proof": msgspec.to_builtins(deployment.proof) if deployment else None,
        "verification": msgspec.to_builtins(deployment.verification) if deployment else None,
    }
