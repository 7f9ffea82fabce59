"""From a profile to the words of a command line."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from console.domain.command_line import command_line, router_command_line
from console.domain.profile import Profile, server_environment
from console.profiles import Folders, load_profile, load_profiles
from console.settings import shipped_folder
from tests.unit.demo_modules import Import, demo_modules

SHIPPED = Folders(shipped_folder("profiles"))
PROFILES = load_profiles(SHIPPED).profiles


def line(profile: Profile, name: str, version: str | None = "0.5.15") -> str:
    (server,) = (server for server in profile.servers if server.name == name)
    return " ".join(command_line(server, profile, version).arguments)


@pytest.fixture
def pair() -> Profile:
    return load_profile("pd-ll", SHIPPED)


@pytest.fixture(scope="module")
def demo() -> Iterator[Import]:
    with demo_modules() as load:
        yield load


def test_a_prefill_server(pair: Profile) -> None:
    assert line(pair, "prefill").startswith(
        "-m sglang.launch_server --model-path /models/DeepSeek-V4-Flash --host 127.0.0.1 --port 30000 "
        "--nccl-port 31000 --tensor-parallel-size 4 --base-gpu-id 0 --numa-node 0 0 0 0 "
        "--disaggregation-mode prefill --disaggregation-bootstrap-port 8998 "
    )


def test_a_decode_server_has_a_node_for_each_gpu_up_to_its_last(pair: Profile) -> None:
    assert (
        "--base-gpu-id 4 --numa-node 1 1 1 1 1 1 1 1 --disaggregation-mode decode --served-model-name"
    ) in line(pair, "decode")


def test_nodes_of_gpus_with_gaps() -> None:
    profile = load_profile("tp8", SHIPPED)
    server = msgspec.structs.replace(profile.servers[0], gpus=(1, 3, 5), numa=(0, 0, 1))
    changed = msgspec.structs.replace(profile, servers=(server,))
    assert "--tensor-parallel-size 3 --base-gpu-id 1 --gpu-id-step 2 --numa-node 0 0 0 0 0 1 " in line(
        changed, "single"
    )


def test_tensor_parallel_size_is_what_is_left_of_the_gpus() -> None:
    profile = load_profile("tp8", SHIPPED)
    for flags, size in (
        ({"pp-size": 2}, 4),
        ({"dp-size": 4}, 2),
        ({"dp-size": 8, "enable-dp-attention": True}, 8),
        ({"attn-dp-size": 8}, 8),
    ):
        changed = msgspec.structs.replace(profile, flags=flags)
        assert f"--tensor-parallel-size {size} " in line(changed, "single", "0.5.23")


def test_a_server_without_gpus_is_told_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSV4_REALSTACK", "/stack")
    words = line(load_profile("cpu-single", SHIPPED), "single")
    assert words.startswith(
        "-m sglang.launch_server --model-path /stack/model --host 127.0.0.1 --port 30000 "
        "--nccl-port 31000 --device cpu "
    )


def test_a_version_gets_its_own_spelling(pair: Profile) -> None:
    assert "--cuda-graph-max-bs 32" in line(pair, "decode", "0.5.10")
    assert "--cuda-graph-max-bs-decode 32" in line(pair, "decode", "0.5.23")
    _, notes = command_line(pair.servers[0], pair, "0.5.7")
    assert [(note.flag, note.kind) for note in notes] == [
        ("cuda-graph-max-bs-decode", "renamed"),
        ("uvicorn-access-log-exclude-prefixes", "too new"),
    ]


def test_the_router_of_a_pair(pair: Profile) -> None:
    assert pair.router
    arguments, notes = router_command_line(pair.router, pair)
    assert " ".join(arguments) == (
        "-m sglang_router.launch_router --pd-disaggregation --prefill http://127.0.0.1:30000 8998 "
        "--decode http://127.0.0.1:30001 --host 127.0.0.1 --port 8000 --prometheus-host 127.0.0.1 "
        "--prometheus-port 29000 --policy random --health-check-timeout-secs 30 --disable-circuit-breaker"
    )
    assert notes == []


def test_the_router_of_replicas() -> None:
    profile = load_profile("tp2-x2", SHIPPED)
    assert profile.router
    words = " ".join(router_command_line(profile.router, profile).arguments)
    assert "--worker-urls http://127.0.0.1:30000 http://127.0.0.1:30001 --host" in words
    assert profile.entry_url == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:30000"),
        ("::", "http://[::1]:30000"),
        ("10.0.0.7", "http://10.0.0.7:30000"),
        ("fe80::1", "http://[fe80::1]:30000"),
    ],
)
def test_where_a_server_is_reached(pair: Profile, host: str, url: str) -> None:
    assert msgspec.structs.replace(pair.servers[0], host=host).url == url


def test_gpus_are_counted_as_nvidia_smi_counts(pair: Profile) -> None:
    for server in pair.servers:
        assert server_environment(pair, server)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    cpu = load_profile("cpu-pd", SHIPPED)
    assert "CUDA_DEVICE_ORDER" not in server_environment(cpu, cpu.servers[0])


@pytest.mark.parametrize(
    ("name", "profile"), [each for each in PROFILES.items() if each[0] != "demo-broken-flag"]
)
def test_the_parsers_of_0_5_23_and_router_0_3_2_take_every_profile(
    demo: Import, name: str, profile: Profile
) -> None:
    """The demo's tables of flags were made from the real parsers."""
    parse, parse_router = demo("sglang.server_args").parse, demo("sglang_router.router_args").parse
    for server in profile.servers:
        args = parse(command_line(server, profile, "0.5.23").arguments[2:])
        assert (args.role, args.port) == (server.role, server.port)
        assert args.gpus == server.gpus or not server.gpus
    if profile.router:
        router = parse_router(router_command_line(profile.router, profile).arguments[2:])
        assert router.port == profile.router.port
        assert [worker.url for worker in router.workers] == [server.url for server in profile.servers]
