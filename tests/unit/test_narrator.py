"""What is told on stderr of a plan on its way."""

from __future__ import annotations

from typing import Any

import pytest

from console.cli.narrator import EVERY_S, Narrator, say
from console.domain.plan import Plan, Step
from console.domain.plan_progress import StepEvent

STEPS = tuple(
    Step(kind=kind, title=title, waits_for="", limit_s=9.0)
    for kind, title in (("preflight", "look first"), ("ready", "wait until it is ready"))
)
PLAN = Plan(verb="stop", steps=STEPS, consequence="")


class Told:
    """A narrator, and a clock that is set."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.now = 100.0
        self._capsys = capsys
        self._narrator = Narrator(PLAN, lambda: self.now)

    def tell(
        self, kind: Any, text: str = "", *, index: int = 0, seconds: float = 0.0, title: str = ""
    ) -> str:
        """What one event adds."""
        self._narrator.tell(StepEvent(index=index, kind=kind, text=text, seconds=seconds, title=title))
        said, told = self._capsys.readouterr()
        assert said == "", "stdout is for data"
        return told


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(capsys)


def test_a_step_begins_goes_on_and_is_done(told: Told) -> None:
    assert told.tell("began") == "  1. look first\n"
    assert told.tell("said", "13 checks") == "     13 checks\n"
    assert told.tell("done", "13 checks", seconds=0.14) == "     done in 0.1 s\n"
    assert told.tell("began", index=1) == "  2. wait until it is ready\n"


def test_a_step_that_fails(told: Told) -> None:
    told.tell("began")
    failed = told.tell("failed", "decode failed: out of memory", seconds=12.34)
    assert failed == "     broke off after 12.3 s: decode failed: out of memory\n"


def test_a_clean_up_has_a_title_of_its_own(told: Told) -> None:
    assert told.tell("began", index=12, title="clean up: stop decode :30001") == (
        " 13. clean up: stop decode :30001\n"
    )


def test_quick_progress_is_told_now_and_then_and_its_end_always(told: Told) -> None:
    told.tell("began")
    assert told.tell("said", "1 of 46") == "     1 of 46\n"
    for shard in range(2, 40):
        told.now += EVERY_S / 100
        assert told.tell("said", f"{shard} of 46") == ""
    told.now += EVERY_S
    assert told.tell("said", "45 of 46") == "     45 of 46\n"
    assert told.tell("said", "46 of 46") == ""
    assert told.tell("done", seconds=6.0) == "     46 of 46\n     done in 6.0 s\n"


def test_what_was_held_back_of_one_step_is_not_told_of_the_next(told: Told) -> None:
    told.tell("began")
    told.tell("said", "first")
    told.tell("said", "held back")
    told.tell("failed", "no", seconds=1.0)
    told.tell("began", index=1)
    assert told.tell("said", "at once") == "     at once\n"
    assert told.tell("done", seconds=1.0) == "     done in 1.0 s\n"


def test_nothing_hostile_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("log \x1b[2J\x1b]0;owned\x07of \u202edecode\r\n\x00")
    assert capsys.readouterr().err == "log of decode\u240d\u240a\u2400\n"
