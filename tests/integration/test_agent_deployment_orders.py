"""The orders about deployments, from the console's side, to agents on this machine."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from console.domain.errors import HostRefused
from console.domain.host_facts import Holders, HostFacts
from console.domain.run_record import DeploymentRecord, HostRecords, PlanRecord, RunRecord
from console.profiles import Folders, load_profile
from console.remote.local import LocalHost
from console.settings import shipped_folder
from tests.integration.agent_session import WAITS, Environment, Groups, Signalled, asked, session
from tests.integration.waiting import eventually
from tests.unit.agent_runs import end_run


def said(run: RunRecord) -> str:
    return Path(run.log).read_text()


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalHost]:
    monkeypatch.setenv("DSV4_AGENT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DSV4_AGENT_ONLY_ENV", f"DSV4_TEST={tmp_path}")
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    host = LocalHost()
    yield host
    await host.close()
    for record in sorted((tmp_path / "state").glob("runs/*/run.json")):
        end_run(json.loads(record.read_text()))


async def test_a_run_from_launch_to_end(host: LocalHost, tmp_path: Path) -> None:
    async with session(host) as here:
        assert here.records == HostRecords()
        assert (await here.lock()).held
        assert here.records.lock is not None, "told before the answer"
        run = await here.launch("r1")
        assert here.records.runs == (run,)
        assert run.boot_id == here.link.hello.boot_id
        assert run.log == str(tmp_path / "state/runs/r1/prefill.log")
        await eventually(lambda: said(run), "nothing is in the log")
        assert said(run) == "C.UTF-8\n", "the login's locale, not the agent's"
        names = ["NCCL_PROTO", "NCCL_ALGO", "DSV4_RUN", "DSV4_LOGIN_LC_ALL"]
        environment = (await here.link.value(Environment, "environment", run="r1", names=names)).environment
        assert environment == {"NCCL_PROTO": "LL", "DSV4_RUN": "r1"}
        (group,) = (await here.link.value(Groups, "look", runs=["r1"], servers=[])).groups
        assert [(fact.process, fact.run) for fact in group.members] == [(run.process, "r1")]
        done = await here.link.value(Signalled, "signal", runs=["r1"], processes=[], signal="TERM")
        assert (done.signalled, done.refused) == ((run.pid,), ())
        await eventually(lambda: here.records.runs == (), "its end was not told")
        (group,) = (await here.link.value(Groups, "look", runs=["r1"], servers=[])).groups
        assert (group.members, group.exit_code) == ((), -signal.SIGTERM)
        await here.link.obey("unlock")
        assert here.records.lock is None


async def test_a_run_outlives_its_session_and_the_next_one_knows_it(host: LocalHost) -> None:
    async with session(host) as first:
        await first.lock()
        run = await first.launch("r1")
        agent = first.link.hello.pid
    await eventually(lambda: not Path(f"/proc/{agent}").exists(), "the agent is still there")
    async with session(host) as second:
        assert second.records.runs == (run,)
        assert second.records.lock is None, "a lock ends with its agent"
        await second.lock()
        await second.link.value(Signalled, "signal", runs=["r1"], processes=[], signal="KILL")
        await eventually(lambda: second.records.runs == (), "it still lives")


async def test_a_second_session_sees_all_and_is_told_who_holds_the_lock(host: LocalHost) -> None:
    async with session(host) as first, session(host) as second:
        await first.lock()
        profile = load_profile("pd-nvfp4", Folders(shipped_folder("profiles")))
        plan = PlanRecord(id="p1", verb="switch", by="me@desk", begun_at=1.0, steps=("launch", "record"))
        deployment = DeploymentRecord(id="d1", profile=profile, runs=("r1",), by="me@desk", begun_at=1.0)
        await first.link.obey("write", name="plan", content=msgspec.to_builtins(plan))
        await first.link.obey("write", name="deployment", content=msgspec.to_builtins(deployment))
        await eventually(lambda: second.records.deployment == deployment, "the deployment was not told")
        assert second.records.plan == plan
        refused = await second.lock("you@lap")
        assert not refused.held
        assert refused.holder is not None
        assert (refused.holder.by, refused.holder.pid) == ("me@desk", first.link.hello.pid)
        assert second.records.lock == refused.holder
        with pytest.raises(HostRefused, match="does not hold the lock"):
            await second.launch("r2")
        await first.end()
        await eventually(lambda: second.records.interrupted, "that the plan was left was not told")
        assert (await second.lock("you@lap")).held


async def test_a_read_only_session_changes_nothing(host: LocalHost, tmp_path: Path) -> None:
    async with session(host, readonly=True) as here:
        await here.link.obey("readonly", on=False)
        with pytest.raises(HostRefused, match="read-only"):
            await here.lock()
        with pytest.raises(HostRefused, match="read-only"):
            await here.launch("r1")
        assert not (tmp_path / "state").exists()


async def test_what_cannot_be_executed_is_told(host: LocalHost) -> None:
    async with session(host) as here:
        await here.lock()
        order = asked("r1", WAITS) | {"argv": ["/no/python"]}
        with pytest.raises(HostRefused, match="/no/python: No such file or directory"):
            await here.link.value(RunRecord, "launch", run=order)


async def test_questions_about_the_host_are_answered_beside(host: LocalHost, tmp_path: Path) -> None:
    async with session(host) as here:
        await here.lock()
        run = await here.launch("r1", LISTENS)
        await eventually(lambda: "\n" in said(run), "it does not listen")
        port = int(said(run))
        held = await here.link.value(Holders, "holders", ports=[port])
        assert [(fact.port, fact.holder and fact.holder.run) for fact in held.ports] == [(port, "r1")]
        facts = await here.link.value(HostFacts, "inspect", paths=["/"], pythons=[], disks=[], sudo=False)
        assert facts.state_folder == str(tmp_path / "state")
        assert "NCCL_ALGO" in facts.inherited
        os.kill(run.pid, signal.SIGKILL)
        await eventually(lambda: here.records.runs == (), "its end was not told")


LISTENS = """
import signal, socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
signal.pause()
"""
