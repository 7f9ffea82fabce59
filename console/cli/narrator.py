"""Tells on stderr how a plan goes, in lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from console.domain.plan import Plan
from console.domain.plan_progress import StepEvent
from console.domain.printable import printable

EVERY_S = 5.0
"""Progress that changes several times a second is told so often; a screen shows all of it."""


class Narrator:
    """One plan's teller."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._clock = clock
        self._told_at = float("-inf")
        self._waiting: str | None = None

    def tell(self, event: StepEvent) -> None:
        """Print what is new."""
        match event.kind:
            case "began":
                title = event.title or self._plan.steps[event.index].title
                say(f"{event.index + 1:>3}. {title}")
                self._told_at, self._waiting = float("-inf"), None
            case "said":
                self._tell_progress(event.text)
            case "failed":
                say(f"     broke off after {event.seconds:.1f} s: {event.text}")
            case _:
                if self._waiting:
                    say(f"     {self._waiting}")
                say(f"     {event.kind} in {event.seconds:.1f} s")

    def _tell_progress(self, text: str) -> None:
        if self._clock() - self._told_at < EVERY_S:
            self._waiting = text
            return
        say(f"     {text}")
        self._told_at, self._waiting = self._clock(), None


def say(text: str) -> None:
    """A line on stderr. It may hold data of the host's: nothing in it may steer the terminal."""
    print(printable(text), file=sys.stderr, flush=True)
