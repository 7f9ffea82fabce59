"""How far a benchmark has come: a value that each event makes a new one of."""

from __future__ import annotations

from typing import NamedTuple

from console.domain.bench.benching import (
    BenchAsk,
    BenchEvent,
    BenchPhase,
    BenchPlan,
    BenchStopped,
    prompts_for,
)
from console.domain.bench.load import LoadRequests, LoadSecond, RequestTiming
from console.domain.bench.result import BenchResult

WARMING = -1
"""LoadSecond.second while it warms up."""


class BenchProgress(NamedTuple):
    """What was told of a plan's measurement. Times are seconds of a monotonic clock."""

    plan: BenchPlan
    began: float
    phase: BenchPhase | None = None
    warming: LoadSecond | None = None
    """The latest of the warm-up; None once the measured part has begun."""
    seconds: tuple[LoadSecond, ...] = ()
    """Of the load under way, or the last one."""
    requests: tuple[RequestTiming, ...] = ()
    """Of the same."""
    results: tuple[BenchResult, ...] = ()
    stopped: BenchStopped | None = None
    aborting: str | None = None
    error: str | None = None
    """Why nobody knows how it ended."""
    ended: float | None = None

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.ended is None

    @property
    def latest(self) -> LoadSecond | None:
        """The latest second, of the measured part once that has begun."""
        return self.seconds[-1] if self.seconds else self.warming

    def elapsed(self, now: float) -> float:
        """Seconds since it began, or that it took."""
        return (now if self.ended is None else self.ended) - self.began

    def after(self, event: BenchEvent) -> BenchProgress:
        """As it is after an event."""
        match event:
            case BenchPhase():
                return self._in_phase(event)
            case LoadSecond():
                return self._after_second(event)
            case LoadRequests():
                return self._replace(requests=self.requests + event.items)
            case BenchResult():
                return self._replace(results=(*self.results, event))
            case BenchStopped():
                return self._replace(stopped=event)

    def _in_phase(self, phase: BenchPhase) -> BenchProgress:
        """Seconds and requests of the load before stay until the next one begins."""
        another = self.phase is not None and self.phase.number != phase.number
        fresh = self._replace(warming=None, seconds=(), requests=()) if another else self
        return fresh._replace(phase=phase)

    def _after_second(self, second: LoadSecond) -> BenchProgress:
        if second.second == WARMING:
            return self._replace(warming=second)
        return self._replace(warming=None, seconds=(*self.seconds, second))


def requests_at(ask: BenchAsk, concurrency: int) -> int:
    """Requests of one load."""
    return ask.prompts or prompts_for(concurrency)


def done_share(progress: BenchProgress) -> float:
    """Of all requests of the plan, those that were answered or failed, from 0 to 1."""
    ask = progress.plan.ask
    total = ask.repeats * sum(requests_at(ask, each) for each in ask.concurrency or ())
    before = sum(requests_at(ask, result.context.max_concurrency) for result in progress.results)
    latest = progress.seconds[-1] if progress.seconds else None
    told = progress.phase is not None and progress.phase.number == len(progress.results)
    # Once its result is there, the load's own requests are counted by that.
    current = 0 if latest is None or told else latest.done + latest.failed
    return min(1.0, (before + current) / total) if total else 0.0


def seconds_left(progress: BenchProgress, now: float) -> float | None:
    """Of the plan, by how the requests of the load under way end; before any has, by its own estimate."""
    latest = progress.seconds[-1] if progress.seconds else None
    ended = 0 if latest is None else latest.done + latest.failed
    if latest is not None and ended:
        a_request = (latest.second + 1) / ended
        return (latest.of - ended) * a_request + _rounds_later(progress) * a_request * _under_way(progress)
    estimate = progress.plan.seconds
    return None if estimate is None else max(0.0, estimate - progress.elapsed(now))


def _rounds_later(progress: BenchProgress) -> float:
    """Of the loads that follow, each with its warm-up: a round takes about as long at any concurrency."""
    ask, begun = progress.plan.ask, 1 if progress.phase is None else progress.phase.number
    later = (ask.concurrency or ()) * ask.repeats
    return sum(1 + requests_at(ask, each) / each for each in later[begun:])


def _under_way(progress: BenchProgress) -> int:
    """Requests of a round of the load under way."""
    phase = progress.phase
    return 1 if phase is None or phase.concurrency is None else phase.concurrency
