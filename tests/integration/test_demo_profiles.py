"""The demo's profiles on the demo host, launched and ended by the console's agent as on any host."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from console.demo.host import MODELS
from console.domain.gpu import GpuSample, Sample
from console.domain.host_facts import FlagChecks, Group, Holders, HostFacts
from console.domain.launch import Launch, launches
from console.domain.profile import Profile, ServerSpec, server_environment
from console.domain.run_record import HostRecords, RunRecord
from console.domain.verification import Seen, compare, log_patterns
from console.profiles import Folders, load_profile
from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.ssh import SshHost
from console.settings import shipped_folder
from tests.integration.demo_process import Demo, running_demo
from tests.integration.waiting import PATIENCE_S, eventually, wait_until

READY = "The server is fired up and ready to roll!"
LONG_PROMPT = "Tell me of the sea, and of what is under it. " * 40


class Looked(msgspec.Struct):
    """The value of the order `look`."""

    groups: tuple[Group, ...]


class Environment(msgspec.Struct):
    """The value of the order `environment`."""

    environment: dict[str, str] | None


class Hand:
    """An agent on the demo host, and what it last said of itself."""

    def __init__(self, demo: Demo, link: AgentLink) -> None:
        self.demo, self.link = demo, link
        self.records: HostRecords | None = None
        self.gpus: tuple[GpuSample, ...] = ()

    async def listen(self) -> None:
        async for frame in self.link.frames():
            if isinstance(frame, HostRecords):
                self.records = frame
            elif isinstance(frame, Sample):
                self.gpus = frame.gpu.gpus

    async def recorded(self) -> HostRecords:
        await eventually(lambda: self.records and self.records.runs, "no run is recorded")
        assert self.records is not None
        return self.records

    async def launch(self, profile: Profile) -> dict[str, RunRecord]:
        await self.link.obey("lock", by="tester@here", what=f"switch to {profile.name}")
        return {each.name: await self._launch(each, profile) for each in commands(profile)}

    async def _launch(self, launch: Launch, profile: Profile) -> RunRecord:
        run: dict[str, Any] = msgspec.to_builtins(launch)
        del run["notes"]
        asked = {
            "id": f"{launch.name}-new",
            "deployment": "new",
            "profile": profile.name,
            "by": "tester@here",
        }
        return await self.link.value(RunRecord, "launch", run=run | asked)

    async def end(self, name: str = "TERM") -> None:
        """End all runs, and wait until none of their processes lives."""
        runs = [run.id for run in (await self.recorded()).runs if run.alive]
        await self.link.obey("lock", by="tester@here", what="stop")
        await self.link.obey("signal", runs=runs, processes=[], signal=name)
        await until(lambda: self.are_over(runs), "a process lives on")

    async def are_over(self, runs: list[str]) -> bool:
        return not any(group.living for group in await self.look(runs))

    async def look(self, runs: list[str]) -> tuple[Group, ...]:
        return (await self.link.value(Looked, "look", runs=runs, servers=[])).groups

    async def held(self, ports: list[int]) -> Holders:
        return await self.link.value(Holders, "holders", ports=ports)

    async def are_free(self, ports: list[int]) -> bool:
        """The GPUs' holders are those of the last sample, which may be older than the end of a server."""
        held = await self.held(ports)
        return not held.ports and not any(gpu.holders for gpu in held.gpus)

    async def used_mib(self, *indices: int) -> list[float]:
        """Memory in use on these GPUs, from the next sample on."""
        self.gpus = ()
        await eventually(lambda: self.gpus, "no sample came")
        return [gpu.mem_used_mib or 0.0 for gpu in self.gpus if gpu.index in indices]


@asynccontextmanager
async def hand_on(demo: Demo) -> AsyncIterator[Hand]:
    said = demo.said
    host = SshHost(
        said["host"],
        name="demo",
        config=[],
        port=said["port"],
        username=said["username"],
        client_keys=[said["client_key"]],
        known_hosts=[said["known_hosts"]],
    )
    await host.connect()
    async with await AgentLink.start(host, AgentOptions(interval=0.2), sys.executable) as link:
        hand = Hand(demo, link)
        listening = asyncio.create_task(hand.listen())
        try:
            yield hand
        finally:
            listening.cancel()
            await asyncio.wait([listening])
    await host.close()


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Demo]:
    with running_demo(tmp_path, load=False) as demo:
        for name, text in demo.said["variables"].items():
            monkeypatch.setenv(name, text)
        wait_until(demo.is_ready, "the demo did not become ready")
        yield demo


@pytest.fixture
async def hand(demo: Demo) -> AsyncIterator[Hand]:
    async with hand_on(demo) as hand:
        yield hand


def profile_of(name: str) -> Profile:
    return load_profile(name, Folders(shipped_folder("profiles")))


def commands(profile: Profile) -> tuple[Launch, ...]:
    return launches(profile, sys.executable, "0.5.23")


def log(run: RunRecord) -> str:
    return Path(run.log).read_bytes().decode()


