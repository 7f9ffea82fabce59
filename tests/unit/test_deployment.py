"""What servers and records amount to: ready is a conclusion of a pair, and one role's death is the pair's."""

from __future__ import annotations

from typing import TypeVar, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.domain.deployment import NO_DEPLOYMENT, Deployment, observed, plan_under_way
from console.domain.diagnosis import judge
from console.domain.gpu import NO_GPUS, GpuProcess, GpuReport, GpuSample
from console.domain.run_record import DeploymentStage, Difference, HostRecords, Proof, Verification
from console.domain.server_view import ServerView
from tests.unit.deployed import (
    DECODE_RUN,
    LAUNCHED,
    NOON,
    PAIR,
    PLAN,
    PREFILL_RUN,
    PROOF,
    PROVEN,
    RECORD,
    ROUTER_RUN,
    VERIFIED,
    VIEWS,
    records,
    run,
    seen,
    view,
)

RESTART = "restart the pair (R)"
T = TypeVar("T")
changed = msgspec.structs.replace

DEAD_PREFILL = changed(PREFILL_RUN, alive=False, exit_code=137)
DEAD_DECODE = changed(DECODE_RUN, alive=False, exit_code=1)
DEAD_ROUTER = changed(ROUTER_RUN, alive=False, exit_code=1)
UNPROVEN = changed(RECORD, proof=None, verification=None)
REPLACEMENT = run("prefill", 30000, 6001, (0, 1), launched_at=NOON)
"""What somebody started by hand where prefill was; no run of the console's."""


# Ready


def test_a_proven_pair_is_ready_since_the_last_of_it_was() -> None:
    assert observed(VIEWS, records()) == Deployment(
        profile="pd-ll", state="ready", verified=True, since=NOON - 180.0, proven_at=PROVEN
    )


def test_the_log_clock_runs_in_the_zone_of_the_host() -> None:
    east = tuple(changed(each, since=NOON - 180.0 + 7200.0) for each in VIEWS)
    assert observed(east, records(), utc_offset_s=7200.0).since == NOON - 180.0


def test_roles_that_are_up_are_no_proof() -> None:
    """D09: every role is ready, and no request has gone through."""
    found = observed(VIEWS, records(deployment=UNPROVEN))
    assert (found.state, found.verified, found.proven_at) == ("roles up", None, None)
    assert "not proven" in judge(VIEWS, NO_GPUS, found).text
    assert observed(VIEWS).state == "roles up"
    assert observed(VIEWS).profile is None


def test_a_proof_that_failed_breaks_it() -> None:
    proof = Proof(passed=False, at=PROVEN, sentence="no token in 60 s: decode waits for KV")
    found = observed(VIEWS, records(deployment=changed(RECORD, proof=proof)))
    assert (found.state, found.sentence, found.next) == ("broken", proof.sentence, RESTART)
    assert found.proven_at is None


def test_settings_that_differ_are_told_of_a_ready_pair() -> None:
    different = Verification(
        at=PROVEN,
        checked=24,
        differences=(
            Difference(
                server="decode", setting="flag --page-size", wanted="64", actual="32", kind="rewritten"
            ),
        ),
    )
    found = observed(VIEWS, records(deployment=changed(RECORD, verification=different)))
    assert (found.state, found.verified) == ("ready", False)


def test_a_server_alone_needs_no_proof() -> None:
    single = changed(PAIR, kind="single", name="tp4", router=None)
    alone = run("single", 30000, 1, id="s")
    record = changed(UNPROVEN, profile=single, runs=("s",))
    found = observed((view(alone),), HostRecords(runs=(alone,), deployment=record))
    assert (found.profile, found.state) == ("tp4", "ready")


UNWELL = (
    ("ready", "stalled"),
    ("ready", "degraded"),
    ("starting", "loading"),
    ("failed", "crashed"),
    ("gone", "stopping"),
    ("gone", "gone"),
)


@st.composite
def mostly(draw: st.DrawFn, good: T, *others: T) -> T:
    """`good`, but for one time in ten."""
    return draw(st.sampled_from(others)) if draw(st.integers(0, 9)) == 9 else good


@st.composite
def conditions(draw: st.DrawFn) -> tuple[tuple[ServerView, ...], HostRecords]:
    """A pair that is proven and well, but for whatever may have happened to its runs, records and plan."""
    runs, views = [], []
    for known in (PREFILL_RUN, DECODE_RUN, ROUTER_RUN):
        launched = draw(mostly(LAUNCHED, PROVEN + 1.0))
        each = changed(known, alive=draw(mostly(True, False)), launched_at=launched)
        state, phase = draw(mostly(("ready", "ready"), *UNWELL))
        runs += draw(mostly([each], []))
        views += draw(mostly([view(each, state, phase=phase)], []))
        successor = view(changed(each, pid=9000 + each.pid, launched_at=NOON))
        views += draw(mostly([], [successor]))
    proof = draw(mostly(PROOF, None, changed(PROOF, passed=False)))
    record = changed(RECORD, proof=proof, stage=draw(mostly("up", *get_args(DeploymentStage))))
    plan = draw(mostly(None, PLAN, changed(PLAN, state="failed")))
    found = records(deployment=record, plan=plan, held=draw(st.booleans()))
    return tuple(views), changed(found, runs=tuple(runs))


