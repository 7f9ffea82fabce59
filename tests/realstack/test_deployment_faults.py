"""A deployment of a real SGLang that breaks while clients use it: what is said of it, and how it is mended.

In order: what a test leaves on the host the next one begins with, and where that is missing, makes it anew.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from console.cli.operator import who
from console.domain.errors import Locked, ReadOnly
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult
from console.services.watched_host import WatchedHost
from tests.integration.waiting import wait_until
from tests.realstack.deploying import Console, RealHost
from tests.realstack.processes import scheduler
from tests.realstack.stack import HOME, fetch

pytestmark = pytest.mark.realstack

RESTART = "restart the pair (R)"
FOREIGN_MESSAGE = """
import sys, psutil, zmq
context = zmq.Context()
for found in psutil.Process(int(sys.argv[1])).net_connections("tcp"):
    if found.status == psutil.CONN_LISTEN:
        socket = context.socket(zmq.PUSH)
        socket.connect(f"tcp://{found.laddr.ip}:{found.laddr.port}")
        socket.send_multipart([b"foreign traffic"])
        socket.close(linger=1000)
context.term()
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHost]:
    with RealHost(tmp_path_factory.mktemp("faults")) as host:
        yield host


@pytest.mark.parametrize(
    ("name", "called", "consequence"),
    [
        ("decode", "decode", ""),
        ("prefill", "prefill", ""),
        ("router", "the router", "; nothing is served"),
    ],
)
async def test_a_killed_process_breaks_the_pair_and_a_restart_mends_it(
    host: RealHost, name: str, called: str, consequence: str
) -> None:
    async with host.console() as console:
        await have_pair(console)
        with host.load() as load:
            await console.until(lambda: load.answered > 2, "requests to be answered")
            os.kill(console.runs()[name].pid, signal.SIGKILL)
            await console.until_state("broken", limit_s=10.0)
            # Requests that hang and a router that has not noticed yet must not make it look well again.
            answered, failed = load.answered, load.failed
            await console.until(lambda: load.failed > failed + 3, "requests to fail")
            assert load.answered <= answered + 1
            seen = console.seen()
            assert (seen.profile, seen.state, seen.next) == ("pair", "broken", RESTART)
            assert (seen.verified, seen.proven_at) == (None, None)
            # A code is known only where the agent that launched it was still there.
            pattern = (
                rf"{called} died( \(signal 9\))? at \d\d:\d\d:\d\d(: killed from outside[^;]*)?{consequence}"
            )
            assert re.fullmatch(pattern, seen.sentence or ""), seen.sentence
            before = console.runs()
            await see_proven(console, await console.carry_out(await console.operator.restart_plan()))
            assert all(run.process != before[each].process for each, run in console.runs().items())
        assert host.complete(host.ports.router) == 8


async def test_a_scheduler_that_stands_still_is_noticed(host: RealHost) -> None:
    async with host.console() as console:
        await have_pair(console)
        with host.load(patience_s=90.0) as load:
            await console.until(lambda: load.answered > 2, "requests to be answered")
            with stopped(scheduler(console.runs()["decode"])):
                # SGLang answers a health check after 20 s at the latest; one is asked for every 15 s.
                await console.until(lambda: console.seen().state != "ready", "its silence", 45.0)
                await console.until(lambda: health_of(console, "decode"), "its health to be told")
                assert console.seen().state in ("degraded", "broken")
                assert (console.seen().sentence or "").startswith("decode "), console.seen()
                assert console.seen().next == RESTART
            await console.until_state("ready")
            answered = load.answered
            await console.until(lambda: load.answered > answered + 2, "requests to be answered again")
        assert console.seen().state == "ready"