async def routes(demo: Demo, profile: Profile) -> bool:
    assert profile.router is not None
    return (await demo.ask(profile.router.port, "/readiness"))[0] == 200


async def until(condition: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Wait for something that has to be asked for."""
    deadline = time.monotonic() + PATIENCE_S
    while not await condition():
        assert time.monotonic() < deadline, otherwise
        await asyncio.sleep(0.05)


async def counted(demo: Demo, port: int) -> Counter[str]:
    """Counters of a server, and how often each of its histograms was observed."""
    _, page = await demo.ask(port, "/metrics")
    families = text_string_to_metric_families(page.decode())
    counted: Counter[str] = Counter()
    for sample in (sample for family in families for sample in family.samples):
        if sample.name.endswith(("_total", "_count")):
            counted[sample.name.removeprefix("sglang:")] += sample.value
    return counted


async def launched_and_ready(hand: Hand, profile: Profile) -> dict[str, RunRecord]:
    """In place of what runs."""
    await hand.end()
    runs = await hand.launch(profile)
    for server in profile.servers:
        run = runs[server.name]
        await eventually(lambda run=run: READY in log(run), f"{server.name} did not become ready")
    if profile.router:
        await until(lambda: routes(hand.demo, profile), "the router has no workers")
    return runs


async def seen(hand: Hand, profile: Profile, server: ServerSpec, run: RunRecord) -> Seen:
    """What can be learned of a server, as verification wants it."""
    _, answer = await hand.demo.ask(server.port, "/server_info")
    names = sorted(server_environment(profile, server))
    environment = await hand.link.value(Environment, "environment", run=run.id, names=names)
    texts = {text: bool(re.search(text, log(run))) for text in log_patterns(profile, server)}
    return Seen(info=json.loads(answer), environment=environment.environment, log=texts)


async def test_what_runs_at_first_was_launched_by_its_profile(hand: Hand) -> None:
    records = await hand.recorded()
    assert records.deployment is not None
    assert records.deployment.profile == profile_of("demo-pd")
    assert [(run.role, run.alive) for run in records.of_deployment()] == [
        ("prefill", True),
        ("decode", True),
        ("router", True),
    ]
    assert [run.argv for run in records.of_deployment()] == [
        launch.argv for launch in commands(records.deployment.profile)
    ]
    groups = await hand.look([run.id for run in records.of_deployment()])
    assert [len(group.living) for group in groups] == [6, 6, 1]
    assert records.lock is None


async def test_its_model_and_packages_are_found(hand: Hand) -> None:
    model = profile_of("demo-pd").model
    found = await hand.link.value(
        HostFacts,
        "inspect",
        paths=[model, f"{model}-not"],
        pythons=[sys.executable],
        disks=[model],
        sudo=False,
    )
    assert found.paths == {model: "folder", f"{model}-not": "missing"}
    packages = found.pythons[sys.executable].packages
    assert {"sglang", "sglang-router", "nixl", "torch"} <= packages.keys()
    assert packages["sglang"] == "0.5.23"
    assert found.inherited == ()


@pytest.mark.parametrize("name", ["demo-pd", "demo-ll", "demo-single", "demo-tp8"])
async def test_a_profile_is_launched_and_is_what_it_says(hand: Hand, name: str) -> None:
    profile = profile_of(name)
    runs = await launched_and_ready(hand, profile)
    for server in profile.servers:
        found = await seen(hand, profile, server, runs[server.name])
        differences, compared = compare(profile, server, "0.5.23", found)
        assert differences == ()
        assert compared > 15
    held = await hand.used_mib(*range(8))
    assert [mib > 40_000 if len(profile.servers[0].gpus) == 4 else mib > 20_000 for mib in held] == [
        index in profile.gpus for index in range(8)
    ]


async def test_a_request_moves_the_counters_of_both_roles(hand: Hand) -> None:
    demo, profile = hand.demo, profile_of("demo-pd")
    prefill, decode = (server.port for server in profile.servers)
    assert profile.router is not None
    before = [await counted(demo, port) for port in (prefill, decode)]
    body = {"prompt": LONG_PROMPT, "max_tokens": 16, "ignore_eos": True}
    status, answer = await demo.ask(profile.router.port, "/v1/completions", body)
    assert (status, json.loads(answer)["usage"]["completion_tokens"]) == (200, 16)
    after = [await counted(demo, port) for port in (prefill, decode)]
    moved = [
        {name for name, value in late.items() if value > early[name]}
        for early, late in zip(before, after, strict=True)
    ]
    common = {"num_requests_total", "prompt_tokens_total", "generation_tokens_total", "realtime_tokens_total"}
    assert common | {"kv_transfer_total_mb_count", "kv_transfer_speed_gb_s_count"} <= moved[0]
    assert common | {"kv_transfer_bootstrap_ms_count", "kv_transfer_alloc_ms_count"} <= moved[1]
    assert not {name for names in moved for name in names if "failed" in name}


async def test_ll_makes_decode_faster(hand: Hand) -> None:
    async def seconds(profile: Profile) -> float:
        assert profile.router is not None
        body = {"prompt": "Hello", "max_tokens": 64, "ignore_eos": True}
        begun = asyncio.get_running_loop().time()
        assert (await hand.demo.ask(profile.router.port, "/v1/completions", body))[0] == 200
        return asyncio.get_running_loop().time() - begun

    untuned = await seconds(profile_of("demo-pd"))
    await launched_and_ready(hand, profile_of("demo-ll"))
    assert await seconds(profile_of("demo-ll")) < untuned


async def test_the_parser_refuses_the_broken_flag_alone(hand: Hand) -> None:
    names = ("demo-pd", "demo-ll", "demo-single", "demo-tp8", "demo-oom", "demo-broken-flag")
    lines = [(name, launch.argv[1:]) for name in names for launch in commands(profile_of(name))]
    found = await hand.link.value(
        FlagChecks,
        "check_flags",
        python=sys.executable,
        environment={},
        lines=[line for _, line in lines],
    )
    assert found.note is None
    refused = [
        (name, each.refused) for (name, _), each in zip(lines, found.lines, strict=True) if each.refused
    ]
    slip = "unrecognized arguments: --chunked-prefill-tokens 8192"
    assert refused == [("demo-broken-flag", slip)] * 2


async def test_a_flag_that_is_ambiguous_is_refused_in_argparses_words(hand: Hand) -> None:
    line = ["-m", "sglang.launch_server", "--model-path", "/m", "--cuda-graph-max-bs", "8"]
    found = await hand.link.value(
        FlagChecks, "check_flags", python=sys.executable, environment={}, lines=[line]
    )
    assert found.lines[0].refused == (
        "ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, "
        "--cuda-graph-max-bs-prefill"
    )


async def test_out_of_memory_ends_decode_and_nothing_else(hand: Hand) -> None:
    await hand.end()
    runs = await hand.launch(profile_of("demo-oom"))
    decode = runs["decode"]
    await until(lambda: hand.are_over([decode.id]), "decode lives on")
    said = log(decode)
    assert "Exception: Capture cuda graph failed: CUDA out of memory." in said
    assert said.index("Capture target decode CUDA graph begin.") < said.index("Scheduler hit an exception")
    assert READY not in said
    await eventually(lambda: READY in log(runs["prefill"]), "prefill did not become ready")
    assert (await hand.look([decode.id]))[0].exit_code == -signal.SIGKILL
    assert await hand.used_mib(4, 5, 6, 7) == pytest.approx([0.0] * 4, abs=1000.0)


async def test_sigterm_frees_ports_and_gpus_and_is_said(hand: Hand) -> None:
    runs = {run.role: run for run in (await hand.recorded()).runs}
    await hand.end()
    assert "SIGTERM received. signum=None frame=None. Draining requests" in log(runs["decode"])
    ports = [port for run in runs.values() for port in run.ports]
    assert (await hand.held(ports)).ports == ()
    await until(lambda: hand.are_free(ports), "memory of a GPU is still held")


async def test_sigkill_ends_a_server_with_all_its_processes(hand: Hand) -> None:
    runs = [run.id for run in (await hand.recorded()).runs]
    await hand.end("KILL")
    assert [group.exit_code for group in await hand.look(runs)] == [-signal.SIGKILL] * 3


async def test_what_the_agent_launched_ends_with_the_demo(demo: Demo) -> None:
    async with hand_on(demo) as hand:
        runs = await launched_and_ready(hand, profile_of("demo-single"))
    await eventually(lambda: runs["single"].pid in demo.pids(), "it ended with its agent")
    assert demo.process.stdin is not None
    demo.process.stdin.close()
    await eventually(lambda: not demo.pids() and not demo.folder.exists(), "something is left")


async def test_two_demos_have_ports_of_their_own(demo: Demo, tmp_path: Path) -> None:
    with running_demo(tmp_path, load=False) as other:
        wait_until(other.is_ready, "the other demo did not become ready")
        prefixes = {each.said["variables"]["DSV4_DEMO_PORTS"] for each in (demo, other)}
        assert len(prefixes) == 2
        for each in (demo, other):
            assert (await each.ask(each.router_port(), "/readiness"))[0] == 200


def test_the_console_learns_which_ports_and_models_are_the_demos() -> None:
    script = (
        "import asyncio; from console.cli.demo_host import DemoProcess; "
        "from console.cli.operator import profile_folders; from console.profiles import load_profile; "
        "doors = asyncio.run(DemoProcess().doors()); profile = load_profile('demo-pd', profile_folders()); "
        "print(doors.client_key, doors.variables['DSV4_DEMO_PORTS'], profile.model, "
        "profile.servers[0].port)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    key, prefix, model, port = done.stdout.split()
    assert (model, port) == (str(MODELS / "DeepSeek-V4-Flash-NVFP4"), f"{prefix}00")
    assert Path(model, "config.json").is_file()
    wait_until(lambda: not Path(key).exists(), "the demo lives on")