@given(conditions())
@settings(max_examples=500, deadline=None)
def test_no_half_of_a_pair_is_ever_called_ready(
    condition: tuple[tuple[ServerView, ...], HostRecords],
) -> None:
    views, of = condition
    found = observed(views, of)
    assert (found.sentence is not None) or found.state != "broken"
    if found.state != "ready" or found.profile is None:
        return
    assert of.deployment is not None
    assert of.deployment.proof == PROOF
    assert len(of.runs) == 3
    assert all(each.alive for each in of.runs)
    assert all(each.launched_at < PROOF.at for each in of.runs if each.role != "router")
    own = {each.process.key: each for each in views}
    assert all(own[each.process].state == "ready" for each in of.runs)
    assert all(own[each.process].phase in (None, "ready") for each in of.runs)


# Broken


def test_a_role_that_is_newer_than_the_proof_breaks_the_pair() -> None:
    """D01: at no time between the restart of prefill alone and a new proof is it ready."""
    for state in ("starting", "ready"):
        views = seen(view(REPLACEMENT, state))
        found = observed(views, records(DEAD_PREFILL))
        assert found.state == "broken"
        assert found.sentence == (
            "prefill is newer than the proof: prefill started 12:00:00, decode started 11:55:00,"
            " proven 11:56:40"
        )
        assert found.next == RESTART
        assert (found.verified, found.proven_at) == (None, None)
    relaunched = changed(PREFILL_RUN, launched_at=NOON)
    assert observed(seen(view(relaunched)), records(relaunched)).state == "broken"


def test_a_pair_that_somebody_else_started_whole_is_his() -> None:
    other = run("decode", 30001, 6002, launched_at=NOON)
    found = observed(seen(view(REPLACEMENT), view(other)), records(DEAD_PREFILL, DEAD_DECODE))
    assert (found.profile, found.state) == (None, "roles up")


def test_the_first_death_is_the_headline_and_the_other_role_a_consequence() -> None:
    """D04."""
    prefill = view(
        PREFILL_RUN, "failed", phase="crashed", since=NOON, reason="killed from outside (signal 9)"
    )
    decode = view(
        DECODE_RUN,
        "failed",
        phase="failed",
        since=NOON + 21,
        reason="/health answers 503",
        next="look at GPUs",
    )
    views = seen(prefill, decode)
    found = observed(views, records(DEAD_PREFILL))
    assert found.state == "broken"
    assert found.sentence == "prefill died (exit 137) at 12:00:00; decode unhealthy as a consequence"
    assert (found.next, found.since) == (RESTART, NOON)
    verdict = judge(views, NO_GPUS, found)
    assert verdict.text == f"pd-ll broken: {found.sentence}. Next: {RESTART}"
    assert any("/health answers 503" in line for line in verdict.evidence)


@pytest.mark.parametrize("decode_at", [NOON - 5.0, None])
def test_without_times_a_death_comes_before_a_failed_health_check(decode_at: float | None) -> None:
    decode = view(DECODE_RUN, "failed", phase="failed", since=decode_at, reason="/health answers 503")
    found = observed(seen(decode, without=["prefill"]), records(DEAD_PREFILL))
    assert found.sentence == "prefill died (exit 137); decode unhealthy as a consequence"


def test_who_died_first_is_told_by_the_times() -> None:
    prefill = view(PREFILL_RUN, "failed", phase="crashed", since=NOON + 9, reason="lost")
    decode = view(DECODE_RUN, "failed", phase="crashed", since=NOON, reason="out of memory.")
    found = observed(seen(prefill, decode), records(DEAD_PREFILL, DEAD_DECODE))
    assert found.sentence == (
        "decode died (exit 1) at 12:00:00: out of memory; prefill died (exit 137) at 12:00:09"
    )


def test_a_signal_and_an_end_in_order_are_told_as_such() -> None:
    killed = changed(DECODE_RUN, alive=False, exit_code=-9)
    ended = changed(DECODE_RUN, alive=False, exit_code=0)
    unknown = changed(DECODE_RUN, alive=False)
    said = [observed(seen(without=["decode"]), records(each)).sentence for each in (killed, ended, unknown)]
    assert said == ["decode died (signal 9)", "decode ended (exit 0)", "decode died"]


