"""How far a plan has come: a value that each event makes a new one of."""

from __future__ import annotations

from typing import Literal, NamedTuple

from console.domain.plan import Plan
from console.domain.plan_progress import PlanEvent, PlanResult, StepEvent

KEPT = 4
"""Texts kept of what a step says."""

State = Literal["waiting", "running", "done", "failed", "skipped"]


class StepState(NamedTuple):
    """One step; times are seconds of a monotonic clock."""

    title: str
    limit_s: float | None = None
    """None for the clean-up's, which tell none."""
    state: State = "waiting"
    began: float = 0.0
    seconds: float = 0.0
    """That it took, once it has ended."""
    said: tuple[str, ...] = ()
    """The last of what it said, the newest at the end."""
    text: str = ""
    """What came of it."""

    def elapsed(self, now: float) -> float:
        """Seconds since it began, or that it took."""
        return max(0.0, now - self.began) if self.state == "running" else self.seconds

    def after(self, event: StepEvent, now: float) -> StepState:
        """As it is after an event of it."""
        if event.kind == "said":
            return self._replace(said=(*self.said, event.text)[-KEPT:])
        if event.kind == "began":
            return self._replace(state="running", began=now - event.seconds)
        return self._replace(state=event.kind, seconds=event.seconds, text=event.text)


class Progress(NamedTuple):
    """All steps of a plan, and what came of it."""

    began: float
    steps: tuple[StepState, ...]
    aborting: str | None = None
    """What an abort that was asked for will leave."""
    result: PlanResult | None = None
    error: str | None = None
    """Why nobody knows how it ended."""
    ended: float | None = None

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.ended is None

    @property
    def current(self) -> int | None:
        """Index of the step under way, or of the last one that failed when none is."""
        for state in ("running", "failed"):
            found = [index for index, step in enumerate(self.steps) if step.state == state]
            if found:
                return found[-1]
        return None

    def elapsed(self, now: float) -> float:
        """Seconds since it began, or that it took."""
        return (now if self.ended is None else self.ended) - self.began

    def after(self, event: PlanEvent, now: float) -> Progress:
        """As it is after an event."""
        if isinstance(event, PlanResult):
            return self._replace(result=event, ended=now)
        steps = list(self.steps)
        while len(steps) <= event.index:
            steps.append(StepState(event.title))
        steps[event.index] = steps[event.index].after(event, now)
        return self._replace(steps=tuple(steps))


def begun(plan: Plan, now: float) -> Progress:
    """A plan of which no step has begun."""
    return Progress(now, tuple(StepState(step.title, step.limit_s) for step in plan.steps))


def stretch(seconds: float) -> str:
    """A stretch of time to the second: `0.4 s`, `38 s`, `1m30s`, `30m`, `1h05m`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02}m"
    return f"{minutes}m{rest:02}s" if rest else f"{minutes}m"
