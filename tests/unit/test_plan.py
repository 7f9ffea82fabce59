"""The steps of plans: their order, their limits, and the commands that they stand for."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.launch import Launch, launches
from console.domain.plan import GONE_S, Plan, Step, Target, restart_plan, stop_plan, switch_plan
from console.domain.profile import Limits, Profile
from console.domain.steps import FREE_S
from console.profiles import Folders, load_profile, load_profiles
from console.settings import shipped_folder

SHIPPED = Folders(shipped_folder("profiles"))
PROFILES = load_profiles(SHIPPED).profiles
PYTHON = "/opt/sglang/bin/python"

ROUTER = Target(
    name="router :8000", role="router", run="r1-router", pids=(300,), port=8000, ports=(8000, 29000)
)
PREFILL = Target(
    name="prefill :30000",
    role="prefill",
    run="r1-prefill",
    pids=(100, 101),
    port=30000,
    ports=(30000, 31000, 8998),
    gpus=(0, 1),
)
DECODE = Target(
    name="decode :30001",
    role="decode",
    run="r1-decode",
    pids=(200, 201),
    port=30001,
    ports=(30001, 31001),
    gpus=(2, 3),
)
STRANGER = Target(
    name="single :30000",
    role="single",
    server=(900, 9),
    pids=(900,),
    port=30000,
    ports=(30000,),
    owner="alice",
)
RUNNING = (ROUTER, PREFILL, DECODE)
WHOLE = ["preflight", "drain", "stop", "gone", "free"]
START = ["launch", "ready", "launch", "router", "prove", "verify", "record"]


@pytest.fixture(scope="module")
def pair() -> Profile:
    return load_profile("pd-ll", SHIPPED)


def started(profile: Profile) -> tuple[Launch, ...]:
    return launches(profile, PYTHON, "0.5.15")


def kinds(plan: Plan) -> list[str]:
    return [step.kind for step in plan.steps]


def step(plan: Plan, kind: str) -> Step:
    """The first of the kind."""
    return next(step for step in plan.steps if step.kind == kind)


class TestTheOrder:
    def test_of_a_switch_from_a_pair_to_a_pair(self, pair: Profile) -> None:
        assert kinds(switch_plan(pair, started(pair), RUNNING)) == WHOLE + START

    def test_from_nothing(self, pair: Profile) -> None:
        assert kinds(switch_plan(pair, started(pair), ())) == ["preflight", *START]

    def test_to_a_single_server(self) -> None:
        single = load_profile("tp4-ll", SHIPPED)
        assert kinds(switch_plan(single, started(single), ())) == [
            *("preflight", "launch", "ready", "prove", "verify", "record")
        ]

    def test_of_a_restart_is_that_of_a_switch(self, pair: Profile) -> None:
        assert kinds(restart_plan(pair, started(pair), RUNNING)) == WHOLE + START

    def test_of_a_stop(self) -> None:
        assert kinds(stop_plan(RUNNING)) == ["drain", "stop", "gone", "free", "record"]

    def test_without_a_router_nothing_is_drained(self) -> None:
        assert kinds(stop_plan((PREFILL, DECODE))) == ["stop", "gone", "free", "record"]

    def test_a_router_that_is_alone_is_stopped(self) -> None:
        plan = stop_plan((ROUTER,))
        assert kinds(plan) == ["stop", "gone", "free", "record"]
        assert step(plan, "stop").targets == (ROUTER,)


class TestEnding:
    def test_both_roles_are_stopped_together(self) -> None:
        stop = step(stop_plan(RUNNING), "stop")
        assert stop.targets == (PREFILL, DECODE)
        assert stop.title == "stop prefill :30000 and decode :30001 together"

    def test_the_router_is_looked_for_with_them_afterwards(self) -> None:
        plan = stop_plan(RUNNING)
        assert step(plan, "gone").targets == RUNNING
        free = step(plan, "free")
        assert free.ports == (8000, 8998, 29000, 30000, 30001, 31000, 31001)
        assert free.gpus == (0, 1, 2, 3)

    def test_signals_go_to_pids(self) -> None:
        plan = stop_plan((ROUTER, PREFILL, msgspec.structs.replace(DECODE, sudo=True)))
        assert step(plan, "drain").commands == ("kill -TERM 300",)
        assert step(plan, "stop").commands == ("kill -TERM 100 101", "sudo -n kill -TERM 200 201")
        assert step(plan, "gone").commands == ("ps -o pid,stat,args -p 100,101,200,201,300",)

    def test_no_command_looks_for_a_name(self, pair: Profile) -> None:
        """Case C04: a pattern would find the shell that runs it."""
        plans = (switch_plan(pair, started(pair), RUNNING), stop_plan((*RUNNING, STRANGER)))
        commands = " ".join(command for plan in plans for each in plan.steps for command in each.commands)
        assert not {"pkill", "killall", "pgrep", "grep", "fuser"} & set(commands.split())

    def test_gpus_are_asked_for_where_there_are_some(self) -> None:
        assert step(stop_plan((PREFILL,)), "free").commands == ("ss -ltnp", "nvidia-smi")
        assert step(stop_plan((STRANGER,)), "free").commands == ("ss -ltnp",)


class TestLimits:
    def test_those_of_the_profile_that_runs(self, pair: Profile) -> None:
        limits = Limits(drain_s=5, stop_s=100)
        for plan in (
            switch_plan(pair, started(pair), RUNNING, limits),
            stop_plan(RUNNING, limits),
            restart_plan(msgspec.structs.replace(pair, limits=limits), started(pair), RUNNING),
        ):
            assert step(plan, "drain").limit_s == 5 + GONE_S
            assert step(plan, "stop").limit_s == 100 + GONE_S
            assert step(plan, "drain").waits_for == "it to finish its requests and end; SIGKILL after 5 s"
            assert step(plan, "stop").waits_for.endswith("SIGKILL for what is left after 100 s")

    def test_not_those_of_the_profile_that_it_leads_to(self, pair: Profile) -> None:
        leads_to = msgspec.structs.replace(pair, limits=Limits(stop_s=100))
        plan = switch_plan(leads_to, started(leads_to), RUNNING)
        assert step(plan, "stop").limit_s == Limits().stop_s + GONE_S

    def test_a_start_has_its_own_ceiling(self) -> None:
        cpu = load_profile("cpu-pd", SHIPPED)
        assert step(switch_plan(cpu, started(cpu), ()), "ready").limit_s == cpu.limits.ceiling_s == 240
        assert step(stop_plan(RUNNING), "free").limit_s == FREE_S


class TestTexts:
    def test_titles(self, pair: Profile) -> None:
        assert switch_plan(pair, started(pair), ()).title == "switch to pd-ll"
        assert restart_plan(pair, started(pair), ()).title == "restart pd-ll"
        assert stop_plan((ROUTER, DECODE)).title == "stop router :8000, decode :30001"

    def test_what_is_interrupted(self, pair: Profile) -> None:
        assert switch_plan(pair, started(pair), RUNNING).consequence == (
            "router :8000, prefill :30000 and decode :30001 will end; "
            "nothing is served until pd-ll is proven."
        )
        assert "Nothing runs now" in switch_plan(pair, started(pair), ()).consequence

    @pytest.mark.parametrize(("running", "grace"), [(RUNNING, "30 s"), ((PREFILL, DECODE), "45 s")])
    def test_when_requests_are_cut_off(self, running: tuple[Target, ...], grace: str) -> None:
        assert stop_plan(running).consequence.endswith(f"; requests not done after {grace} are cut off.")

    def test_what_the_console_did_not_launch_is_said(self) -> None:
        plan = stop_plan((DECODE, STRANGER))
        assert plan.foreign == (STRANGER,)
        assert "(single :30000 not launched by the console)" in plan.consequence

    def test_a_pair_must_have_moved_kv(self, pair: Profile) -> None:
        single = load_profile("tp4-ll", SHIPPED)
        assert "KV moved" in step(switch_plan(pair, started(pair), ()), "prove").waits_for
        assert "KV" not in step(switch_plan(single, started(single), ()), "prove").waits_for


class TestStarting:
    def test_prefill_goes_a_second_ahead(self, pair: Profile) -> None:
        launch = step(switch_plan(pair, started(pair), ()), "launch")
        folder, prefill, pause, decode = launch.commands
        assert folder == "mkdir -p ~/.local/state/dsv4-console/runs/NEW"
        assert "--disaggregation-mode prefill" in prefill
        assert pause == "sleep 1"
        assert "--disaggregation-mode decode" in decode
        assert launch.title.endswith("decode :30001, prefill a second ahead")

    def test_replicas_start_at_once(self) -> None:
        replicas = load_profile("tp2-x2", SHIPPED)
        launch = step(switch_plan(replicas, started(replicas), ()), "launch")
        assert [command.split()[0] for command in launch.commands] == ["mkdir", "setsid", "setsid"]

    def test_the_router_comes_after_its_servers_are_ready(self, pair: Profile) -> None:
        first, second = (each for each in switch_plan(pair, started(pair), ()).steps if each.kind == "launch")
        assert [launch.name for launch in first.launches] == ["prefill", "decode"]
        assert [launch.name for launch in second.launches] == ["router"]

    def test_what_is_asked_and_where(self, pair: Profile) -> None:
        plan = switch_plan(pair, started(pair), ())
        assert step(plan, "ready").commands == (
            "curl -f http://127.0.0.1:30000/health",
            "curl -f http://127.0.0.1:30001/health",
        )
        assert step(plan, "router").commands[0] == "curl -f http://127.0.0.1:8000/readiness"
        (request,) = step(plan, "prove").commands
        assert request.startswith("curl -f http://127.0.0.1:8000/v1/completions ")
        assert '"model": "DeepSeek-V4-Flash"' in request

    def test_preflight_looks_at_all_that_will_be_used(self, pair: Profile) -> None:
        look = step(switch_plan(pair, started(pair), RUNNING), "preflight")
        assert look.gpus == tuple(range(8))
        assert look.ports == (8000, 8998, 29000, 30000, 30001, 31000, 31001)


TARGETS = st.lists(st.sampled_from((*RUNNING, STRANGER)), unique=True).map(tuple)


@given(st.sampled_from(sorted(PROFILES)), TARGETS)
def test_whatever_runs_it_ends_once_and_is_gone_before_anything_starts(
    name: str, running: tuple[Target, ...]
) -> None:
    profile = PROFILES[name]
    plan = switch_plan(profile, started(profile), running)
    signalled = [target for each in plan.steps if each.kind in ("drain", "stop") for target in each.targets]
    assert sorted(target.name for target in signalled) == sorted(target.name for target in running)
    launched = [launch for each in plan.steps if each.kind == "launch" for launch in each.launches]
    assert tuple(launched) == plan.launches
    order = {kind: index for index, kind in reversed([*enumerate(kinds(plan))])}
    if running:
        assert order["preflight"] < order["stop"] < order["gone"] < order["free"] < order["launch"]
    assert kinds(plan)[-3:] == ["prove", "verify", "record"]
    assert all(each.limit_s > 0 and each.waits_for and each.title for each in plan.steps)
    assert all(one.kind != other.kind for one, other in pairwise(plan.steps))


@given(TARGETS.filter(bool))
def test_a_stop_starts_nothing(running: tuple[Target, ...]) -> None:
    plan = stop_plan(running)
    assert not any(each.launches for each in plan.steps)
    assert step(plan, "gone").targets == running
