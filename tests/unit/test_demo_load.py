"""The demo's simulated users: the load, and what now and then goes wrong."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.demo_modules import Import, demo_modules

NOON = 1_796_000_400.0


@pytest.fixture(scope="module")
def demo() -> Iterator[Import]:
    with demo_modules() as load:
        yield load


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host's folder."""
    (tmp_path / "state").mkdir()
    return tmp_path


@pytest.fixture
def serving(demo: Import, host: Path) -> Any:
    """A server alone that is up."""
    args = demo("sglang.server_args").parse(("--model-path", "/m", "--tp", "4"))
    plan = demo("sglang.memory").plan_memory(args, 0.0)
    log = demo("sglang.log").ServerLog(4)
    serving = demo("sglang.serving").Serving(host, args, plan, (1, 2, 3, 4), log)
    serving.status = "up"
    return serving


def pass_by(host: Path) -> None:
    """The last real request was four seconds ago."""
    then = time.time() - 4
    os.utime(host / "state" / "real-request", (then, then))


def test_the_load_rises_and_falls_within_a_minute(demo: Import) -> None:
    load = demo("demohost.load")
    running = [load.load_at(NOON + second).running for second in range(120)]
    assert min(running) <= 4
    assert max(running) >= 22
    assert max(abs(later - earlier) for earlier, later in pairwise(running)) <= 4
    prompt = [load.load_at(NOON + second).prompt_tok_s for second in range(120)]
    assert 2000 <= min(prompt) < 3000
    assert 6000 < max(prompt) <= 7000


def test_the_queue_fills_only_at_the_top(demo: Import) -> None:
    load = demo("demohost.load")
    loads = [load.load_at(NOON + second) for second in range(600)]
    assert any(found.queued for found in loads)
    assert all(found.running > 18 for found in loads if found.queued)


def test_processes_agree_on_the_load(demo: Import) -> None:
    load = demo("demohost.load")
    assert load.load_at(NOON) == load.load_at(NOON)
    assert load.load_at(NOON) != load.load_at(NOON + 20)


def test_the_load_can_be_switched_off(demo: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    load = demo("demohost.load")
    monkeypatch.setenv("DSV4_DEMO_LOAD", "0")
    assert load.load_at(NOON) == load.IDLE


def test_simulated_users_step_back_while_somebody_real_is_served(serving: Any, host: Path) -> None:
    serving.tick()
    assert serving.engine.load.running > 0
    with serving.occupied():
        pass_by(host)
        serving.tick()
        assert serving.engine.running == 1
    serving.tick()
    assert serving.engine.running == 0
    pass_by(host)
    serving.tick()
    assert serving.engine.load.running > 0


def test_simulated_users_step_back_for_another_servers_request(
    demo: Import, serving: Any, host: Path
) -> None:
    demo("demohost.real_requests").note(host)
    serving.tick()
    assert serving.engine.running == 0


def test_more_requests_give_more_tokens_but_fewer_to_each(demo: Import) -> None:
    decode_tok_s = demo("demohost.load").decode_tok_s
    rates = [decode_tok_s(running) for running in range(1, 33)]
    assert rates == sorted(rates)
    each = [rate / running for running, rate in enumerate(rates, 1)]
    assert each == sorted(each, reverse=True)
    assert decode_tok_s(0) == 0
    assert decode_tok_s(4) == pytest.approx(356, abs=1)
    assert decode_tok_s(24) == pytest.approx(1059, abs=1)


def test_speculative_decoding_helps_one_request_most(demo: Import) -> None:
    decode_tok_s = demo("demohost.load").decode_tok_s
    gain = [decode_tok_s(running, 2.7) / decode_tok_s(running) for running in (1, 8, 32)]
    assert gain == sorted(gain, reverse=True)
    assert gain[-1] > 1


def test_incidents_are_rare_and_the_same_for_both_roles(demo: Import) -> None:
    incidents_between = demo("sglang.incidents").incidents_between
    hour = list(incidents_between(NOON, NOON + 3600))
    assert hour == list(incidents_between(NOON, NOON + 3600))
    kinds = Counter(incident.kind for incident in hour)
    assert set(kinds) == {"transfer failed", "too long", "client left", "old endpoint"}
    assert 5 <= kinds["transfer failed"] + kinds["too long"] <= 40


def test_no_incident_is_told_twice_or_forgotten(demo: Import) -> None:
    incidents_between = demo("sglang.incidents").incidents_between
    whole = list(incidents_between(NOON, NOON + 600))
    halves = [
        incident
        for half in range(1200)
        for incident in incidents_between(NOON + half / 2, NOON + (half + 1) / 2)
    ]
    assert halves == whole
