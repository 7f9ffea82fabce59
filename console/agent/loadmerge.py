"""What several load workers tell, as the events of one load (console/domain/bench/load.py)."""

from __future__ import annotations

from array import array
from typing import Any, Dict, Iterator

DIGITS = 5
"""Of seconds: 10 µs, which keeps lists of chunks short."""
BATCH_CHUNKS = 8192
"""A line of requests ends with the one that brings it to so many chunks."""

Event = Dict[str, Any]


class PhaseMerge:
    """The seconds of one phase. Every worker tells each of its own, in order, and then that it is through."""

    def __init__(self, workers: int, of: int, *, measured: bool) -> None:
        self.of = of
        self._measured = measured
        self._reports: list[list[Event]] = [[] for _ in range(workers)]
        self._ends: dict[int, Event] = {}
        self._next = 0

    @property
    def told(self) -> bool:
        """True when every worker has told of a second."""
        return self._next > 0

    @property
    def over(self) -> bool:
        """True when every worker is through."""
        return len(self._ends) == len(self._reports)

    def has_ended(self, worker: int) -> bool:
        """Whether this worker is through."""
        return worker in self._ends

    @property
    def done(self) -> int:
        """Requests that have ended, well or not."""
        return self._last("done")

    @property
    def failed(self) -> int:
        """How many of these failed."""
        return self._last("failed")

    @property
    def reason(self) -> str | None:
        """That of a failure."""
        return next((end["reason"] for end in self._ends.values() if end["reason"]), None)

    def take(self, worker: int, header: Event) -> Iterator[Event]:
        """What a worker tells (`second` or `over`); yields the seconds that it completes."""
        if header["kind"] == "over":
            self._ends[worker] = header
        else:
            self._reports[worker].append(header)
        while self._is_complete(self._next):
            if self.of:
                yield self._second(self._next)
            self._next += 1

    def health(self) -> Event:
        """Of the worker that fares worst."""
        return {
            name: round(max((end[name] for end in self._ends.values()), default=0.0), 3)
            for name in ("cpu_pct", "lag_p95_ms", "lag_max_ms")
        }

    def _last(self, name: str) -> int:
        return sum(reports[-1][name] for reports in self._reports if reports)

    def _is_complete(self, second: int) -> bool:
        told = [len(reports) > second for reports in self._reports]
        return any(told) and all(there or worker in self._ends for worker, there in enumerate(told))

    def _second(self, second: int) -> Event:
        now = [reports[second] for reports in self._reports if len(reports) > second]
        until = [reports[min(second, len(reports) - 1)] for reports in self._reports if reports]
        return {
            "event": "second",
            "second": second if self._measured else -1,
            "chunks": sum(each["chunks"] for each in now),
            "in_flight": sum(each["in_flight"] for each in until),
            "done": sum(each["done"] for each in until),
            "failed": sum(each["failed"] for each in until),
            "of": self.of,
            "lag_ms": round(max(each["lag_ms"] for each in now), 3),
            "cpu_pct": round(max(each["cpu_pct"] for each in now), 1),
        }


class Requests:
    """Requests that have ended, their times since the first measured dispatch."""

    def __init__(self) -> None:
        self.begun: float | None = None
        """The first dispatch, on the monotonic clock."""
        self.answered = 0
        """Requests that were not stopped."""
        self._ended_at = 0.0
        self._waiting: list[tuple[Event, array[float]]] = []

    @property
    def duration_s(self) -> float:
        """From the first dispatch to the last end."""
        return max(0.0, self._ended_at - self.begun) if self.begun is not None else 0.0

    def first(self, at: float) -> None:
        """A request was sent at that time."""
        self.begun = at if self.begun is None else min(at, self.begun)

    def take(self, worker: int, timing: Event, body: bytes) -> None:
        """One request as a worker tells it."""
        chunks = array("d")
        chunks.frombytes(body)
        self._ended_at = max(self._ended_at, timing["ended"])
        self.first(timing["sent"])
        self.answered += timing["failure"] != "stopped"
        self._waiting.append((dict(timing, worker=worker), chunks))

    def batches(self) -> Iterator[Event]:
        """All that were not told yet. Wants every worker to have begun."""
        batch: list[Event] = []
        size = 0
        for timing, chunks in self._waiting:
            batch.append(self._told(timing, chunks))
            size += len(chunks)
            if size >= BATCH_CHUNKS:
                yield {"event": "requests", "items": batch}
                batch, size = [], 0
        if batch:
            yield {"event": "requests", "items": batch}
        self._waiting = []

    def _told(self, timing: Event, chunks: array[float]) -> Event:
        begun = self.begun or 0.0
        told = {name: value for name, value in timing.items() if name != "kind" and value is not None}
        for name in ("sent", "ended"):
            told[name] = round(timing[name] - begun, DIGITS)
        return dict(told, chunks=[round(at - begun, DIGITS) for at in chunks])
