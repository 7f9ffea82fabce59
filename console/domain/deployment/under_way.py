"""A plan that some console is carrying out on the host."""

from __future__ import annotations

from console.domain.run_record import HostRecords, PlanRecord


def plan_under_way(records: HostRecords) -> PlanRecord | None:
    """The plan that some console is carrying out now."""
    plan = records.plan
    return plan if plan is not None and plan.state == "running" and not records.interrupted else None


def told(plan: PlanRecord) -> str:
    """`ops@laptop: switch to pd-ll`."""
    verb = "switch to" if plan.verb == "switch" else plan.verb
    return f"{plan.by}: {verb} {plan.profile or ''}".rstrip()
