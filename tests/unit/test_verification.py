"""The verification: what a running server has against what its profile asks for, each difference by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.command_line import command_line
from console.domain.profile import Expectation, Profile, ServerSpec
from console.domain.run_record import Difference, RunRecord, Verification
from console.domain.sglang_flags import FlagValue
from console.domain.verification import Seen, compare, log_patterns
from console.remote.sglang import ServerInfo
from console.services.verifying import Sources, verify

DECODE = ServerSpec(name="decode", gpus=(4, 5, 6, 7), numa=1, port=30001, nccl_port=31001)
PROFILE = Profile(
    name="pd",
    file="pd.toml",
    title="",
    why="",
    source="",
    kind="pd",
    model="/models/DeepSeek-V4-Flash",
    servers=(
        ServerSpec(name="prefill", gpus=(0, 1, 2, 3), port=30000, nccl_port=31000, bootstrap_port=8998),
        DECODE,
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("decode", "x")), inner),
    max_leaves=5,
)
INFO: dict[str, Any] = {
    "model_path": "/models/DeepSeek-V4-Flash",
    "host": "127.0.0.1",
    "port": 30001,
    "nccl_port": 31001,
    "tp_size": 4,
    "base_gpu_id": 4,
    "numa_node": [1, 1, 1, 1, 1, 1, 1, 1],
    "disaggregation_mode": "decode",
}
"""Of /server_info, what follows from the tables of the profile alone: 8 flags, spelled in 0.5.15's way."""


def compared(
    flags: dict[str, FlagValue] | None = None,
    info: Mapping[str, Any] | None = None,
    version: str = "0.5.15",
    expect: Expectation | None = None,
    log: Mapping[str, bool | None] | None = None,
    reports: bool = True,
) -> tuple[list[tuple[str, str, str | None, str]], int]:
    """Differences as (setting, wanted, actual, kind), and how many were compared beyond the 8 of INFO."""
    profile = msgspec.structs.replace(PROFILE, flags=flags or {}, expect=expect or Expectation())
    seen = Seen(
        info={**INFO, **(info or {})} if reports else None,
        environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        log=log or {},
    )
    differences, checked = compare(profile, DECODE, version, seen)
    assert {each.server for each in differences} <= {"decode"}
    return [(each.setting, each.wanted, each.actual, each.kind) for each in differences], checked - 9