def test_a_server_that_is_gone_is_dead_though_its_children_live() -> None:
    found = observed(seen(view(DECODE_RUN, "gone", phase="gone", since=NOON)), records())
    assert (found.state, found.sentence) == ("broken", "decode died at 12:00:00")


def test_a_stopped_process_breaks_the_pair() -> None:
    frozen = view(
        DECODE_RUN, "failed", phase="stalled", reason="the process is stopped by a signal (SIGSTOP)"
    )
    found = observed(seen(frozen), records())
    assert found.state == "broken"
    assert found.sentence == "decode failed at 11:57:00: the process is stopped by a signal (SIGSTOP)"


def test_without_its_router_nothing_is_served() -> None:
    found = observed(seen(without=["router"]), records(DEAD_ROUTER))
    assert (found.state, found.next) == ("broken", RESTART)
    assert found.sentence == "the router died (exit 1); nothing is served"


def test_another_router_asks_for_a_proof() -> None:
    other = run("router", 8000, 6003, launched_at=NOON)
    found = observed(seen(view(other)), records(DEAD_ROUTER))
    assert (found.state, found.sentence) == ("roles up", "the router was started anew by somebody else")


def test_replicas_go_on_while_one_of_them_serves() -> None:
    record = changed(UNPROVEN, profile=changed(PAIR, kind="replicas"))
    assert observed(seen(without=["decode"]), records(DEAD_DECODE, deployment=record)).state == "degraded"
    gone = seen(without=["decode", "prefill"])
    assert observed(gone, records(DEAD_DECODE, DEAD_PREFILL, deployment=record)).state == "broken"


def test_a_server_of_which_nothing_is_known_breaks_the_pair() -> None:
    record = changed(RECORD, runs=(*RECORD.runs, "d1.lost"))
    found = observed(VIEWS, records(deployment=record))
    assert (found.state, found.sentence) == (
        "broken",
        "1 of its 4 processes was not launched, or left no record",
    )


# Degraded


@pytest.mark.parametrize(
    ("router", "state", "said"),
    [
        (
            view(ROUTER_RUN, open_breakers=1),
            "degraded",
            "the router's circuit breaker is open for 1 of its workers; prefill and decode are healthy",
        ),
        (
            view(ROUTER_RUN, "failed", phase="failed", reason="insufficient healthy prefill servers"),
            "broken",
            "the router does not use its workers: insufficient healthy prefill servers;"
            " prefill and decode are healthy",
        ),
        (
            view(ROUTER_RUN, phase="degraded", reason="no healthy worker of one role"),
            "degraded",
            "the router does not use its workers: no healthy worker of one role;"
            " prefill and decode are healthy",
        ),
    ],
)
def test_healthy_servers_that_get_no_requests_point_at_the_router(
    router: ServerView, state: str, said: str
) -> None:
    """D06: the router, which takes seconds, before the pair."""
    found = observed(seen(router), records())
    assert (found.state, found.sentence) == (state, said)
    assert found.next == f"restart the router, which takes seconds; {RESTART} if that does not help"
    assert judge(seen(router), NO_GPUS, found).text.startswith(f"pd-ll {state}: the router")


def test_requests_that_fail_between_healthy_servers_are_told() -> None:
    """D03."""
    reason = "215 requests in a row failed: session marked not alive"
    found = observed(seen(view(PREFILL_RUN, phase="degraded", reason=reason)), records())
    assert (found.state, found.sentence, found.next) == ("degraded", f"prefill degraded: {reason}", RESTART)


def test_a_server_whose_work_does_not_move_is_not_ready() -> None:
    stuck = seen(view(DECODE_RUN, phase="stalled", reason="no token for 50 s, with 2 requests at hand"))
    assert observed(stuck, records()).state == "degraded"
    assert observed(stuck).state == "degraded"


# Plans


@pytest.mark.parametrize(("stage", "state"), [("starting", "starting"), ("stopping", "stopping")])
def test_what_a_plan_works_on_is_no_death(stage: DeploymentStage, state: str) -> None:
    found = observed(
        seen(view(PREFILL_RUN, "gone", phase="gone")),
        records(DEAD_DECODE, deployment=changed(UNPROVEN, stage=stage), plan=PLAN, held=True),
    )
    assert (found.state, found.since) == (state, LAUNCHED)


def test_before_a_plan_touches_it_the_deployment_is_what_it_was() -> None:
    assert observed(VIEWS, records(plan=PLAN, held=True)).state == "ready"
    assert observed(seen(), records(DEAD_PREFILL, plan=PLAN, held=True)).state == "broken"


