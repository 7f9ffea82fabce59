"""Every shipped profile's command lines, read by the argument parsers of SGLang 0.5.15 and its router."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from console.domain.command_line import command_line, router_command_line
from console.profiles import Folders, load_profiles
from console.settings import shipped_folder
from tests.realstack.stack import HERE, HOME

pytestmark = pytest.mark.realstack

VERSION = "0.5.15"
GONE = ["-m", "sglang.launch_server", "--model-path", "/m", "--disaggregation-decode-tp", "4"]

Outcome = dict[str, Any]


def shipped_lines() -> dict[str, list[str]]:
    """The command line of each server and router, by profile and name."""
    lines = {}
    for name, profile in load_profiles(Folders(shipped_folder("profiles"))).profiles.items():
        for server in profile.servers:
            lines[f"{name} {server.name}"] = command_line(server, profile, VERSION).arguments
        if profile.router:
            lines[f"{name} router"] = router_command_line(profile.router, profile).arguments
    return lines


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """What became of each line (see parse_flags.py), and of GONE; the parser takes 5 s to import."""
    lines = {**shipped_lines(), "gone": GONE}
    ran = subprocess.run(
        [HOME / "venv" / "bin" / "python", HERE / "parse_flags.py"],
        input=json.dumps(list(lines.values())),
        env={**os.environ, "PYTHONPATH": str(HERE / "shims"), "SGLANG_USE_CPU_ENGINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return dict(zip(lines, json.loads(ran.stdout.splitlines()[-1]), strict=True))


def test_every_profile_is_taken(outcomes: dict[str, Outcome]) -> None:
    refused = {name: outcome["refused"] for name, outcome in outcomes.items() if "refused" in outcome}
    slip = "unrecognized arguments: --chunked-prefill-tokens 8192"
    assert refused == {
        "gone": "unrecognized arguments: --disaggregation-decode-tp 4",
        **{f"demo-broken-flag {role}": slip for role in ("prefill", "decode")},
    }
    assert len(outcomes) > 40


def test_the_parser_reads_what_the_profile_means(outcomes: dict[str, Outcome]) -> None:
    prefill, decode, router = (
        outcomes[f"pd-mtp {name}"]["parsed"] for name in ("prefill", "decode", "router")
    )
    assert (prefill["disaggregation_mode"], prefill["disaggregation_bootstrap_port"]) == ("prefill", 8998)
    assert (decode["port"], decode["nccl_port"]) == (30001, 31001)
    assert (decode["tp_size"], decode["base_gpu_id"], decode["numa_node"]) == (4, 4, [1] * 8)
    assert decode["cuda_graph_max_bs_decode"] == 32
    assert decode["uvicorn_access_log_exclude_prefixes"] == ["/metrics", "/health", "/v1/loads"]
    assert (decode["speculative_algorithm"], decode["speculative_num_steps"]) == ("EAGLE", 3)
    assert router["prefill"] == [["http://127.0.0.1:30000", "8998"]]
    assert router["decode"] == [["http://127.0.0.1:30001"]]
