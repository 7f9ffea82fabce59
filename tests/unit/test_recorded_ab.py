"""What the journal keeps of an A/B."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from console.domain.bench.ab import ABEvent, ABFinding, ABResult, order
from console.domain.bench.benching import BenchPhase
from console.domain.bench.comparison import compare_all
from console.domain.errors import ConnectionLost
from console.services.journal import Journal
from console.services.recorded_ab import RecordedAB
from tests.unit.kept_results import bench_result

A = tuple(bench_result(f"a{n}", rate=1000.0 + n) for n in range(3))
B = tuple(bench_result(f"b{n}", rate=1200.0 + n) for n in range(3))
BOTH = ABFinding(concurrency=16, comparisons=compare_all(A, B))
OTHER_MODEL = msgspec.structs.replace(BOTH, obstacles=("the model differs",))
WITHOUT_VERDICT = msgspec.structs.replace(
    BOTH, comparisons=tuple(msgspec.structs.replace(each, verdict=None) for each in BOTH.comparisons)
)
END = ABResult(
    profile_a="pd-ll",
    profile_b="pd-mtp",
    order=order(3),
    a=A,
    b=B,
    findings=(BOTH,),
    settings=1,
    before="pd-ll",
    runs_again=True,
)


class Scripted:
    """An experiment that ends as it is told."""

    def __init__(self, end: ABResult | Exception) -> None:
        self._end = end

    async def events(self) -> AsyncGenerator[ABEvent, None]:
        if isinstance(self._end, Exception):
            raise self._end
        yield self._end

    def abort(self) -> str:
        return "it stops"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


def changed(**fields: Any) -> ABResult:
    return msgspec.structs.replace(END, **fields)


@pytest.mark.parametrize(
    ("end", "state", "said"),
    [
        (END, "done", "A = pd-ll, B = pd-mtp; C=16: B is faster: "),
        (changed(runs_again=False), "failed", "A = pd-ll, B = pd-mtp; C=16: B is faster: "),
        (
            changed(findings=(msgspec.structs.replace(BOTH, concurrency=1), OTHER_MODEL)),
            "failed",
            "A = pd-ll, B = pd-mtp; C=1: B is faster: ",
        ),
        (
            changed(stopped="pd-mtp did not start"),
            "failed",
            "A = pd-ll, B = pd-mtp; ended before its time: pd-mtp did not start",
        ),
        (
            changed(findings=(OTHER_MODEL,)),
            "failed",
            "A = pd-ll, B = pd-mtp; C=16: not comparable: the model differs; 1 setting differs",
        ),
        (
            changed(findings=(WITHOUT_VERDICT,)),
            "failed",
            "A = pd-ll, B = pd-mtp; C=16: no verdict: ",
        ),
        (changed(findings=()), "failed", "A = pd-ll, B = pd-mtp; nothing to compare"),
    ],
)
async def test_it_is_one_action_with_what_it_showed(
    journal: Journal, end: ABResult, state: str, said: str
) -> None:
    recorded = RecordedAB(Scripted(end), journal, "gpu-box", "me@desk")
    assert [event async for event in recorded.events()] == [end]
    (entry,) = await journal.entries("gpu-box")
    assert (entry.verb, entry.by, entry.state) == ("ab", "me@desk", state)
    assert entry.sentence.startswith(said)
    assert entry.ended_at is not None
    assert await journal.last_results("gpu-box") == {}


class Unfinished(Scripted):
    """One whose console is killed before its end."""

    async def events(self) -> AsyncGenerator[ABEvent, None]:
        yield BenchPhase(text="measuring")
        raise AssertionError("it went on")


async def test_one_whose_console_was_killed_has_begun_and_not_ended(journal: Journal) -> None:
    events = RecordedAB(Unfinished(END), journal, "gpu-box", "me@desk").events()
    await anext(events)
    (entry,) = await journal.entries("gpu-box")
    assert (entry.verb, entry.state, entry.ended_at) == ("ab", "running", None)
    await events.aclose()


async def test_one_that_breaks_off_is_told_of(journal: Journal) -> None:
    recorded = RecordedAB(Scripted(ConnectionLost("the host is gone")), journal, "gpu-box", "me@desk")
    with pytest.raises(ConnectionLost):
        await anext(recorded.events())
    (entry,) = await journal.entries("gpu-box")
    assert (entry.state, entry.sentence) == ("failed", "broke off: the host is gone")


async def test_an_aborted_one_is_told_as_that(journal: Journal) -> None:
    recorded = RecordedAB(Scripted(changed(stopped="aborted")), journal, "gpu-box", "me@desk")
    assert recorded.abort() == "it stops"
    _ = [event async for event in recorded.events()]
    (entry,) = await journal.entries("gpu-box")
    assert entry.state == "aborted"