def test_half_a_pair_is_no_verdict_while_the_other_half_is_being_launched() -> None:
    half = (view(PREFILL_RUN, "starting", reason="loading"),)
    assert judge(half, NO_GPUS).text.startswith("half a pair")
    starting = changed(NO_DEPLOYMENT, state="starting")
    assert judge(half, NO_GPUS, starting).text == "prefill :30000 starting"


@pytest.mark.parametrize(
    ("views", "runs", "state"),
    [
        (VIEWS, ("prefill", "decode", "router"), "roles up"),
        (seen(view(DECODE_RUN, "starting")), ("prefill", "decode", "router"), "starting"),
        (seen(without=["decode", "router"]), ("prefill",), "starting"),
    ],
)
def test_a_start_that_nobody_carries_on_is_told(
    views: tuple[ServerView, ...], runs: tuple[str, ...], state: str
) -> None:
    everything = records(deployment=changed(UNPROVEN, stage="starting"), plan=PLAN)
    left = changed(everything, runs=tuple(each for each in everything.runs if each.name in runs))
    assert left.interrupted
    assert plan_under_way(left) is None
    found = observed(views, left)
    assert found.state == state
    assert found.sentence == "ops@laptop: switch to pd-ll stands at step 5/12, and nobody carries it on"


def test_an_aborted_proof_leaves_roles_that_are_up() -> None:
    plan = changed(PLAN, state="aborted", note="the servers go on running, not proven")
    found = observed(VIEWS, records(deployment=changed(UNPROVEN, stage="starting"), plan=plan))
    assert (found.state, found.sentence) == ("roles up", "the servers go on running, not proven")


def test_until_its_servers_are_seen_a_deployment_is_starting() -> None:
    found = observed((), records())
    assert (found.state, found.sentence) == ("starting", "prefill, decode, the router not seen yet")


def test_a_start_that_failed_is_told_until_the_next_plan() -> None:
    record = changed(UNPROVEN, stage="failed", note="decode ran out of memory; everything was stopped again")
    gone = changed(PREFILL_RUN, alive=False)
    dead = records(gone, DEAD_DECODE, DEAD_ROUTER, deployment=record)
    crashed = view(DECODE_RUN, "failed", phase="crashed", reason="out of memory")
    found = observed((crashed,), dead)
    assert (found.profile, found.state, found.sentence) == ("pd-ll", "failed", record.note)
    assert judge((), NO_GPUS, found).text.startswith("pd-ll failed: decode ran out of memory")
    assert observed((view(REPLACEMENT),), dead).state != "failed"


# Stopping


def test_a_stop_is_complete_when_nothing_is_left() -> None:
    stopped = records(DEAD_PREFILL, DEAD_DECODE, DEAD_ROUTER, deployment=changed(RECORD, stage="stopped"))
    assert observed((), stopped) == NO_DEPLOYMENT
    assert observed((view(DECODE_RUN, "failed", phase="crashed"),), stopped) == NO_DEPLOYMENT


@pytest.mark.parametrize("stage", ["stopping", "stopped"])
def test_schedulers_that_outlive_their_server_are_an_incomplete_stop(stage: DeploymentStage) -> None:
    """C02: the parent is gone, its children keep the GPUs."""
    left = records(DEAD_DECODE, DEAD_ROUTER, deployment=changed(RECORD, stage=stage))
    orphans = GpuReport(
        source="nvml",
        gpus=(
            GpuSample(index=0, processes=(GpuProcess(pid=41931, mem_mib=100_998.0),)),
            GpuSample(index=1, processes=(GpuProcess(pid=41932, mem_mib=101_044.0, server_pid=5857),)),
            GpuSample(index=2, processes=(GpuProcess(pid=50000, mem_mib=8_000.0),)),
        ),
    )
    found = observed((), left, report=orphans)
    assert found.state == "failed"
    assert found.sentence == "STOP INCOMPLETE: 2 processes, 202042 MiB still held on GPU 0,1"
    assert found.next == "stop again (S)"
    blind = observed((), left)
    assert blind.sentence == "STOP INCOMPLETE: processes of prefill still live"


def test_a_stop_that_failed_says_why() -> None:
    plan = changed(
        PLAN, verb="stop", profile=None, state="failed", note="STOP INCOMPLETE: port 30000 is held"
    )
    stuck = records(
        DEAD_PREFILL, DEAD_DECODE, DEAD_ROUTER, deployment=changed(RECORD, stage="stopping"), plan=plan
    )
    found = observed((), stuck)
    assert (found.state, found.sentence) == ("failed", "STOP INCOMPLETE: port 30000 is held")


# The verdict


def test_a_proven_pair_is_called_so() -> None:
    found = observed(VIEWS, records())
    assert judge(VIEWS, NO_GPUS, found).text == "pd-ll is ready, proven by a real request"
    assert found.verified is VERIFIED.verified
