"""Random plans with random faults at random steps, on a model of a host.

Whatever happens: no two deployments on one GPU and no signal to a process of somebody else (the model raises
Misdeed at once), never half a pair called ready, and never a lock or a plan that nobody can take over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from console.domain.deployment import observed
from console.domain.errors import ConsoleError, Locked, NotRunning
from console.domain.launch import Launch, launches
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult
from console.domain.profile import Profile
from console.profiles import Folders, load_profiles
from console.services.execution import PlanExecution
from console.services.planning import Planning
from console.settings import shipped_folder
from tests.unit.model_host import LOCK_LEFT_S, Killed, ModelControl, ModelHost, consent

PROFILES = load_profiles(Folders(shipped_folder("profiles"))).profiles
NAMES = ("pd-untuned", "pd-ll", "tp4-ll", "tp2-x4", "tp8")
STRANGERS = ((30000, (0, 1)), (31999, (6, 7)), (40000, ()), (8000, ()))

Fault = Callable[[ModelHost], None]


def kill(role: str) -> Fault:
    """The first process of a role is killed; its children follow."""

    def strike(host: ModelHost) -> None:
        for process in host.leaders(role):  # type: ignore[arg-type]
            host.end(process, -9)

    return strike


def orphan(host: ModelHost) -> None:
    """A first process goes, its children stay."""
    for process in host.leaders("decode"):
        assert process.run is not None
        for member in host.members(process.run):
            member.resists = True
        host.end(process, -9)


def resist(host: ModelHost) -> None:
    for process in host.processes.values():
        process.resists = process.run is not None


def stick(host: ModelHost) -> None:
    for process in list(host.processes.values())[:1]:
        process.stuck = process.run is not None


def break_proof(host: ModelHost) -> None:
    host.proof_passes = False


def fail_decode(host: ModelHost) -> None:
    host.fails_to_start = {"decode"}


FAULTS: dict[str, Fault] = {
    "lost": ModelHost.lose_connection,
    "kill prefill": kill("prefill"),
    "kill decode": kill("decode"),
    "kill router": kill("router"),
    "kill single": kill("single"),
    "orphan": orphan,
    "resist": resist,
    "stick": stick,
    "proof": break_proof,
    "fail decode": fail_decode,
    "stranger": lambda host: void(host.foreign_server(30001, (4, 5))),
}


def void(_: object) -> None:
    return None


ACTIONS = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(["switch", "switch", "restart", "restart", "stop"]),
        "profile": st.sampled_from(NAMES),
        "faults": st.lists(
            st.tuples(st.integers(1, 60), st.sampled_from(sorted(FAULTS))), min_size=1, max_size=3
        ),
        "killed": st.none() | st.none() | st.integers(1, 60),
        "abort": st.none() | st.none() | st.integers(1, 25),
        "consents": st.sampled_from([True, True, False]),
        "second": st.booleans(),
    }
)


async def launches_of(profile: Profile) -> tuple[Launch, ...]:
    return launches(profile, "/opt/python", "0.5.23")


async def planned(control: ModelControl, action: dict[str, Any]) -> Plan:
    """As the operator's service would: what was interrupted is finished first."""
    planning = Planning(control, launches_of)
    if action["verb"] == "stop":
        return await planning.stop()
    if control.records().interrupted:
        return await planning.resume(PROFILES.__getitem__)
    return await (
        planning.restart() if action["verb"] == "restart" else planning.switch(PROFILES[action["profile"]])
    )


async def act(host: ModelHost, action: dict[str, Any]) -> PlanResult | None:
    """One action of one console, faults and all; None when nothing came of it."""
    control = ModelControl(host)
    try:
        plan = await planned(control, action)
    except NotRunning:
        return None
    foreign = [target.server for target in plan.foreign if target.server is not None]
    if foreign and not action["consents"]:
        return None
    consent(host, foreign)
    for order, fault in action["faults"]:
        host.faults[host.orders + order] = FAULTS[fault]
    if action["killed"] is not None:
        control.dies_at = host.orders + action["killed"]
    runs = control.records().of_deployment() if plan.verb == "resume" else ()
    execution = PlanExecution(
        control, plan, deployment=host.deployment, runs=[run for run in runs if run.alive]
    )
    result = None
    try:
        count = 0
        async for news in execution.events():
            count += 1
            check(host)
            if count == action["abort"]:
                execution.abort()
            if count == 5 and action["second"] and not isinstance(news, PlanResult):
                await refuse_second(host)
            result = news if isinstance(news, PlanResult) else None
    except (Killed, ConsoleError):
        pass
    host.faults.clear()
    host.connected = True
    # A lock whose console was lost, even while it gave it back, ends by itself.
    host.pass_time(2 * LOCK_LEFT_S)
    return result


async def refuse_second(host: ModelHost) -> None:
    """Another console asks for the lock in the middle, and must not get it."""
    if host.lock_ends_at is not None:
        return  # of a console that lost its connection: it may pass on
    faults, host.faults, connected, host.connected = host.faults, {}, host.connected, True
    with pytest.raises(Locked, match="ops@laptop"):
        await ModelControl(host, "eve@desk").lock("something else")
    host.faults, host.connected = faults, connected


def check(host: ModelHost) -> None:
    """What must be true at every moment."""
    for gpu in host.gpus:
        deployments = {
            process.run.rpartition(".")[0]
            for process in host.processes.values()
            if gpu in process.gpus and process.run is not None
        }
        assert len(deployments) <= 1, f"GPU {gpu}: {deployments}"
    views = tuple(host.view_of(process) for process in host.processes.values() if process.role)
    records = host.all_records()
    kept = records.deployment
    if kept is not None and kept.stage == "up":
        assert kept.proof is not None
        assert kept.proof.passed
    seen = observed(views, records)
    # What others run may be ready as well; it is no deployment of a profile.
    if records.deployment is not None and seen.profile is not None and seen.state == "ready":
        assert all(run.alive for run in records.of_deployment())
        assert len(records.of_deployment()) == len(records.deployment.runs)
        if records.deployment.profile.kind == "pd":
            proof = records.deployment.proof
            assert proof is not None
            assert proof.passed


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(ACTIONS, min_size=2, max_size=5), st.lists(st.sampled_from(STRANGERS), max_size=2, unique=True)
)
def test_random_plans(actions: list[dict[str, Any]], strangers: list[tuple[int, tuple[int, ...]]]) -> None:
    asyncio.run(run_through(actions, strangers))


async def run_through(actions: list[dict[str, Any]], strangers: list[tuple[int, tuple[int, ...]]]) -> None:
    host = ModelHost()
    for port, gpus in strangers:
        host.foreign_server(port, gpus)
    for action in actions:
        result = await act(host, action)
        event(f"{action['verb']}: {'nothing' if result is None else result.state}")
        check(host)
        assert host.lock is None, "whoever ends or dies leaves no lock behind"
        if result is not None:
            assert host.plan is not None
            assert host.plan.state == result.state
        if result is not None and result.state == "done" and action["verb"] == "stop":
            assert not [process for process in host.processes.values() if process.run is not None]
