"""Why a measurement is partial: it was stopped, its generator was lost, or its target answered no more."""

from __future__ import annotations

from collections.abc import Sequence

from .load import LoadDone, RequestTiming

FEWEST = 2
"""One last request that fails is a failure, and no end."""


def partial(
    done: LoadDone | None, lost: str | None, timings: Sequence[RequestTiming], concurrency: int
) -> str | None:
    """In a sentence; None: all prompts were asked of a target that answered to the end.

    `done`: None where the generator told no end; `lost`: why nothing more could be heard.
    """
    if lost is not None:
        return lost
    if done is None:
        return "the load generator ended without a word"
    if done.stopped:
        return "stopped before all requests were answered"
    return _silence(timings, concurrency)


def _silence(timings: Sequence[RequestTiming], concurrency: int) -> str | None:
    """A target that dies fails all that is in flight, and all that follow. One that never gave any text
    did not stop: it refuses what is asked."""
    answered = max((timing.ended for timing in timings if timing.ok), default=-1.0)
    last = [timing for timing in timings if not timing.ok and timing.ended > answered]
    if len(last) < max(FEWEST, concurrency) or not any(timing.chunks for timing in timings):
        return None
    return f"the target answered no more: the last {len(last)} requests all failed"
