"""Which plan is made for what stands on a host."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from console.domain.errors import NotRunning
from console.domain.launch import Launch, launches
from console.domain.plan import Plan
from console.domain.profile import Profile
from console.services.execution import PlanExecution
from console.services.planning import Planning
from tests.unit.model_host import Killed, ModelControl, ModelHost, living_runs
from tests.unit.test_execution import OTHER_PAIR, PAIR, PROFILES, SINGLE, carried_out, switch


async def launches_of(profile: Profile) -> tuple[Launch, ...]:
    return launches(profile, "/opt/python", "0.5.23")


def planning(host: ModelHost) -> Planning:
    return Planning(ModelControl(host), launches_of)


def kinds(plan: Plan) -> list[str]:
    return [step.kind for step in plan.steps]


ENDING = ["drain", "stop", "gone", "free"]
STARTING = ["launch", "ready", "launch", "router", "prove", "verify", "record"]


class TestSwitch:
    async def test_from_nothing(self) -> None:
        plan = await planning(ModelHost()).switch(PAIR)
        assert kinds(plan) == ["preflight", *STARTING]
        assert plan.consequence == "Nothing runs now that would be ended; pd-untuned will be launched."

    async def test_from_a_pair_every_process_is_named(self) -> None:
        host = ModelHost()
        await switch(host, PAIR)
        plan = await planning(host).switch(OTHER_PAIR)
        assert kinds(plan) == ["preflight", *ENDING, *STARTING]
        assert sorted(pid for target in plan.targets for pid in target.pids) == sorted(host.processes)

    async def test_limits_are_those_of_what_runs(self) -> None:
        host = ModelHost()
        slow = msgspec.structs.replace(PAIR, limits=msgspec.structs.replace(PAIR.limits, stop_s=300.0))
        await switch(host, slow)
        plan = await planning(host).switch(SINGLE)
        (stop,) = (step for step in plan.steps if step.kind == "stop")
        assert stop.waits_for == "every process to end; SIGKILL for what is left after 300 s"

    async def test_of_others_what_is_in_the_way_is_ended(self) -> None:
        host = ModelHost()
        in_the_way = host.foreign_server(31999, PAIR.gpus[:1])
        host.foreign_server(40000, ())
        plan = await planning(host).switch(PAIR)
        assert [target.server for target in plan.foreign] == [in_the_way.identity]


class TestRestart:
    async def test_it_takes_the_settings_from_the_record(self) -> None:
        host = ModelHost()
        await switch(host, PAIR)
        plan = await planning(host).restart()
        assert (plan.verb, plan.profile) == ("restart", PAIR)
        assert kinds(plan) == ["preflight", *ENDING, *STARTING]

    async def test_one_role_that_died_does_not_make_it_half(self) -> None:
        host = ModelHost()
        await switch(host, PAIR)
        for process in [each for each in host.processes.values() if (each.run or "").endswith(".decode")]:
            host.end(process, -9)
        plan = await planning(host).restart()
        assert {target.role for target in plan.targets} == {"router", "prefill"}
        assert {launch.name for launch in plan.launches} == {"prefill", "decode", "router"}

    async def test_a_start_that_failed_can_be_tried_again(self) -> None:
        host = ModelHost()
        host.fails_to_start = {"decode"}
        await switch(host, PAIR)
        assert kinds(await planning(host).restart()) == ["preflight", *STARTING]

    async def test_nothing_was_launched(self) -> None:
        with pytest.raises(NotRunning, match="nothing runs here that was launched from a profile"):
            await planning(ModelHost()).restart()

    async def test_it_was_stopped(self) -> None:
        host = ModelHost()
        await switch(host, PAIR)
        await carried_out(
            PlanExecution(ModelControl(host), await planning(host).stop(), deployment=host.deployment)
        )
        with pytest.raises(NotRunning) as caught:
            await planning(host).restart()
        assert caught.value.exit_code == 3


class TestStop:
    async def test_ours_alone(self) -> None:
        host = ModelHost()
        host.foreign_server(31999, ())
        await switch(host, PAIR)
        plan = await planning(host).stop()
        assert kinds(plan) == [*ENDING, "record"]
        assert plan.foreign == ()
        assert {target.run for target in plan.targets} == living_runs(host)

    async def test_those_of_others_where_none_is_ours(self) -> None:
        host = ModelHost()
        other = host.foreign_server(31999, (0,))
        plan = await planning(host).stop()
        assert [target.pids for target in plan.foreign] == [(other.pid,)]
        assert plan.consequence.startswith("single :31999 (not launched by the console) will end")

    async def test_nothing_runs(self) -> None:
        with pytest.raises(NotRunning, match="no server runs on this host"):
            await planning(ModelHost()).stop()


async def cut_off(host: ModelHost, plan: Plan, order: int) -> None:
    """The plan's console is killed with this order of its own, and its lock ends."""
    control = ModelControl(host)
    control.dies_at = host.orders + order
    with pytest.raises(Killed):
        await carried_out(PlanExecution(control, plan, deployment=host.deployment))
    host.pass_time(60.0)
    assert host.lock is None


class TestResume:
    async def test_nothing_was_interrupted(self) -> None:
        host = ModelHost()
        await switch(host, PAIR)
        with pytest.raises(NotRunning, match="no plan was interrupted"):
            await planning(host).resume(PROFILES.__getitem__)

    async def test_wherever_its_console_died_the_pair_comes_up(self) -> None:
        verbs = set()
        for order in itertools.count(3):
            host = ModelHost()
            await switch(host, SINGLE)
            await cut_off(host, await planning(host).switch(PAIR), order)
            if not host.all_records().interrupted:
                break
            plan = await planning(host).resume(PROFILES.__getitem__)
            verbs.add(plan.verb)
            assert plan.profile == PAIR
            runs = host.all_records().of_deployment() if plan.verb == "resume" else ()
            _, result = await carried_out(
                PlanExecution(
                    ModelControl(host),
                    plan,
                    deployment=host.deployment,
                    runs=[run for run in runs if run.alive],
                )
            )
            assert result.state == "done", (order, result.sentence)
            assert {run.rpartition(".")[2] for run in living_runs(host)} == {"prefill", "decode", "router"}
            assert host.deployment is not None
            assert (host.deployment.stage, host.deployment.profile.name) == ("up", PAIR.name)
        assert verbs == {"switch", "resume"}

    async def test_a_stop_is_stopped_to_its_end(self) -> None:
        host = ModelHost()
        await switch(host, PAIR)
        await cut_off(host, await planning(host).stop(), 8)
        plan = await planning(host).resume(PROFILES.__getitem__)
        assert plan.verb == "stop"
