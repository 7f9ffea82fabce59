"""Deployments of a real SGLang over a real sshd: each change ends with a request of the test's own.

In order: what a test leaves on the host the next one begins with, and where that is missing, makes it anew.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from console.domain.errors import HostRefused, ReadOnly
from console.domain.metrics import Reading, parse_reading
from console.domain.plan_progress import PlanResult
from tests.integration import numbered
from tests.realstack.deploying import Console, RealHost
from tests.realstack.stack import fetch

pytestmark = pytest.mark.realstack


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHost]:
    with RealHost(tmp_path_factory.mktemp("deployments")) as host:
        yield host


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's server on the same host, on a port that no profile wants."""
    waits = "import signal\nsignal.pause()\n"
    process = numbered.start(tmp_path_factory.mktemp("stranger"), "stranger", waits)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def port_holder(host: RealHost) -> Iterator[subprocess.Popen[str]]:
    """A program that is no server, and listens on the port of `single`."""
    program = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print(); input()"
    )
    command = [sys.executable, "-u", "-c", program, str(host.ports.single)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()


async def see_up(console: Console, result: PlanResult, profile: str) -> None:
    assert result.state == "done", result.sentence
    deployment = result.deployment
    assert deployment is not None
    assert (deployment.profile.name, deployment.stage) == (profile, "up")
    assert deployment.proof is not None
    assert deployment.proof.passed
    assert deployment.verification is not None
    assert deployment.verification.differences == ()
    await console.until_state("ready", limit_s=5.0)
    seen = console.seen()
    assert (seen.profile, seen.state, seen.verified) == (profile, "ready", True)


def counters(port: int) -> Reading:
    return parse_reading(fetch(f"http://127.0.0.1:{port}/metrics", 30.0), at=0.0)


async def test_a_port_in_use_is_refused_before_anything_is_touched(
    host: RealHost, port_holder: subprocess.Popen[str]
) -> None:
    async with host.console() as console:
        result = await console.carry_out(await console.operator.switch_plan("single"))
    assert result.state == "failed"
    assert f"port {host.ports.single}" in result.sentence
    assert f"pid {port_holder.pid}" in result.sentence
    assert result.sentence.endswith("nothing was changed")
    assert port_holder.poll() is None
    assert host.processes() == []


async def test_from_nothing_to_one_server_beside_a_strangers(
    host: RealHost, stranger: subprocess.Popen[bytes]
) -> None:
    async with host.console() as console:
        plan = await console.operator.switch_plan("single")
        assert plan.targets == ()
        await see_up(console, await console.carry_out(plan), "single")
        assert host.complete(host.ports.single) == 8
    assert stranger.poll() is None


async def test_from_one_server_to_a_pair(host: RealHost, stranger: subprocess.Popen[bytes]) -> None:
    async with host.console() as console:
        single = console.runs().get("single")
        plan = await console.operator.switch_plan("pair")
        assert [target.role for target in plan.targets] == (["single"] if single else [])
        await see_up(console, await console.carry_out(plan), "pair")
        assert host.complete(host.ports.router) == 8
        assert set(console.runs()) == {"prefill", "decode", "router"}
    with socket.create_server(("127.0.0.1", host.ports.single)):
        pass
    assert stranger.poll() is None


async def test_a_changed_setting_is_seen_in_the_servers(host: RealHost) -> None:
    async with host.console() as console:
        result = await console.carry_out(await console.operator.switch_plan("pair-few"))
        await see_up(console, result, "pair-few")
        assert host.setting(host.ports.prefill, "max_running_requests") == 7
        assert host.setting(host.ports.decode, "max_running_requests") == 7
        assert host.complete(host.ports.router) == 8


async def test_a_restart_launches_both_roles_anew_with_the_same_settings(host: RealHost) -> None:
    async with host.console() as console:
        before = console.runs()
        result = await console.carry_out(await console.operator.restart_plan())
        await see_up(console, result, "pair-few")
        after = console.runs()
        assert after.keys() == before.keys()
        for name, run in after.items():
            assert run.process != before[name].process
            assert run.argv == before[name].argv
            assert run.environment == before[name].environment
        router = next(view for view in console.watch.server_views() if view.process.role == "router")
        assert router.workers == "1+1"
        told = counters(host.ports.prefill)
        assert host.complete(host.ports.router) == 8
        now = counters(host.ports.prefill)
        assert (told.transfers or 0) >= 1
        assert now.transfers == (told.transfers or 0) + 1
        assert (now.transfer_failures or 0, now.bootstrap_failures or 0) == (0, 0)


async def test_readonly_is_refused_by_the_console_and_by_the_host(host: RealHost) -> None:
    async with host.console(readonly=True) as console:
        plan = await console.operator.stop_plan()
        with pytest.raises(ReadOnly, match="--readonly was given"):
            console.operator.execute(plan)
        link = console.watch.link
        orders: dict[str, dict[str, Any]] = {
            "lock": {"by": "tester", "what": "anything"},
            "signal": {
                "runs": [run.id for run in console.runs().values()],
                "processes": [],
                "signal": "KILL",
            },
            "write": {"name": "plan", "content": None},
            "launch": {"run": {"id": "x"}},
        }
        for order, fields in orders.items():
            with pytest.raises(HostRefused, match="this session is read-only"):
                await link.obey(order, **fields)
        await console.until_state("ready")
    assert host.complete(host.ports.router) == 8


async def test_a_stop_leaves_nothing(host: RealHost, stranger: subprocess.Popen[bytes]) -> None:
    async with host.console() as console:
        assert host.processes()
        result = await console.carry_out(await console.operator.stop_plan())
        assert result.state == "done", result.sentence
        # What is left is the stranger's.
        await console.until(lambda: console.seen().profile is None, "no deployment of ours")
        assert not any(run.alive for run in console.watch.records.runs)
    assert host.processes() == []
    for port in vars(host.ports).values():
        with socket.create_server(("127.0.0.1", port)):
            pass
    assert stranger.poll() is None