class TestFlags:
    def test_place_and_part_are_compared_too(self) -> None:
        assert compared() == ([], 0)
        found, _ = compared(
            info={"base_gpu_id": 0, "disaggregation_mode": "null", "tp_size": 8, "port": 30002}
        )
        assert found == [
            ("flag --port", "30001", "30002", "rewritten"),
            ("flag --tensor-parallel-size", "4", "8", "rewritten"),
            ("flag --base-gpu-id", "4", "0", "rewritten"),
            ("flag --disaggregation-mode", "decode", "null", "rewritten"),
        ]

    @pytest.mark.parametrize(
        ("flag", "value", "info"),
        [
            ("mem-fraction-static", 0.85, {"mem_fraction_static": 0.85}),
            ("mem-fraction-static", "0.850", {"mem_fraction_static": 0.85}),
            ("watchdog-timeout", 300, {"watchdog_timeout": 300.0}),
            ("enable-metrics", True, {"enable_metrics": True}),
            ("trust-remote-code", "true", {"trust_remote_code": True}),
            ("served-model-name", "Flash", {"served_model_name": "Flash"}),
            ("uvicorn-access-log-exclude-prefixes", ("/metrics", "/health"), None),
            # What SGLang is to choose, it may choose.
            ("moe-runner-backend", "auto", {"moe_runner_backend": "flashinfer_mxfp4"}),
            ("speculative-algorithm", "NEXTN", {"speculative_algorithm": "EAGLE"}),
            # Under another name than the flag's.
            ("expert-parallel-size", 4, {"ep_size": 4}),
            ("ep", 4, {"ep_size": 4}),
            ("fp4-gemm-backend", "auto", {"fp4_gemm_runner_backend": "auto"}),
            ("no-lora-strict-loading", True, {"lora_strict_loading": False}),
            ("disable-piecewise-cuda-graph", True, {"cuda_graph_backend_prefill": "disabled"}),
            ("cuda-graph-max-bs", 32, {"cuda_graph_max_bs_decode": 32}),
            # A key is never shown, only that there is one.
            ("api-key", "sesame", {"api_key": "***"}),
            (
                "cuda-graph-config",
                '{"decode": {"max_bs": 32}}',
                {"cuda_graph_config": {"decode": {"max_bs": 32}}},
            ),
            (
                "cuda-graph-config",
                '{"decode": {"max_bs": 32}}',
                {"cuda_graph_config": {"decode": {"max_bs": 32, "bs": [1]}, "prefill": {}}},
            ),
        ],
    )
    def test_the_same_in_other_words(self, flag: str, value: FlagValue, info: dict[str, Any] | None) -> None:
        info = info or {flag.replace("-", "_"): list(value) if isinstance(value, tuple) else value}
        assert compared({flag: value}, info) == ([], 1)

    @pytest.mark.parametrize(
        ("flag", "value", "info", "wanted", "actual"),
        [
            ("attention-backend", "triton", {"attention_backend": "dsv4"}, "triton", "dsv4"),
            ("max-running-requests", 512, {"max_running_requests": 256}, "512", "256"),
            ("max-running-requests", 16, {"max_running_requests": None}, "16", "not set"),
            ("enable-metrics", True, {"enable_metrics": False}, "true", "false"),
            ("cuda-graph-bs-decode", (1, 2, 4), {"cuda_graph_bs_decode": [1, 2]}, "1 2 4", "1 2"),
            ("cuda-graph-bs-decode", (1,), {"cuda_graph_bs_decode": 1.5}, "1", "1.5"),
            ("mem-fraction-static", "half", {"mem_fraction_static": 0.5}, "half", "0.5"),
            (
                "disable-piecewise-cuda-graph",
                True,
                {"cuda_graph_backend_prefill": "full"},
                "disabled",
                "full",
            ),
            (
                "cuda-graph-config",
                '{"decode": {"max_bs": 32}}',
                {"cuda_graph_config": {"decode": {"max_bs": 16}}},
                '{"decode": {"max_bs": 32}}',
                "{'decode': {'max_bs': 16}}",
            ),
        ],
    )
    def test_rewritten(
        self, flag: str, value: FlagValue, info: dict[str, Any], wanted: str, actual: str
    ) -> None:
        assert compared({flag: value}, info) == ([(f"flag --{flag}", wanted, actual, "rewritten")], 1)

    def test_a_key_that_is_not_set_is_told_without_it(self) -> None:
        found, _ = compared({"api-key": "sesame"}, {"api_key": None})
        assert found == [("flag --api-key", "***", "not set", "rewritten")]

    def test_a_dead_flag_is_ignored_whatever_the_server_echoes(self) -> None:
        found, checked = compared({"num-continuous-decode-steps": 4}, {"num_continuous_decode_steps": 4})
        assert [(setting, kind) for setting, _, _, kind in found] == [
            ("flag --num-continuous-decode-steps", "ignored")
        ]
        assert checked == 1

    @pytest.mark.parametrize(
        ("flag", "version"), [("dsv4-attn-backend", "0.5.15"), ("torchao-config", "0.5.23")]
    )
    def test_a_flag_that_was_left_out_is_missing(self, flag: str, version: str) -> None:
        (found,), _ = compared({flag: "x"}, version=version)
        assert (found[0], found[3]) == (f"flag --{flag}", "missing")
        assert "left out" in (found[2] or "")

    @pytest.mark.parametrize(
        ("version", "field"), [("0.5.12", "cuda_graph_max_bs"), ("0.5.15", "cuda_graph_max_bs_decode")]
    )
    def test_a_renamed_flag_is_found_under_the_versions_own_name(self, version: str, field: str) -> None:
        assert compared({"cuda-graph-max-bs-decode": 32}, {field: 32}, version) == ([], 1)

    def test_a_flag_that_it_does_not_report_is_unknown(self) -> None:
        found, checked = compared({"some-flag": 3})
        assert found == [("flag --some-flag", "3", None, "unknown")]
        assert checked == 0

    def test_a_server_that_reports_nothing(self) -> None:
        found, checked = compared(
            {"enable-metrics": True}, expect=Expectation(server_info={"page_size": 256}), reports=False
        )
        assert found == [
            ("flags", "9 flags", None, "unknown"),
            ("server_info page_size", "256", None, "unknown"),
        ]
        assert checked == -8

    @given(value=JSON, wanted=st.text(max_size=5) | st.just('{"decode": {"max_bs": 32}}'))
    def test_whatever_a_server_reports_is_compared(self, value: Any, wanted: str) -> None:
        found, checked = compared({"cuda-graph-config": wanted}, {"cuda_graph_config": value})
        assert checked == 1
        assert [kind for *_, kind in found] in ([], ["rewritten"])


