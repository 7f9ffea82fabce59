"""What speaks against a deployment being ready, the weightiest first."""

from __future__ import annotations

from collections.abc import Sequence

from .breakage import how_it_broke, in_order
from .leftovers import left_behind
from .parts import Part, is_ailing
from .seen import RESTART_PAIR, Seen
from .state import Deployment, DeploymentState
from .under_way import plan_under_way, told

RESTART_ROUTER = f"restart the router, which takes seconds; {RESTART_PAIR} if that does not help"


def _under_way(seen: Seen) -> Deployment | None:
    """What ends or is not there yet while a plan works on it is the plan's doing."""
    plan, stage = plan_under_way(seen.records), seen.record.stage
    if plan is None or stage not in ("starting", "stopping"):
        return None
    return seen.called("starting" if stage == "starting" else "stopping", since=plan.begun_at)


def _stopped(seen: Seen) -> Deployment | None:
    """Stopped is only what has left nothing behind (case C02)."""
    if seen.record.stage not in ("stopping", "stopped"):
        return None
    if any(part.run.alive for part in seen.parts):
        return seen.called("failed", f"STOP INCOMPLETE: {left_behind(seen)}", next="stop again (S)")
    plan = seen.records.plan
    if seen.record.stage == "stopping" and plan is not None and plan.state == "failed":
        return seen.called("failed", plan.note or "the stop did not get to its end", next="stop again (S)")
    return seen.without_it()


def _given_up(seen: Seen) -> Deployment | None:
    if seen.record.stage != "failed":
        return None
    if any(part.run.alive for part in seen.parts):
        why = f"{seen.record.note.rstrip('.')}; " if seen.record.note else ""
        return seen.called("failed", f"{why}left behind: {left_behind(seen)}", next="stop it (S)")
    others = seen.without_it()
    if others.state != "none":
        return others
    return seen.called("failed", seen.record.note or "its start was given up", next="choose a profile (p)")


def _replaced(seen: Seen) -> Deployment | None:
    """Where every server was started anew by somebody else, nothing is left of the deployment."""
    if seen.servers and all(part.successor is not None for part in seen.servers):
        return seen.without_it()
    return None


def _outdated(seen: Seen) -> Deployment | None:
    """A role that was started after the proof: its peer holds endpoints of one that is gone (case D01)."""
    proof = seen.record.proof
    if not seen.is_pair or proof is None or not proof.passed:
        return None
    newer = [part for part in seen.servers if part.started_at > proof.at]
    if not newer:
        return None
    starts = ", ".join(f"{part.name} started {seen.shown(part.started_at)}" for part in seen.servers)
    names = " and ".join(part.name for part in newer)
    return seen.called(
        "broken",
        f"{names} {'is' if len(newer) == 1 else 'are'} newer than the proof: {starts},"
        f" proven {seen.shown(proof.at)}",
        next=seen.restart,
        since=max(part.started_at for part in newer),
    )


def _down(seen: Seen) -> Deployment | None:
    """One role's death is the pair's (case D04); replicas go on while one of them serves."""
    servers = [part for part in seen.servers if part.is_down]
    # A living router that lost its workers says nothing new.
    routers = [part for part in seen.parts if part.run.role == "router" and part.is_dead]
    down = in_order([*servers, *routers])
    if not down or _is_router_replaced(down):
        return None
    serves = seen.record.profile.kind == "replicas" and any(part.is_ready for part in seen.servers)
    return seen.called(
        "degraded" if serves and not routers else "broken",
        how_it_broke(down) + ("" if servers else "; nothing is served"),
        next=seen.restart,
        since=seen.epoch(down[0].down_at),
    )


def _is_router_replaced(down: Sequence[Part]) -> bool:
    return all(part.run.role == "router" and part.successor is not None for part in down)


def _unfinished(seen: Seen) -> Deployment | None:
    """A start that nobody carries on, or a run of which nothing is known."""
    missing = len(seen.record.runs) - len(seen.parts)
    plan = seen.records.plan
    if seen.record.stage == "starting" and seen.records.interrupted and plan is not None:
        where = f"{told(plan)} stands at step {plan.step + 1}/{len(plan.steps)}, and nobody carries it on"
        ready = [part for part in seen.servers if part.is_ready]
        is_up = len(ready) == len(seen.record.profile.servers)
        return seen.going_on("roles up" if is_up else "starting", where, next="finish it or undo it")
    if missing:
        were = "was" if missing == 1 else "were"
        said = f"{missing} of its {len(seen.record.runs)} processes {were} not launched, or left no record"
        return seen.called("broken", said, next=seen.restart)
    return None


def _disproved(seen: Seen) -> Deployment | None:
    proof = seen.record.proof
    if proof is not None and not proof.passed:
        return seen.called("broken", proof.sentence, next=seen.restart, since=proof.at)
    if seen.record.stage == "broken":
        return seen.called("broken", seen.record.note or "a plan left it broken", next=seen.restart)
    return None


def _misrouted(seen: Seen) -> Deployment | None:
    """Healthy servers behind a router that does not use them: the fault is the router's (case D06)."""
    router = next((part.view for part in seen.parts if part.run.role == "router"), None)
    if router is None or not all(part.is_well for part in seen.servers):
        return None
    names = " and ".join(part.name for part in seen.servers)
    healthy = f"{names} {'is' if len(seen.servers) == 1 else 'are'} healthy"
    if router.open_breakers:
        said = f"the router's circuit breaker is open for {router.open_breakers} of its workers; {healthy}"
        return seen.going_on("degraded", said, next=RESTART_ROUTER)
    if router.state != "failed" and router.phase != "degraded":
        return None
    said = f"the router does not use its workers: {router.reason or 'no reason seen'}; {healthy}"
    state: DeploymentState = "broken" if router.state == "failed" else "degraded"
    return seen.going_on(state, said, next=RESTART_ROUTER, since=seen.epoch(router.since))


def _ailing(seen: Seen) -> Deployment | None:
    for part in seen.parts:
        if part.view is not None and is_ailing(part.view):
            said = f"{part.name} {part.view.phase}: {(part.view.reason or 'no reason seen').rstrip('.')}"
            since = seen.epoch(part.view.since)
            return seen.going_on("degraded", said, next=seen.restart, since=since)
    return None


RULES = (
    _under_way,
    _stopped,
    _given_up,
    _replaced,
    _outdated,
    _down,
    _unfinished,
    _disproved,
    _misrouted,
    _ailing,
)
"""The first that applies speaks."""


def standing(seen: Seen) -> Deployment:
    """Every run lives and nothing speaks against it."""
    routers = [part for part in seen.parts if part.run.role == "router"]
    waited_for = [part for part in seen.parts if not part.is_ready and part.successor is None]
    if waited_for or not seen.parts:
        unseen = ", ".join(part.name for part in waited_for if part.view is None)
        said = f"{unseen} not seen yet" if unseen else None
        return seen.going_on("starting", said, since=seen.record.begun_at)
    if not seen.is_pair:
        return seen.settled("ready")
    if any(part.successor is not None for part in routers):
        return seen.settled("roles up", "the router was started anew by somebody else", next=seen.restart)
    if seen.record.proof is not None:
        return seen.settled("ready")
    plan = seen.records.plan
    note = plan.note if plan is not None and plan.state in ("failed", "aborted") else None
    return seen.settled("roles up", note, next=seen.restart)
