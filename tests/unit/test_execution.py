"""Plans carried out on a model of a host: what stands there afterwards, and what is said of it."""

from __future__ import annotations

import pytest

from console.domain.errors import Locked
from console.domain.launch import launches
from console.domain.plan import Plan, restart_plan, stop_plan, switch_plan
from console.domain.plan_progress import PlanEvent, PlanResult, StepEvent
from console.domain.profile import Profile
from console.domain.run_record import LockHolder
from console.domain.targets import ended_by, running_targets
from console.profiles import Folders, load_profiles
from console.services.execution import PlanExecution
from console.settings import shipped_folder
from tests.unit.model_host import ModelControl, ModelHost, living_runs

PROFILES = load_profiles(Folders(shipped_folder("profiles"))).profiles
PAIR, OTHER_PAIR, SINGLE = PROFILES["pd-untuned"], PROFILES["pd-ll"], PROFILES["tp4-ll"]


def plan_to(host: ModelHost, profile: Profile) -> Plan:
    """As the operator's service makes it."""
    wanted = launches(profile, "/opt/python", "0.5.23")
    control = ModelControl(host)
    return switch_plan(
        profile, wanted, ended_by(running_targets(control.records(), control.servers()), wanted)
    )


async def carried_out(execution: PlanExecution) -> tuple[list[PlanEvent], PlanResult]:
    events = [event async for event in execution.events()]
    result = events[-1]
    assert isinstance(result, PlanResult)
    return events, result


async def switch(host: ModelHost, profile: Profile, fallback: str | None = None) -> PlanResult:
    plan = plan_to(host, profile)
    execution = PlanExecution(ModelControl(host), plan, deployment=host.deployment, fallback=fallback)
    return (await carried_out(execution))[1]


def roles(host: ModelHost) -> list[str]:
    return sorted(run.rpartition(".")[2] for run in living_runs(host))


async def test_from_nothing_to_a_pair_to_another_and_to_nothing() -> None:
    host = ModelHost()
    first = await switch(host, PAIR)
    assert first.state == "done"
    assert first.sentence == "pd-untuned is up: proven in 1.0 s; verified, 12 settings"
    assert first.overhead_s is not None
    assert 1.0 < first.overhead_s < 2.0, "prefill's second, not the second of the proof's request"
    assert roles(host) == ["decode", "prefill", "router"]
    assert host.deployment is not None
    assert (host.deployment.stage, host.deployment.profile.name) == ("up", "pd-untuned")

    before = living_runs(host)
    assert (await switch(host, OTHER_PAIR)).state == "done"
    assert not before & living_runs(host)
    assert roles(host) == ["decode", "prefill", "router"]

    control = ModelControl(host)
    stop = stop_plan(running_targets(control.records(), control.servers()))
    _, stopped = await carried_out(PlanExecution(control, stop, deployment=host.deployment))
    assert stopped.state == "done"
    assert not living_runs(host)
    assert host.deployment.stage == "stopped"
    assert (host.deployment.proof, host.deployment.verification) == (None, None)
    assert host.plan is not None
    assert host.plan.state == "done"
    assert host.lock is None


async def test_a_restart_replaces_both_roles_with_the_same_settings() -> None:
    host = ModelHost()
    await switch(host, PAIR)
    control = ModelControl(host)
    before = dict(host.records)
    wanted = launches(PAIR, "/opt/python", "0.5.23")
    plan = restart_plan(PAIR, wanted, running_targets(control.records(), control.servers()))
    _, result = await carried_out(PlanExecution(control, plan, deployment=host.deployment))
    assert result.state == "done"
    new = [record for run, record in host.records.items() if run not in before]
    assert {record.id for record in new} == living_runs(host)
    assert {(old.name, old.argv) for old in before.values()} == {(record.name, record.argv) for record in new}
    starts = {record.name: record.launched_at for record in new}
    assert starts["decode"] - starts["prefill"] == pytest.approx(1.0, abs=0.2)


async def test_a_role_that_fails_takes_the_other_down_with_it() -> None:
    host = ModelHost()
    host.fails_to_start = {"decode"}
    result = await switch(host, PAIR, fallback="tp4-ll")
    assert result.state == "failed"
    assert result.sentence == (
        "decode failed: ran out of memory; what was launched has been stopped again, nothing of it runs"
    )
    assert result.rollback == "tp4-ll"
    assert not living_runs(host)
    assert host.deployment is not None
    assert host.deployment.stage == "failed"


