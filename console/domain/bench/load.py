"""What the load generator is told, and what it tells while it runs (console/agent/loadgen.py)."""

from __future__ import annotations

from typing import Literal

import msgspec

FailureKind = Literal["refused", "rejected", "error", "aborted", "cut off", "empty", "timed out", "stopped"]
"""`refused`: no connection; `rejected`: a status other than 200, or an error frame before any text; `error`:
one after some text; `aborted`: finish_reason abort; `cut off`: no [DONE] came; `empty`: it ended without any
text; `timed out`: nothing came for the idle limit; `stopped`: by the operator, or at the end of the time
given."""


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One load: C requests in flight until all prompts are answered."""

    url: str
    """Of /v1/completions, as the host sees it."""
    model: str
    prompts: tuple[str, ...]
    """Measured, in this order; request i has prompt i."""
    warmup: tuple[str, ...] = ()
    """Sent before, with the same concurrency, and not measured."""
    output_tokens: int
    concurrency: int
    workers: int = 1
    """Processes among which the concurrency is divided."""
    idle_limit_s: float = 60.0
    """A request of which nothing comes for so long is cut."""
    total_limit_s: float | None = None
    """Of the whole measured part; requests in flight are then cut as `stopped`."""
    api_key: str | None = None


class RequestTiming(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Times are seconds on the generator's monotonic clock since the first measured dispatch."""

    index: int
    worker: int = 0
    sent: float
    """Directly before the POST: waiting for a free place is not in it."""
    chunks: tuple[float, ...] = ()
    """Arrival of each chunk with text, reasoning text included, in order."""
    ended: float
    """Arrival of the last data line, [DONE] included; of a failure, when it was known."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """From `usage`, never from chunks. None: the server gave none."""
    cached_tokens: int | None = None
    """Of the prompt, served from a prefix cache, where the server says so."""
    finish_reason: str | None = None
    status: int | None = None
    """HTTP status."""
    failure: FailureKind | None = None
    reason: str | None = None
    """One sentence to the failure."""

    @property
    def ok(self) -> bool:
        """Answered to its end."""
        return self.failure is None

    @property
    def ttft(self) -> float | None:
        """Seconds to the first chunk with text."""
        return self.chunks[0] - self.sent if self.chunks else None

    @property
    def latency(self) -> float:
        """Seconds to the end."""
        return self.ended - self.sent


class LoadSecond(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="second"):
    """One second of the measured part; also given, with second -1, while it warms up."""

    second: int
    chunks: int
    """Chunks with text that arrived in it. Tokens are known only when a request ends."""
    in_flight: int
    done: int
    """Of all measured requests, so far; of the warm-up while that goes on."""
    failed: int
    of: int
    lag_ms: float
    """The largest delay of the generator's own loop in that second, over all workers."""
    cpu_pct: float
    """Of one core, the busiest worker."""


class LoadRequests(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="requests"):
    """Requests that have ended since the last of these."""

    items: tuple[RequestTiming, ...]


class LoadBegun(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="begun"):
    """The generator runs."""

    pids: tuple[int, ...]
    client: str
    """Such as `httpx 0.28.1 on Python 3.11.7`."""


class LoadDone(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="done"):
    """The end; everything measured has been told before."""

    duration_s: float
    """From the first measured dispatch to the end of the last request."""
    cpu_pct: float
    """Of one core, the busiest worker, over the measured part."""
    lag_p95_ms: float
    """95th percentile of the delay of the generator's loop, in its busiest worker."""
    lag_max_ms: float
    stopped: bool = False
    """It was cut before all prompts were answered."""


class LoadFailed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="failed"):
    """The generator could not run."""

    reason: str


LoadEvent = LoadBegun | LoadSecond | LoadRequests | LoadDone | LoadFailed
