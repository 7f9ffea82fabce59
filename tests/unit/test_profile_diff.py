"""How many settings differ, and which."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.profile import Profile, RouterSpec, ServerSpec
from console.domain.profile_diff import ALL, SettingChange, as_lines, changed_settings, differences
from console.profiles import Folders, load_profiles
from console.settings import shipped_folder

PROFILES = load_profiles(Folders(shipped_folder("profiles"))).profiles
PREFILL = ServerSpec(name="prefill", gpus=(0, 1), numa=0, port=30000, nccl_port=31000, bootstrap_port=8998)
DECODE = ServerSpec(name="decode", gpus=(2, 3), numa=1, port=30001, nccl_port=31001)
PAIR = Profile(
    name="p",
    file="p.toml",
    title="",
    why="",
    source="",
    kind="pd",
    model="/m",
    environment={"NCCL_PROTO": "LL"},
    flags={"mem-fraction-static": 0.85, "enable-metrics": True},
    servers=(PREFILL, DECODE),
    router=RouterSpec(port=8000, metrics_port=29000, flags={"policy": "random"}),
)
SINGLE = msgspec.structs.replace(
    PAIR,
    kind="single",
    router=None,
    servers=(ServerSpec(name="s", gpus=(0, 1), port=30000, nccl_port=31000),),
)


def changed(**changes: Any) -> Profile:
    return msgspec.structs.replace(PAIR, **changes)


def with_server(name: str, **changes: Any) -> Profile:
    servers = (
        msgspec.structs.replace(server, **changes) if server.name == name else server
        for server in PAIR.servers
    )
    return changed(servers=tuple(servers))


def told(old: Profile, new: Profile, version: str | None = None) -> list[tuple[str, ...]]:
    """The changes as (server, kind, name, before, after), with - for what is not set."""
    return [
        (change.server, change.kind, change.name, change.before or "-", change.after or "-")
        for change in differences(old, new, version)
    ]


class TestNoSettings:
    @pytest.mark.parametrize("field", ["name", "file", "title", "why", "source", "known_failure"])
    def test_words(self, field: str) -> None:
        assert told(PAIR, changed(**{field: "other"})) == []

    def test_two_spellings_of_one_flag(self) -> None:
        old, new = changed(flags={"cuda-graph-max-bs": 32}), changed(flags={"cuda-graph-max-bs-decode": 32})
        assert told(old, new) == []

    def test_what_is_taken_back(self) -> None:
        assert told(PAIR, changed(flags={**PAIR.flags, "disable-overlap-schedule": False})) == []

    def test_where_a_value_stands(self) -> None:
        """In each server, or once for all of them."""
        servers = tuple(
            msgspec.structs.replace(server, environment=PAIR.environment, flags=PAIR.flags)
            for server in PAIR.servers
        )
        assert told(PAIR, changed(servers=servers, environment={}, flags={})) == []

    def test_one_numa_node_for_all_or_for_each(self) -> None:
        assert told(PAIR, with_server("decode", numa=(1, 1))) == []

    @pytest.mark.parametrize("name", PROFILES)
    def test_a_profile_and_itself(self, name: str) -> None:
        assert changed_settings(PROFILES[name], PROFILES[name]) == 0


class TestOfAllServers:
    """Told once, however many there are."""

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"model": "/other"}, ("model", "model", "/m", "/other")),
            ({"python": "/v/bin/python"}, ("python", "python", "-", "/v/bin/python")),
            ({"sudo": True}, ("sudo", "sudo", "-", "true")),
            ({"environment": {"NCCL_PROTO": "Simple"}}, ("environment", "NCCL_PROTO", "LL", "Simple")),
            ({"environment": {}}, ("environment", "NCCL_PROTO", "LL", "-")),
            ({"flags": {"mem-fraction-static": 0.85}}, ("flag", "enable-metrics", "true", "-")),
        ],
    )
    def test_one_change(self, change: dict[str, Any], expected: tuple[str, ...]) -> None:
        assert told(PAIR, changed(**change)) == [(ALL, *expected)]

    def test_a_list_of_values(self) -> None:
        new = changed(flags={**PAIR.flags, "cuda-graph-bs-decode": (1, 2, 4)})
        assert told(PAIR, new) == [(ALL, "flag", "cuda-graph-bs-decode", "-", "1 2 4")]


class TestOfOneServer:
    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"flags": {"mem-fraction-static": 0.7}}, ("flag", "mem-fraction-static", "0.85", "0.7")),
            ({"environment": {"NCCL_PROTO": "Simple"}}, ("environment", "NCCL_PROTO", "LL", "Simple")),
            ({"environment": {"NCCL_PROTO": False}}, ("environment", "NCCL_PROTO", "LL", "-")),
            ({"gpus": (4, 5)}, ("gpus", "gpus", "2 3", "4 5")),
            ({"numa": None}, ("numa", "numa", "1 1", "-")),
            ({"port": 30009}, ("port", "port", "30001", "30009")),
            ({"nccl_port": 31009}, ("port", "nccl_port", "31001", "31009")),
            ({"host": "0.0.0.0"}, ("host", "host", "127.0.0.1", "0.0.0.0")),
        ],
    )
    def test_one_change(self, change: dict[str, Any], expected: tuple[str, ...]) -> None:
        assert told(PAIR, with_server("decode", **change)) == [("decode", *expected)]

    def test_from_gpus_to_the_cpu(self) -> None:
        """CUDA_DEVICE_ORDER goes with them and is no setting."""
        on_cpu = with_server("decode", gpus=(), numa=None)
        assert [change[2] for change in told(PAIR, on_cpu)] == ["gpus", "numa"]

    def test_the_bootstrap_port(self) -> None:
        assert told(PAIR, with_server("prefill", bootstrap_port=8999)) == [
            ("prefill", "port", "bootstrap_port", "8998", "8999")
        ]

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"policy": "round_robin"}, ("flag", "policy", "random", "round_robin")),
            ({"policy": False}, ("flag", "policy", "random", "-")),
        ],
    )
    def test_the_routers_flags(self, change: dict[str, Any], expected: tuple[str, ...]) -> None:
        router = RouterSpec(port=8000, metrics_port=29000, flags=change)
        assert told(PAIR, changed(router=router)) == [("router", *expected)]

    def test_the_routers_ports_and_environment(self) -> None:
        router = RouterSpec(port=8001, metrics_port=29000, flags={"policy": "random"}, environment={"A": 1})
        assert told(PAIR, changed(router=router)) == [
            ("router", "port", "port", "8000", "8001"),
            ("router", "environment", "A", "-", "1"),
        ]


class TestServersThatComeAndGo:
    def test_from_one_server_to_a_pair(self) -> None:
        assert told(SINGLE, PAIR) == [
            (ALL, "kind", "kind", "single", "pd"),
            ("s", "server", "server", "on GPUs 0 1, port 30000", "-"),
            ("prefill", "server", "server", "-", "on GPUs 0 1, port 30000"),
            ("decode", "server", "server", "-", "on GPUs 2 3, port 30001"),
            ("router", "server", "server", "-", "port 8000"),
        ]

    def test_what_a_new_server_has_of_its_own(self) -> None:
        new = with_server("decode", flags={"mem-fraction-static": 0.7}, environment={"X": 1})
        assert told(SINGLE, new)[-3:] == [
            ("decode", "environment", "X", "-", "1"),
            ("decode", "flag", "mem-fraction-static", "0.85", "0.7"),
            ("router", "server", "server", "-", "port 8000"),
        ]

    def test_a_setting_of_one_that_goes_is_not_told(self) -> None:
        old = with_server("decode", environment={"X": 1})
        assert not [change for change in told(old, SINGLE) if change[2] == "X"]

    def test_more_replicas(self) -> None:
        found = told(PROFILES["tp2-x2"], PROFILES["tp2-x4"])
        assert [change[:2] for change in found] == [("c", "server"), ("d", "server")]


class TestOnAVersion:
    def test_flags_that_it_does_not_have_do_not_count(self) -> None:
        new = changed(flags={**PAIR.flags, "enable-nan-detection": True, "attn-dp-size": 2})
        assert [change[2] for change in told(PAIR, new)] == ["enable-nan-detection", "attn-dp-size"]
        assert [change[2] for change in told(PAIR, new, "0.5.12")] == ["enable-nan-detection"]
        assert [change[2] for change in told(PAIR, new, "0.5.23")] == ["attn-dp-size"]
        assert told(PAIR, new, "0.5.15") == []


def test_shipped_profiles_differ_by_what_they_say() -> None:
    assert changed_settings(PROFILES["pd-ll"], PROFILES["pd-simple"]) == 1
    assert changed_settings(PROFILES["tp4-ll"], PROFILES["tp4-ll-mem70"]) == 1
    assert changed_settings(PROFILES["pd-nvfp4"], PROFILES["pd-nvfp4-serial"]) == 1
    assert changed_settings(PROFILES["pd-ll"], PROFILES["pd-mtp"]) == 4


class TestLines:
    def test_a_diff(self) -> None:
        old = changed(python="/v/bin/python")
        new = with_server("decode", flags={"mem-fraction-static": 0.7, "disable-radix-cache": True})
        new = msgspec.structs.replace(new, environment={"NCCL_PROTO": "Simple"})
        assert as_lines(differences(old, new)) == [
            (" ", "all servers"),
            ("-", "python /v/bin/python"),
            ("-", "NCCL_PROTO=LL"),
            ("+", "NCCL_PROTO=Simple"),
            (" ", "decode"),
            ("-", "--mem-fraction-static 0.85"),
            ("+", "--mem-fraction-static 0.7"),
            ("+", "--disable-radix-cache"),
        ]

    def test_an_empty_value_is_not_an_absent_one(self) -> None:
        change = SettingChange(server=ALL, kind="environment", name="X", before=None, after="")
        assert as_lines([change]) == [(" ", ALL), ("+", "X=")]

    def test_nothing(self) -> None:
        assert as_lines(()) == []


NAMES = st.sampled_from(sorted(PROFILES))


@given(NAMES, NAMES)
def test_the_way_back_takes_back_every_common_setting(one: str, other: str) -> None:
    there = differences(PROFILES[one], PROFILES[other])
    back = differences(PROFILES[other], PROFILES[one])
    common = {
        (change.kind, change.name, change.before, change.after) for change in there if change.server == ALL
    }
    assert common == {
        (change.kind, change.name, change.after, change.before) for change in back if change.server == ALL
    }
    assert all(change.before != change.after for change in there)
    assert len({(change.server, change.kind, change.name) for change in there}) == len(there)