async def test_a_failed_proof_leaves_the_pair_running_and_broken() -> None:
    host = ModelHost()
    host.proof_passes = False
    result = await switch(host, PAIR)
    assert result.state == "failed"
    assert result.sentence == "no token came; the servers go on running and are not called ready"
    assert roles(host) == ["decode", "prefill", "router"]
    assert host.deployment is not None
    assert host.deployment.stage == "broken"


async def test_a_failed_preflight_has_changed_nothing() -> None:
    host = ModelHost()
    await switch(host, SINGLE)
    plan = plan_to(host, PAIR)
    stranger = host.foreign_server(31999, (4,))
    before = (living_runs(host), host.deployment)
    _, result = await carried_out(PlanExecution(ModelControl(host), plan, deployment=host.deployment))
    assert result.sentence == f"GPU 4 is held by pid {stranger.pid}; nothing was changed"
    assert (living_runs(host), host.deployment) == before
    assert result.rollback is None


async def test_what_resists_sigterm_is_killed_after_its_time() -> None:
    host = ModelHost()
    await switch(host, PAIR)
    for process in host.processes.values():
        process.resists = True
    control = ModelControl(host)
    began = host.time
    stop = stop_plan(running_targets(control.records(), control.servers()), PAIR.limits)
    events, result = await carried_out(PlanExecution(control, stop, deployment=host.deployment))
    assert result.state == "done"
    said = [event.text for event in events if isinstance(event, StepEvent) and event.kind == "said"]
    assert sum("SIGKILL" in text for text in said) == 2, "the router after its drain, then both roles"
    assert host.time - began < PAIR.limits.drain_s + PAIR.limits.stop_s + 10


async def test_what_hangs_in_the_driver_is_named_and_the_stop_ends() -> None:
    """Case C07. The other role is stopped all the same."""
    host = ModelHost()
    await switch(host, PAIR)
    stuck = next(process for process in host.processes.values() if process.gpus == (4, 5, 6, 7))
    stuck.stuck = True
    control = ModelControl(host)
    stop = stop_plan(running_targets(control.records(), control.servers()))
    _, result = await carried_out(PlanExecution(control, stop, deployment=host.deployment))
    assert result.state == "failed"
    assert result.sentence == (
        f"pid {stuck.pid} (sglang::scheduler_TP0) cannot be killed: state D in uvm_spin_loop [nvidia_uvm];"
        " nothing new was launched"
    )
    assert result.next == "a GPU reset or a reboot of the host is needed"
    assert set(host.processes) == {stuck.pid}
    assert host.deployment is not None
    assert host.deployment.stage == "stopping"


async def test_a_lost_connection_is_waited_for_and_nothing_is_done_twice() -> None:
    for order in range(1, 60):
        host = ModelHost()
        host.faults[order] = ModelHost.lose_connection
        result = await switch(host, PAIR) if order > 1 else None
        if result is not None:
            assert result.state == "done", order
            assert roles(host) == ["decode", "prefill", "router"]
            assert len(host.records) == 3


async def test_an_abort_while_servers_start_stops_them_again() -> None:
    host = ModelHost()
    execution = PlanExecution(ModelControl(host), plan_to(host, PAIR))
    said, result = "", None
    async for event in execution.events():
        if isinstance(event, StepEvent) and event.kind == "said" and "decode: loading" in event.text:
            said = execution.abort()
        result = event
    assert said == "what was launched will be stopped again; nothing will run"
    assert isinstance(result, PlanResult)
    assert result.state == "aborted"
    assert not living_runs(host)
    assert host.deployment is not None
    assert host.deployment.stage == "failed"


async def test_an_abort_while_a_pair_is_stopped_ends_it_and_launches_nothing() -> None:
    host = ModelHost()
    await switch(host, PAIR)
    execution = PlanExecution(ModelControl(host), plan_to(host, SINGLE), deployment=host.deployment)
    result = None
    async for event in execution.events():
        if isinstance(event, StepEvent) and event.kind == "began" and event.index == 1:
            assert execution.abort().startswith("what is being stopped will be stopped to its end")
        result = event
    assert isinstance(result, PlanResult)
    assert result.state == "aborted"
    assert result.sentence == "aborted; what ran before has been stopped, and nothing was launched"
    assert not living_runs(host)
    assert host.deployment is not None
    assert host.deployment.stage == "stopped"


async def test_a_second_console_is_told_who_is_at_it() -> None:
    host = ModelHost()
    host.lock = LockHolder(by="eve@desk", what="switch to pd-ll", since=1.0, pid=7)
    with pytest.raises(Locked, match="eve@desk"):
        await switch(host, PAIR)
    assert not living_runs(host)
