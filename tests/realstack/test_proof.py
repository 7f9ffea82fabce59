"""The proof and the verification of a real pair."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from console.domain.profile import Profile
from console.domain.run_record import Proof, RunRecord
from console.profiles import Folders, load_profiles
from console.remote.local import LocalHost
from console.remote.sglang import SglangClient
from console.remote.tunnel import HostTransport
from console.services.proving import prove
from console.services.verifying import Sources, verify
from console.settings import shipped_folder
from tests.realstack.stack import HOME, RealServer, RealStack

pytestmark = pytest.mark.realstack

LIMIT_S = 8.0


@pytest.fixture
async def client() -> AsyncIterator[SglangClient]:
    async with contextlib.aclosing(SglangClient(HostTransport(LocalHost()))) as asked:
        yield asked


@pytest.fixture
def profile(real_stack: RealStack) -> Profile:
    """`cpu-pd`, which serve.sh starts, on the ports of this stack."""
    shipped = load_profiles(Folders(shipped_folder("profiles"))).profiles["cpu-pd"]
    ports = real_stack.ports
    prefill, decode = sorted(shipped.servers, key=lambda server: server.name != "prefill")
    change = msgspec.structs.replace
    assert shipped.router is not None
    return change(
        shipped,
        model=str(HOME / "model"),
        environment={
            **shipped.environment,
            "PYTHONPATH": _environ(real_stack.servers["decode"])["PYTHONPATH"],
        },
        servers=(
            change(
                prefill,
                port=ports.prefill,
                nccl_port=ports.prefill_nccl,
                bootstrap_port=ports.bootstrap,
            ),
            change(decode, port=ports.decode, nccl_port=ports.decode_nccl),
        ),
        router=change(shipped.router, port=ports.router, metrics_port=ports.router_metrics),
    )


@contextlib.contextmanager
def stopped(server: RealServer) -> Iterator[None]:
    """Its scheduler lives and does nothing."""
    pid = _scheduler(server.process.pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _scheduler(parent: int) -> int:
    (found,) = (
        child
        for child in map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
        if b"sglang::scheduler" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return found


def _environ(server: RealServer) -> dict[str, str]:
    entries = Path(f"/proc/{server.process.pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


async def proof_of(client: SglangClient, profile: Profile) -> Proof:
    return await prove(client, profile, time.time, LIMIT_S)


async def test_the_pair_is_proven(real_stack: RealStack, client: SglangClient, profile: Profile) -> None:
    for _ in range(2):
        # A page is one token on the CPU, and one prompt in sixteen begins with the digit of another.
        real_stack.flush_caches()
        proof = await proof_of(client, profile)
        assert proof.passed, proof.sentence
        assert proof.completion_tokens == 16
        assert proof.prompt_tokens is not None
        assert 256 < proof.prompt_tokens < 1500
        assert f"prefill computed {proof.prompt_tokens} tokens, decode generated " in proof.sentence
        assert "; 1 KV transfer of " in proof.sentence


async def test_a_scheduler_that_hangs_is_found_within_the_limit(
    real_stack: RealStack, client: SglangClient, profile: Profile
) -> None:
    with stopped(real_stack.servers["decode"]):
        began = time.monotonic()
        proof = await proof_of(client, profile)
        assert time.monotonic() - began < LIMIT_S + 1.0
    assert not proof.passed
    assert proof.sentence.startswith("no token through the router within ")
    assert proof.sentence.endswith(
        " s although the router says that both roles are healthy "
        "(prefill computed nothing, decode generated nothing): the pair is broken, restart both"
    )
    proof = await proof_of(client, profile)
    assert proof.passed, proof.sentence


async def test_settings_are_verified_and_a_changed_one_is_found(
    real_stack: RealStack, client: SglangClient, profile: Profile
) -> None:
    async def environment(run: RunRecord, names: Sequence[str]) -> Mapping[str, str]:
        there = _environ(real_stack.servers[run.role])
        return {name: there[name] for name in names if name in there}

    async def log_has(run: RunRecord, text: str) -> bool:
        return text in real_stack.servers[run.role].tail(lines=10**6)

    sources = Sources(client.server_info, environment, log_has)
    runs = [_run(server) for server in real_stack.servers.values()]
    found = await verify(sources, profile, runs, "0.5.15", time.time)
    assert found.differences == ()
    assert found.verified
    assert found.checked > 35

    other = msgspec.structs.replace(profile, flags={**profile.flags, "max-running-requests": 17})
    found = await verify(sources, other, runs, "0.5.15", time.time)
    assert [(each.server, each.setting, each.wanted, each.kind) for each in found.differences] == [
        (name, "flag --max-running-requests", "17", "rewritten") for name in ("prefill", "decode")
    ]


def _run(server: RealServer) -> RunRecord:
    return RunRecord(
        id=server.role,
        deployment="tests",
        profile="cpu-pd",
        name=server.role,
        role=server.role,
        pid=server.process.pid,
        start_ticks=0,
        launched_at=0.0,
        by="tests",
        argv=(),
        port=server.port,
        log=str(server.log),
    )
