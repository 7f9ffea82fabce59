"""Waiting for servers that start, and for those that do not: what is said, and when it is given up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from console.domain.plan import Step
from console.domain.profile import Limits
from console.domain.run_record import HostRecords, RunRecord
from console.domain.server_view import ServerView
from console.services.host_control import LastWords, RouterStanding
from console.services.starting import LAST_WORDS_S, UNSEEN_S, pause_after_prefill, wait_ready, wait_router
from console.services.step_failure import StepFailed
from tests.unit.deployed import DECODE_RUN, PREFILL_RUN, ROUTER_RUN, view
from tests.unit.model_host import ModelControl, ModelHost

PAIR = (PREFILL_RUN, DECODE_RUN)
LIMITS = Limits(ceiling_s=600.0, stall_s=60.0)
ROUTER = Step(kind="router", title="", waits_for="", limit_s=90.0)
READY = {"state": "ready", "phase": "ready"}
LOADING = {"state": "starting", "phase": "loading", "reason": "loading weights, 4/46 shards"}
STALLED = {"state": "starting", "phase": "stalled", "reason": "no word for 5 min while loading weights"}
OUT_OF_MEMORY = {
    "state": "failed",
    "phase": "failed",
    "reason": "a GPU ran out of memory",
    "next": "lower --mem-fraction-static",
}

Course = Sequence[tuple[float, Mapping[str, Any] | None]]
"""From when on (seconds) a server is seen like this."""


class ScriptedControl(ModelControl):
    """Servers whose course is written down; runs may end at a time, with an exit code."""

    def __init__(self, **courses: Course) -> None:
        super().__init__(ModelHost())
        self.courses = courses
        self.ends: dict[str, tuple[float, int | None]] = {}
        self.standings: list[RouterStanding] = []
        self.words: LastWords | None = None
        self._begun = self.now()

    @property
    def passed(self) -> float:
        return self.now() - self._begun

    def view(self, run: RunRecord) -> ServerView | None:
        due = [fields for after, fields in self.courses.get(run.name, ()) if after <= self.passed]
        fields = due[-1] if due else None
        return None if fields is None else view(run, **fields)

    def records(self) -> HostRecords:
        return HostRecords(runs=tuple(map(self._record, (*PAIR, ROUTER_RUN))))

    def _record(self, run: RunRecord) -> RunRecord:
        at, code = self.ends.get(run.name, (float("inf"), None))
        if self.passed < at:
            return run
        return msgspec.structs.replace(run, alive=False, exit_code=code)

    async def last_words(self, run: RunRecord) -> LastWords | None:
        return self.words

    async def router(self, port: int) -> RouterStanding:
        assert port == ROUTER_RUN.port
        return self.standings.pop(0) if len(self.standings) > 1 else self.standings[0]


async def said(by: AsyncGenerator[str, None]) -> list[str]:
    return [text async for text in by]


async def failure(by: AsyncGenerator[str, None]) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        await said(by)
    return caught.value


class TestWaitReady:
    async def test_each_change_is_told_once(self) -> None:
        warming = {"state": "starting", "phase": "warming up", "reason": "health is 503"}
        control = ScriptedControl(
            prefill=[(0, LOADING), (30, READY)], decode=[(5, LOADING), (40, warming), (50, READY)]
        )
        assert await said(wait_ready(control, PAIR, LIMITS)) == [
            "prefill: loading weights, 4/46 shards; decode: launched",
            "prefill: loading weights, 4/46 shards; decode: loading weights, 4/46 shards",
            "prefill: ready; decode: loading weights, 4/46 shards",
            "prefill: ready; decode: warming up, health is 503",
        ]
        assert 50 <= control.passed < 51

    async def test_a_failure_is_told_with_its_cause_and_what_to_do(self) -> None:
        control = ScriptedControl(prefill=[(0, READY)], decode=[(0, LOADING), (20, OUT_OF_MEMORY)])
        failed = await failure(wait_ready(control, PAIR, LIMITS))
        assert failed.sentence == "decode failed: a GPU ran out of memory"
        assert failed.next_step == "lower --mem-fraction-static"
        assert control.passed < 21

    async def test_the_log_may_tell_the_cause_after_the_end(self) -> None:
        """Records of runs and bytes of logs come by different ways."""
        control = ScriptedControl(prefill=[(0, READY)], decode=[(0, LOADING), (20.6, OUT_OF_MEMORY)])
        control.ends["decode"] = (20.0, -9)
        assert (await failure(wait_ready(control, PAIR, LIMITS))).sentence == (
            "decode failed: a GPU ran out of memory"
        )

    @pytest.mark.parametrize(("code", "how"), [(1, " with exit code 1"), (-9, " with signal 9"), (None, "")])
    async def test_an_end_without_a_word(self, code: int | None, how: str) -> None:
        control = ScriptedControl(prefill=[(0, READY)], decode=[(0, LOADING)])
        control.ends["decode"] = (20.0, code)
        failed = await failure(wait_ready(control, PAIR, LIMITS))
        assert failed.sentence == f"decode ended{how}"
        assert failed.next_step == "read its log: /runs/decode.log"
        assert 20 + LAST_WORDS_S <= control.passed < 21 + LAST_WORDS_S

    @pytest.mark.parametrize(
        ("words", "said", "next_step"),
        [
            (LastWords("it lacks a package", "install it"), "it lacks a package", "install it"),
            (LastWords("No module named sglang"), "No module named sglang", "read its log: /runs/decode.log"),
        ],
    )
    async def test_one_that_ended_before_it_was_seen_is_told_by_its_log(
        self, words: LastWords, said: str, next_step: str
    ) -> None:
        control = ScriptedControl(prefill=[(0, READY)])
        control.ends["decode"] = (0.3, 1)
        control.words = words
        failed = await failure(wait_ready(control, PAIR, LIMITS))
        assert failed.sentence == f"decode ended with exit code 1: {said}"
        assert failed.next_step == next_step
        assert control.passed < 1

    async def test_one_that_is_gone_without_a_reason(self) -> None:
        gone = {"state": "gone", "phase": "gone"}
        control = ScriptedControl(prefill=[(0, READY)], decode=[(0, LOADING), (9, gone)])
        assert (await failure(wait_ready(control, PAIR, LIMITS))).sentence == (
            "decode failed: its process has ended"
        )

    async def test_one_that_is_never_seen(self) -> None:
        control = ScriptedControl(prefill=[(0, READY)])
        failed = await failure(wait_ready(control, PAIR, LIMITS))
        assert failed.sentence == "decode was launched and never became a server"
        assert failed.next_step == "read its log: /runs/decode.log"
        assert UNSEEN_S <= control.passed < UNSEEN_S + 1

    async def test_a_stall_ends_when_it_lasts(self) -> None:
        control = ScriptedControl(prefill=[(0, READY)], decode=[(0, LOADING), (30, STALLED)])
        failed = await failure(wait_ready(control, PAIR, LIMITS))
        assert failed.sentence == (
            "the start is stalled: prefill: ready; decode: no word for 5 min while loading weights"
        )
        assert failed.next_step == "look at its log, then start it again"
        assert 60 <= control.passed < 61

    async def test_a_stall_that_passes_is_no_failure(self) -> None:
        later = {**LOADING, "reason": "loading weights, 40/46 shards"}
        control = ScriptedControl(
            prefill=[(0, READY)], decode=[(0, LOADING), (30, STALLED), (50, later), (100, READY)]
        )
        await said(wait_ready(control, PAIR, LIMITS))
        assert 100 <= control.passed < 101

    async def test_silence_that_is_no_stall_is_waited_for(self) -> None:
        """A first graph compiles for minutes without a word: readiness knows for how long that is well."""
        control = ScriptedControl(prefill=[(0, READY)], decode=[(0, LOADING), (500, READY)])
        await said(wait_ready(control, PAIR, LIMITS))
        assert control.passed >= 500

    async def test_the_ceiling(self) -> None:
        control = ScriptedControl(prefill=[(0, READY)], decode=[(0, LOADING)])
        failed = await failure(wait_ready(control, PAIR, LIMITS))
        assert failed.sentence == (
            "not ready after 600 s: prefill: ready; decode: loading weights, 4/46 shards"
        )
        assert failed.next_step == "look at its log, or raise limits.ceiling_s in the profile"
        assert 600 <= control.passed < 601

    async def test_ready_and_dead_in_one_moment_is_dead(self) -> None:
        control = ScriptedControl(prefill=[(0, READY)], decode=[(0, READY)])
        control.ends["prefill"] = (0.0, -9)
        assert (await failure(wait_ready(control, PAIR, LIMITS))).sentence == "prefill ended with signal 9"


class TestWaitRouter:
    async def test_it_has_its_workers(self) -> None:
        control = ScriptedControl(router=[(0, READY)])
        control.standings = [
            RouterStanding(ready=False, sentence="nothing listens on port 8000"),
            RouterStanding(ready=False, workers=1, sentence="insufficient healthy workers"),
            RouterStanding(ready=True, workers=1, sentence="1+0"),
            RouterStanding(ready=True, workers=2, sentence="1+1"),
        ]
        assert await said(wait_router(control, ROUTER_RUN, 2, ROUTER)) == [
            "0 of 2 workers; nothing listens on port 8000",
            "1 of 2 workers; insufficient healthy workers",
            "1 of 2 workers; 1+0",
        ]

    async def test_it_never_gets_them(self) -> None:
        control = ScriptedControl(router=[(0, READY)])
        control.standings = [RouterStanding(ready=True, workers=1)]
        failed = await failure(wait_router(control, ROUTER_RUN, 2, ROUTER))
        assert failed.sentence == "the router does not serve: 1 of 2 workers"
        assert failed.next_step == "read the router's log"
        assert 90 <= control.passed < 91

    async def test_it_ends(self) -> None:
        control = ScriptedControl(router=[(0, LOADING)])
        control.standings = [RouterStanding(ready=False, sentence="nothing listens on port 8000")]
        control.ends["router"] = (3.0, 2)
        failed = await failure(wait_router(control, ROUTER_RUN, 2, ROUTER))
        assert failed.sentence == "router ended with exit code 2"


async def test_prefill_gets_its_second_even_when_something_changes_meanwhile() -> None:
    class Woken(ScriptedControl):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(min(seconds, 0.1))

    control = Woken()
    await pause_after_prefill(control)
    assert control.passed == pytest.approx(1.0)