async def test_a_dead_bootstrap_thread_is_caught_by_the_proof(host: RealHost) -> None:
    async with host.console() as console:
        await have_pair(console)
        plan = with_proof_limit(await console.operator.restart_plan(), 15.0)
        result = await console.carry_out(plan, after={"router": lambda: end_bootstrap_thread(console)})
        for name in ("prefill", "decode"):
            assert fetch(f"http://127.0.0.1:{console.runs()[name].port}/health", 30.0) == ""
        assert result.state == "failed"
        assert result.sentence.startswith("no token through the router within ")
        assert result.sentence.endswith("; the servers go on running and are not called ready")
        assert result.deployment is not None
        assert result.deployment.stage == "broken"
        assert (console.seen().state, console.seen().next) == ("broken", RESTART)
        assert "a thread of the server died" in (console.seen().sentence or "")


async def test_a_console_that_dies_is_seen_by_another_and_a_third_goes_on(host: RealHost) -> None:
    async with host.console("second@console") as second:
        if not second.runs():
            await have_pair(second)
        with host.verb("restart", "--yes") as dying:
            await second.until(lambda: is_starting(second), "both roles to be launched anew", 60.0)
            refusal = second.operator.refusal() or ""
            assert re.match(rf"{who()} is changing this host since \d\d:\d\d:\d\d: restart pair", refusal)
            assert second.seen().state == "starting"
            plan = await second.operator.stop_plan()
            with pytest.raises(ReadOnly, match=re.escape(refusal)):
                second.operator.execute(plan)
            with pytest.raises(Locked, match=re.escape(refusal)):
                await WatchedHost(second.watch, "second@console").lock("anything")
            assert second.operator.interrupted() is None
            dying.kill()
        await second.until(second.operator.interrupted, "the death of the first")
        left = second.runs()
    async with host.console("third@console") as third:
        told = third.operator.interrupted() or ""
        assert told.startswith(f"{who()} began to restart pair and is gone since step "), told
        assert told.endswith("prefill and decode live")
        plan = await third.operator.restart_plan()
        assert plan.verb == "resume"
        await see_proven(third, await third.carry_out(plan))
        assert third.operator.interrupted() is None
        assert {name: third.runs()[name].process for name in left} == {
            name: run.process for name, run in left.items()
        }
    assert host.complete(host.ports.router) == 8
    assert len(list(host.state.glob(f"runs/{left['decode'].deployment}.*"))) == 3


async def have_pair(console: Console) -> None:
    """A pair that is up, or it is launched."""
    await console.until(lambda: console.seen().state != "starting", "what stands here to be known")
    if console.seen().state != "ready":
        await see_proven(console, await console.carry_out(await console.operator.switch_plan("pair")))


async def see_proven(console: Console, result: PlanResult) -> None:
    assert result.state == "done", result.sentence
    assert result.deployment is not None
    assert result.deployment.proof is not None
    assert result.deployment.proof.passed
    await console.until_state("ready", limit_s=5.0)


def health_of(console: Console, role: str) -> str | None:
    """What its health endpoint says, when it is not plainly well."""
    return next(view.health_note for view in console.watch.server_views() if view.process.role == role)


def is_starting(console: Console) -> bool:
    """Whether a plan has launched both roles and waits for them."""
    records = console.watch.records
    deployment = records.deployment
    under_way = records.lock is not None and deployment is not None and deployment.stage == "starting"
    return under_way and set(console.runs()) == {"prefill", "decode"}


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """It lives and does nothing."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def end_bootstrap_thread(console: Console) -> None:
    """As a port scanner may: a message that is none of SGLang's, of which a thread of prefill's dies."""
    run = console.runs()["prefill"]
    python = HOME / "venv" / "bin" / "python"
    subprocess.run([python, "-c", FOREIGN_MESSAGE, str(scheduler(run))], check=True, timeout=30.0)
    wait_until(lambda: "(bootstrap_thread)" in Path(run.log).read_text(), "its thread lives on")


def with_proof_limit(plan: Plan, limit_s: float) -> Plan:
    """The same plan with less patience."""
    replace = msgspec.structs.replace
    steps = (replace(step, limit_s=limit_s) if step.kind == "prove" else step for step in plan.steps)
    return replace(plan, steps=tuple(steps))
