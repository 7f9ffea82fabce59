"""A deployment of a real SGLang that breaks while clients use it: what is said of it, and how it is mended.

In order: what a test leaves on the host the next one begins with, and where that is missing, makes it anew.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from console.domain.errors import Locked, ReadOnly
from console.domain.plan import Plan
from console.services.watched_host import WatchedHost
from tests.realstack.deploying import Console, RealHost, scheduler
from tests.realstack.stack import HOME

pytestmark = pytest.mark.realstack

RESTART = "restart the pair (R)"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHost]:
    with RealHost(tmp_path_factory.mktemp("faults")) as host:
        yield host


async def have_pair(console: Console) -> None:
    """A pair that is up, or it is launched."""
    await console.until(lambda: console.seen().state != "starting", "what stands here to be known")
    if console.seen().state != "ready":
        result = await console.carry_out(await console.operator.switch_plan("pair"))
        assert result.state == "done", result.sentence


async def mend(console: Console) -> None:
    """Restart the pair and see that it is proven."""
    before = console.runs()
    result = await console.carry_out(await console.operator.restart_plan())
    assert result.state == "done", result.sentence
    assert console.seen().state == "ready"
    assert all(run.process != before[name].process for name, run in console.runs().items())


@pytest.mark.parametrize("name", ["decode", "prefill", "router"])
async def test_a_killed_process_breaks_the_pair_and_a_restart_mends_it(host: RealHost, name: str) -> None:
    async with host.console() as console:
        await have_pair(console)
        with host.load() as load:
            await console.until(lambda: load.answered > 2, "requests under way")
            os.kill(console.runs()[name].pid, signal.SIGKILL)
            noticed = await console.until_state("broken", limit_s=10.0)
            settled = console.seen()
            print(f"MEASURED kill {name}: {noticed:.2f} s; {settled}")
            await asyncio.sleep(20)
            settled = console.seen()
            print(f"MEASURED kill {name} later: {settled}")
            for view in console.watch.server_views(): print(view.process.role, view.state, view.phase, view.reason, view.since)
            assert settled.next == RESTART
            begun = time.monotonic()
            await mend(console)
            print(f"MEASURED restart after kill {name}: {time.monotonic() - begun:.1f} s; load {load.answered} {load.failed}")
        assert host.complete(host.ports.router) == 8


async def test_a_scheduler_that_stands_still_is_noticed(host: RealHost) -> None:
    async with host.console() as console:
        await have_pair(console)
        with host.load() as load:
            await console.until(lambda: load.answered > 2, "requests under way")
            pid = scheduler(console.runs()["decode"])
            os.kill(pid, signal.SIGSTOP)
            try:
                noticed = await console.until(lambda: console.seen().state != "ready", "its silence", 90.0)
                print(f"MEASURED stop: {noticed:.2f} s; {console.seen()}")
            finally:
                os.kill(pid, signal.SIGCONT)
            back = await console.until_state("ready", limit_s=60.0)
            print(f"MEASURED cont: {back:.2f} s; {console.seen()}")
        assert host.complete(host.ports.router) == 8


FOREIGN = """
import sys, psutil, zmq
context = zmq.Context()
for found in psutil.Process(int(sys.argv[1])).net_connections("tcp"):
    if found.status == psutil.CONN_LISTEN:
        print(found.laddr)
        socket = context.socket(zmq.PUSH)
        socket.connect(f"tcp://{found.laddr.ip}:{found.laddr.port}")
        socket.send_multipart([b"foreign traffic"])
        socket.close(linger=1000)
context.term()
"""


def end_bootstrap_thread(console: Console) -> None:
    """What a port scanner may do: a message that is none of SGLang's, and prefill's thread dies of it."""
    run = console.runs()["prefill"]
    done = subprocess.run([HOME / "venv" / "bin" / "python", "-c", FOREIGN, str(scheduler(run))], check=True, timeout=30.0, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    print(Path(run.log).read_text()[-3000:])


async def test_a_dead_bootstrap_thread_is_caught_by_the_proof(host: RealHost) -> None:
    async with host.console() as console:
        await have_pair(console)
        plan = quick(await console.operator.restart_plan())
        result = await console.carry_out(plan, after={"router": lambda: end_bootstrap_thread(console)})
        print("MEASURED bootstrap", result.sentence, console.seen())
        for view in console.watch.server_views(): print(view.process.role, view.state, view.phase, view.reason, view.since)
        assert result.state == "failed"
        assert console.seen().state == "broken"
        await mend(console)
        assert host.complete(host.ports.router) == 8


def quick(plan: Plan) -> Plan:
    """With little patience for the proof."""
    replace = msgspec.structs.replace
    steps = (replace(step, limit_s=15.0) if step.kind == "prove" else step for step in plan.steps)
    return replace(plan, steps=tuple(steps))


async def test_a_console_that_dies_while_another_looks_on(host: RealHost) -> None:
    async with host.console("another@console") as console:
        await have_pair(console)
        with host.verb("restart", "--yes") as dying:
            starting = lambda: set(console.runs()) >= {"prefill", "decode"} and console.seen().state == "starting"
            await console.until(starting, "both roles to be launched anew", 60.0)
            assert re.search(r"is changing this host since \d\d:\d\d:\d\d: restart pair", console.operator.refusal() or "")
            plan = await console.operator.stop_plan()
            with pytest.raises(ReadOnly, match="is changing this host since"):
                console.operator.execute(plan)
            with pytest.raises(Locked, match="is changing this host since"):
                await WatchedHost(console.watch, "another@console").lock("anything")
            assert console.watch.records.interrupted is False
            runs = console.runs()
            dying.kill()
        noticed = await console.until(console.operator.interrupted, "the death")
        print(f"MEASURED death {noticed:.2f}", console.operator.interrupted(), console.seen())
    async with host.console("third@console") as console:
        assert console.operator.interrupted()
        plan = await console.operator.restart_plan()
        assert plan.verb == "resume"
        result = await console.carry_out(plan)
        print(result.sentence)
        assert result.state == "done", result.sentence
        assert console.seen().state == "ready"
        assert {name: run.process for name, run in console.runs().items() if name in runs} == {name: run.process for name, run in runs.items()}
    assert host.complete(host.ports.router) == 8