class TestEnvironment:
    @pytest.mark.parametrize(
        ("environment", "expected"),
        [
            ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NCCL_PROTO": "LL"}, []),
            (
                {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NCCL_PROTO": "LL128"},
                [("environment NCCL_PROTO", "LL", "LL128", "rewritten")],
            ),
            (
                {"NCCL_PROTO": "LL"},
                [("environment CUDA_DEVICE_ORDER", "PCI_BUS_ID", "not set", "missing")],
            ),
            (None, [("environment", "2 variables", None, "unknown")]),
        ],
    )
    def test_names_and_values(
        self, environment: dict[str, str] | None, expected: list[tuple[str, str, str | None, str]]
    ) -> None:
        profile = msgspec.structs.replace(PROFILE, environment={"NCCL_PROTO": "LL", "NCCL_ALGO": False})
        differences, checked = compare(profile, DECODE, "0.5.15", Seen(info=INFO, environment=environment))
        assert [(d.setting, d.wanted, d.actual, d.kind) for d in differences] == expected
        assert checked == (8 if environment is None else 10)


class TestExpectations:
    def test_server_info(self) -> None:
        expect = Expectation(server_info={"page_size": 256, "enable_metrics": True, "bs": (1, 2), "new": 1})
        found, checked = compared(info={"page_size": 64, "enable_metrics": True, "bs": [1, 2]}, expect=expect)
        assert found == [
            ("server_info page_size", "256", "64", "rewritten"),
            ("server_info new", "1", None, "unknown"),
        ]
        assert checked == 3

    @pytest.mark.parametrize(
        ("found", "expected"),
        [
            ({"NCCL LL": True, "via SHM": False}, []),
            (
                {"NCCL LL": False, "via SHM": True},
                [
                    ('log "NCCL LL"', "in the log", "not in the log", "missing"),
                    ('log "via SHM"', "not in the log", "in the log", "rewritten"),
                ],
            ),
            (
                {"NCCL LL": None},
                [
                    ('log "NCCL LL"', "in the log", None, "unknown"),
                    ('log "via SHM"', "not in the log", None, "unknown"),
                ],
            ),
        ],
    )
    def test_log(
        self, found: dict[str, bool | None], expected: list[tuple[str, str, str | None, str]]
    ) -> None:
        expect = Expectation(log=("NCCL LL",), log_never=("via SHM",))
        asked = {re.escape(text): there for text, there in found.items()}
        assert compared(expect=expect, log=asked)[0] == expected


SIZES = r"(?:decode CUDA graph (?:begin|end)\..*\bbs=|Capture cuda graph bs )\[(?:\d+, )*32[,\]]"
ON = {"cuda_graph_config": {"decode": {"backend": "full", "max_bs": 32}}}


class TestGraphs:
    EXPECT = Expectation(largest_graph=32)

    @pytest.mark.parametrize(
        ("log", "info", "actual", "kind"),
        [
            (False, ON, "set to batch 32", "missing"),
            (False, {}, "not captured", "missing"),
            (None, ON, "set to batch 32", "unknown"),
            (None, {}, None, "unknown"),
            (
                None,
                {"cuda_graph_config": {"decode": {"backend": "full", "max_bs": 16}}},
                "set to batch 16",
                "missing",
            ),
            (
                None,
                {"cuda_graph_config": {"decode": {"backend": "disabled", "max_bs": 32}}},
                "off",
                "missing",
            ),
            # Up to 0.5.13.
            (False, {"cuda_graph_max_bs": 8}, "set to batch 8", "missing"),
            (False, {"cuda_graph_max_bs": 32, "disable_cuda_graph": True}, "off", "missing"),
        ],
    )
    def test_not_captured(
        self, log: bool | None, info: dict[str, Any], actual: str | None, kind: str
    ) -> None:
        found, _ = compared(info=info, expect=self.EXPECT, log={SIZES: log})
        assert found == [("graphs", "captured for batch 32", actual, kind)]

    def test_captured(self) -> None:
        assert compared(info=ON, expect=self.EXPECT, log={SIZES: True}) == ([], 1)

    @pytest.mark.parametrize(
        "line",
        [
            # SGLang 0.5.15 on an H200, 0.5.23, 0.5.8.
            "Capture target decode CUDA graph begin. backend=full, bs=[1, 2, 4, 8, 12, 16], x",
            "[2026-06-17 16:24:53 TP0] Capture target decode CUDA graph end. bs=[1, 2, 16], elapsed=8.32 s",
            "[2026-06-17 16:24:53 TP0] Capture cuda graph bs [1, 2, 16]",
        ],
    )
    def test_the_lines_that_name_the_sizes(self, line: str) -> None:
        for size, captured in ((16, True), (6, False), (160, False)):
            profile = msgspec.structs.replace(PROFILE, expect=Expectation(largest_graph=size))
            (pattern,) = log_patterns(profile, DECODE)
            assert bool(re.search(pattern, line)) is captured

    def test_graphs_of_prefill_and_draft_are_others(self) -> None:
        profile = msgspec.structs.replace(PROFILE, expect=Expectation(largest_graph=16))
        (pattern,) = log_patterns(profile, DECODE)
        assert not re.search(
            pattern, "Capture target prefill CUDA graph begin. backend=full, bs=[4, 8, 16], x"
        )

    def test_a_prefill_server_captures_none(self) -> None:
        profile = msgspec.structs.replace(PROFILE, expect=self.EXPECT)
        assert log_patterns(profile, profile.servers[0]) == ()


class Host:
    """A running pair that has what the profile asks for, and what it was asked."""

    def __init__(self, profile: Profile) -> None:
        self.infos = {server.port: info_of(profile, server) for server in profile.servers}
        self.asked: list[tuple[str, ...]] = []
        self.sources = Sources(self.server_info, self.environment, self.log_has)

    async def server_info(self, port: int) -> ServerInfo | None:
        return ServerInfo(version="0.5.15", flags=self.infos[port])

    async def environment(self, run: RunRecord, names: Sequence[str]) -> Mapping[str, str] | None:
        self.asked.append((run.id, *names))
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    async def log_has(self, run: RunRecord, text: str) -> bool | None:
        self.asked.append((run.id, text))
        return True


def info_of(profile: Profile, server: ServerSpec) -> dict[str, Any]:
    """What SGLang 0.5.15 reports when it does as it is told."""
    words = command_line(server, profile, "0.5.15").arguments[2:]
    given = dict(zip(words[::2], words[1::2], strict=True))
    renamed = {"--tensor-parallel-size": "tp_size"}
    return {renamed.get(flag, flag[2:].replace("-", "_")): value for flag, value in given.items()}


def run(name: str, port: int) -> RunRecord:
    return RunRecord(
        id=f"run-{name}",
        deployment="d",
        profile="pd",
        name=name,
        role="prefill" if name == "prefill" else "decode",
        pid=1,
        start_ticks=1,
        launched_at=0.0,
        by="me",
        argv=(),
        port=port,
        log="/log",
    )


RUNS = (run("decode", 30001), run("prefill", 30000))


class TestVerify:
    PROFILE = msgspec.structs.replace(
        PROFILE,
        servers=tuple(msgspec.structs.replace(server, numa=None) for server in PROFILE.servers),
        expect=Expectation(log=("NCCL LL",)),
    )

    async def test_verified(self) -> None:
        host = Host(self.PROFILE)
        found = await verify(host.sources, self.PROFILE, RUNS, None, lambda: 7.0)
        assert found == Verification(at=7.0, differences=(), checked=8 + 7 + 2 * 2)
        assert found.verified
        assert sorted(host.asked) == [
            ("run-decode", "CUDA_DEVICE_ORDER"),
            ("run-decode", re.escape("NCCL LL")),
            ("run-prefill", "CUDA_DEVICE_ORDER"),
            ("run-prefill", re.escape("NCCL LL")),
        ]

    async def test_a_difference_names_its_server(self) -> None:
        host = Host(self.PROFILE)
        host.infos[30001]["tp_size"] = 2
        found = await verify(host.sources, self.PROFILE, RUNS, None, lambda: 7.0)
        assert found.differences == (
            Difference(
                server="decode",
                setting="flag --tensor-parallel-size",
                wanted="4",
                actual="2",
                kind="rewritten",
            ),
        )
        assert not found.verified

    async def test_the_servers_own_version_decides_over_the_one_that_was_expected(self) -> None:
        profile = msgspec.structs.replace(self.PROFILE, flags={"dsv4-attn-backend": "auto"})
        host = Host(profile)
        found = await verify(host.sources, profile, RUNS, "0.5.23", lambda: 7.0)
        assert [difference.kind for difference in found.differences] == ["missing", "missing"]
