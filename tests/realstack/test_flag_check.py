"""The order check_flags over a real link to an agent, which asks the real parsers of SGLang 0.5.15."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.domain.host_facts import FlagChecks
from tests.realstack.stack import HERE, HOME
from tests.unit.agent_inspections import agent_here

pytestmark = pytest.mark.realstack

SERVER = ["-m", "sglang.launch_server", "--model-path", "/m"]
LINES = [
    [*SERVER, "--cuda-graph-max-bs", "32"],
    [*SERVER, "--disaggregation-decode-tp", "4"],
    ["-m", "sglang_router.launch_router", "--prefill", "http://a:1", "8998", "--decode", "http://b:1"],
]
ORDER = {
    "python": str(HOME / "venv/bin/python"),
    "environment": {"PYTHONPATH": str(HERE / "shims"), "SGLANG_USE_CPU_ENGINE": "1"},
    "lines": LINES,
}


async def test_the_real_parsers_answer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSV4_AGENT_STATE", str(tmp_path))
    async with agent_here() as link:
        first = await link.value(FlagChecks, "check_flags", **ORDER)
        second = await link.value(FlagChecks, "check_flags", **ORDER)
    assert first.note is None
    taken, refused, router = first.lines
    assert taken.refused is None
    assert len(taken.warnings) == 1
    assert "Use '--cuda-graph-max-bs-decode' instead." in taken.warnings[0]
    assert refused.refused == "unrecognized arguments: --disaggregation-decode-tp 4"
    assert (router.refused, router.warnings) == (None, ())
    assert (first.cached, second.cached, second.lines) == (False, True, first.lines)
    assert second.seconds < first.seconds
