"""Profiles that contradict themselves, each with the key and the reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.profile import Profile, RouterSpec, ServerSpec
from console.domain.profile_problems import problems

PREFILL = ServerSpec(name="prefill", gpus=(0, 1, 2, 3), port=30000, nccl_port=31000, bootstrap_port=8998)
DECODE = ServerSpec(name="decode", gpus=(4, 5, 6, 7), port=30001, nccl_port=31001)
ROUTER = RouterSpec(port=8000, metrics_port=29000)
PAIR = Profile(
    name="p",
    file="p.toml",
    title="",
    why="",
    source="",
    kind="pd",
    model="/m",
    servers=(PREFILL, DECODE),
    router=ROUTER,
)
SINGLE = msgspec.structs.replace(
    PAIR, kind="single", servers=(ServerSpec(name="s", gpus=(0, 1), port=1, nccl_port=2),), router=None
)


def pair(
    prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None, **changes: Any
) -> list[str]:
    """What is wrong with the pair, changed so."""
    servers = (
        msgspec.structs.replace(PREFILL, **(prefill or {})),
        msgspec.structs.replace(DECODE, **(decode or {})),
    )
    return problems(msgspec.structs.replace(PAIR, **{"servers": servers, **changes}))


def single(flags: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    server = msgspec.structs.replace(SINGLE.servers[0], **changes)
    return problems(msgspec.structs.replace(SINGLE, servers=(server,), flags=flags or {}))


def test_nothing_is_wrong() -> None:
    assert pair() == []
    assert single() == []


class TestUsedTwice:
    @pytest.mark.parametrize(
        ("decode", "said"),
        [
            ({"port": 30000}, "servers.decode.port: 30000 is used twice, by servers.prefill.port as well"),
            ({"nccl_port": 31000}, "servers.decode.nccl_port: 31000 is used twice, by servers.prefill.ncc"),
            ({"nccl_port": 30001}, "servers.decode.nccl_port: 30001 is used twice, by servers.decode.port"),
            ({"port": 8998}, "servers.decode.port: 8998 is used twice, by servers.prefill.bootstrap_port"),
            ({"port": 8000}, "router.port: 8000 is used twice, by servers.decode.port as well"),
            ({"port": 29000}, "router.metrics_port: 29000 is used twice, by servers.decode.port as well"),
        ],
    )
    def test_a_port(self, decode: dict[str, Any], said: str) -> None:
        (problem,) = pair(decode=decode)
        assert problem.startswith(said)

    def test_a_gpu(self) -> None:
        assert pair(decode={"gpus": (3, 4, 5, 6)}) == [
            "servers.decode.gpus: GPU 3 is used twice, by servers.prefill.gpus as well"
        ]

    def test_every_contradiction_is_told_at_once(self) -> None:
        assert len(pair(decode={"gpus": (2, 3, 4, 5), "port": 30000, "nccl_port": 31000})) == 4

    @given(st.lists(st.integers(1, 20), min_size=7, max_size=7))
    def test_ports_are_fine_exactly_when_they_differ(self, given_ports: list[int]) -> None:
        a, b, c, d, e, f, g = given_ports
        found = pair(
            {"port": a, "nccl_port": b, "bootstrap_port": c},
            {"port": d, "nccl_port": e},
            router=RouterSpec(port=f, metrics_port=g),
        )
        assert len(found) == len(given_ports) - len(set(given_ports))


class TestShape:
    @pytest.mark.parametrize(
        ("servers", "kind", "router", "said"),
        [
            ((PREFILL,), "pd", ROUTER, "servers: a pd profile has prefill and decode, not prefill"),
            ((), "pd", ROUTER, "servers: a pd profile has prefill and decode, not none"),
            ((DECODE,), "single", None, "servers: only a pd profile has servers named decode"),
            ((), "single", None, "servers: a single profile has one, not 0"),
            (SINGLE.servers, "replicas", ROUTER, "servers: a replicas profile has two or more, not 1"),
            (SINGLE.servers, "single", ROUTER, "router: a single profile has none"),
            ((PREFILL, DECODE), "pd", None, "router: missing; a pd profile is reached through one"),
        ],
    )
    def test_a_kind_has_its_servers_and_its_router(
        self, servers: tuple[ServerSpec, ...], kind: str, router: RouterSpec | None, said: str
    ) -> None:
        assert problems(msgspec.structs.replace(PAIR, servers=servers, kind=kind, router=router)) == [said]

    def test_the_bootstrap_port_is_prefills_alone(self) -> None:
        assert pair({"bootstrap_port": None}) == [
            "servers.prefill.bootstrap_port: missing; decode asks there for its prefill"
        ]
        assert pair(decode={"bootstrap_port": 9000}) == [
            "servers.decode.bootstrap_port: only a prefill server has one"
        ]

    @pytest.mark.parametrize("name", ["a b", "A", "a/b", "-a", "", "a\n", "é"])
    def test_a_servers_name_becomes_a_files(self, name: str) -> None:
        (problem,) = single(name=name)
        assert problem.endswith("a server is named in lower-case words and numbers, parted by dashes")


class TestPlacement:
    @pytest.mark.parametrize("gpus", [(0, 1, 3), (1, 0)])
    def test_gpus_ascend_in_even_steps(self, gpus: tuple[int, ...]) -> None:
        (problem,) = single(gpus=gpus)
        assert problem == "servers.s.gpus: must ascend in even steps, for SGLang counts them by --gpu-id-step"

    @pytest.mark.parametrize("gpus", [(), (5,), (0, 2, 4, 6), (4, 5, 6, 7)])
    def test_what_sglang_can_count(self, gpus: tuple[int, ...]) -> None:
        assert single(gpus=gpus) == []

    def test_numa_nodes_go_by_gpu(self) -> None:
        assert single(numa=0) == []
        assert single(numa=(0, 1)) == []
        assert single(numa=(0, 0, 0)) == ["servers.s.numa: one node for each of the 2 gpus, not 3"]
        assert single(numa=0, gpus=()) == ["servers.s.numa: SGLang binds to a node by GPU, and gpus is empty"]

    def test_the_gpus_divide_into_stages_and_replicas(self) -> None:
        assert single({"pp-size": 2}) == []
        assert single({"data-parallel-size": 2}) == []
        assert single({"dp-size": 4, "enable-dp-attention": True}) == []
        assert single({"dp": 3}) == [
            "servers.s.gpus: 2 do not divide into the 3 stages and replicas that the flags ask for"
        ]


class TestFlagsAndEnvironment:
    @pytest.mark.parametrize(
        ("flag", "key"),
        [
            ("port", "port"),
            ("host", "host"),
            ("model-path", "model"),
            ("model", "model"),
            ("tp", "gpus"),
            ("tp-size", "gpus"),
            ("tensor-parallel-size", "gpus"),
            ("tensor", "gpus"),
            ("base-gpu-id", "gpus"),
            ("numa-node", "numa"),
            ("nccl-port", "nccl_port"),
            ("disaggregation-mode", "kind"),
        ],
    )
    def test_what_the_console_writes_itself(self, flag: str, key: str) -> None:
        assert single({flag: 1}) == [f"flags.{flag}: follows from {key}; leave it out"]

    def test_what_it_writes_for_the_router(self) -> None:
        router = msgspec.structs.replace(ROUTER, flags={"worker-urls": "x", "policy": "random"})
        assert pair(router=router) == ["router.flags.worker-urls: follows from servers; leave it out"]

    @pytest.mark.parametrize("flag", ["--page-size", "page_size", "page size", "", "-"])
    def test_how_a_flag_is_written(self, flag: str) -> None:
        (problem,) = single({flag: 1})
        assert problem.startswith(f"flags.{flag}: a flag is written as in mem-fraction-static")

    def test_a_flag_under_two_names(self) -> None:
        said = ["servers.s.flags.cuda-graph-max-bs-decode: given twice, under two of its names"]
        assert single({"cuda-graph-max-bs": 16, "cuda-graph-max-bs-decode": 32}) == said
        changed = msgspec.structs.replace(SINGLE.servers[0], flags={"cuda-graph-max-bs": False})
        both = {"servers": (changed,), "flags": {"cuda-graph-max-bs-decode": 32}}
        assert problems(msgspec.structs.replace(SINGLE, **both)) == said

    def test_a_settings_file(self) -> None:
        (problem,) = single({"config": "x.yaml"})
        assert problem.startswith("flags.config: a settings file would hide flags from the console")

    @pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"])
    def test_variables_that_would_renumber_the_gpus(self, name: str) -> None:
        assert single(environment={name: "1"}) == [
            f"servers.s.environment.{name}: would make gpus mean other cards; leave it out"
        ]


class TestAgreement:
    def test_page_size_and_kv_dtype_as_in_a_pair_that_hung(self) -> None:
        assert pair(
            {"flags": {"page-size": 32, "kv-cache-dtype": "auto"}},
            {"flags": {"page-size": 64, "kv-cache-dtype": "fp8_e4m3"}},
        ) == [
            "servers.decode.flags.kv-cache-dtype: fp8_e4m3, but prefill has auto; a pair must agree",
            "servers.decode.flags.page-size: 64, but prefill has 32; a pair must agree",
        ]

    def test_a_default_is_a_value(self) -> None:
        assert pair({"flags": {"kv-cache-dtype": "auto"}}) == []
        assert pair({"flags": {"disaggregation-transfer-backend": "nixl"}}) == [
            "servers.decode.flags.disaggregation-transfer-backend: mooncake, but prefill has nixl; "
            "a pair must agree"
        ]

    def test_what_both_have_agrees(self) -> None:
        assert pair(flags={"disaggregation-transfer-backend": "nixl", "page-size": 64}) == []

    def test_kv_layout_is_in_the_environment(self) -> None:
        assert pair({"environment": {"SGLANG_DSV4_KV_LAYOUT": "v4"}}) == []
        (problem,) = pair(decode={"environment": {"SGLANG_DSV4_KV_LAYOUT": "v5"}})
        assert problem.startswith("servers.decode.environment.SGLANG_DSV4_KV_LAYOUT: v5, but prefill has v4")

    def test_speculation_is_for_both(self) -> None:
        (problem,) = pair(decode={"flags": {"speculative-algorithm": "EAGLE"}})
        assert problem.endswith("EAGLE, but prefill has none; a pair must agree")

    def test_one_tensor_parallel_size_divides_the_other(self) -> None:
        assert pair({"gpus": (0, 1)}) == []
        assert pair({"gpus": (0, 1, 2)}) == [
            "servers.decode.gpus: 4 ranks of one role do not divide among 3 of the other"
        ]

    def test_roles_may_differ_where_they_should(self) -> None:
        assert pair({"flags": {"mem-fraction-static": 0.7}}, {"flags": {"max-running-requests": 64}}) == []
