"""`bench ab` between two profiles of a real server that differ truly, in one setting."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.cli.operator import profile_folders
from tests.realstack.deploying import RealHost

pytestmark = pytest.mark.realstack

LIMIT_S = 900.0
PROFILE = """
extends = "single"
[flags]
max-running-requests = {}
"""
SHAPE = ("-c", "1,16", "--prompts", "48", "--input", "128", "--output", "32")
BY_CHANCE = 0.05
"""One of twenty experiments shows a difference where there is none; it is a small one."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RealHost]:
    with RealHost(tmp_path) as host:
        folder = profile_folders().user
        assert folder is not None
        (folder / "many.toml").write_text(PROFILE.format(16))
        (folder / "one.toml").write_text(PROFILE.format(1))
        yield host


def ran(*words: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a verb, and the objects that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "console", "--host", "gpu-box", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_an_ab_finds_what_a_setting_does_and_where(host: RealHost) -> None:
    assert ran("switch", "many", "--yes", "--json")[0] == 0
    code, (*results, end) = ran("bench", "ab", "many", "one", "--repeats", "3", *SHAPE, "--yes", "--json")
    assert [result["dsv4"]["context"]["profile"] for result in results[::2]] == [
        *("many", "one", "one", "many", "many", "one")
    ]
    assert [result["max_concurrency"] for result in results] == [1, 16] * 6
    assert {result["dsv4"]["context"]["verified"] for result in results} == {True}
    assert [result["completed"] for result in results] == [48] * 12
    said = end["ab"]
    assert (said["settings"], said["stopped"], said["runs_again"]) == (1, None, True)
    assert [found["obstacles"] for found in said["findings"]] == [[], []], said
    assert code == 0
    alone, together = map(output_of, said["findings"])
    assert (together["verdict"], together["high"] < 0.8) == ("slower", True), together
    assert alone["verdict"] == "no difference shown" or abs(alone["ratio"] - 1.0) < BY_CHANCE, alone
    _, (status,) = ran("status", "--json")
    assert (status["deployment"]["profile"], status["deployment"]["state"]) == ("many", "ready")
    (entry,) = (entry for entry in ran("journal", "--json")[1] if entry["verb"] == "ab")
    assert entry["state"] == "done"
    assert "C=16: B is slower" in entry["sentence"]


def output_of(found: dict[str, Any]) -> dict[str, Any]:
    """The comparison of the output throughput."""
    output: dict[str, Any]
    (output,) = (each for each in found["comparisons"] if each["metric"] == "output_throughput")
    return output
