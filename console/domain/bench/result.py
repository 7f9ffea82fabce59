"""The result of one benchmark at one concurrency: figures, and everything that they depend on."""

from __future__ import annotations

import msgspec

from .load import FailureKind, RequestTiming


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Of requests that succeeded, or of their chunks; None is what too few samples cannot tell."""

    n: int
    mean: float | None = None
    median: float | None = None
    std: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Defined and named as in sglang.benchmark.serving of 0.5.23; times in ms, rates per second."""

    duration: float
    """Seconds from the first dispatch to the end of the last request."""
    completed: int
    failed: int
    failures: dict[FailureKind, int] = {}
    total_input_tokens: int
    total_output_tokens: int
    """Of the requests that succeeded, by usage."""
    request_throughput: float
    input_throughput: float
    output_throughput: float
    total_throughput: float
    concurrency: float
    """Mean number in flight: sum of latencies over duration."""
    ttft_ms: Spread
    tpot_ms: Spread
    """(latency - TTFT) / (tokens - 1) of each request with more than one token."""
    itl_ms: Spread
    """Gaps between chunks with text."""
    itl_is_per_chunk: bool
    """More tokens than chunks: a gap is not the time of one token."""
    e2e_latency_ms: Spread
    max_output_tokens_per_s: float | None = None
    """The best whole second, tokens of a request spread evenly over its chunks; never below the mean."""
    tokens_estimated: bool = False
    """Some answer had no usage."""
    per_second: tuple[float, ...] = ()
    """Output tokens in each second."""
    short: int = 0
    """Answers that stopped at their length with fewer tokens than were asked for."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """How the load generator did."""

    where: str
    """`host`, or `not known`: of an imported result."""
    name: str
    workers: int
    cpu_pct: float | None
    """None, as the two below: of an imported result, whose client did not tell."""
    lag_p95_ms: float | None
    lag_max_ms: float | None
    limited: str | None = None
    """Why the client may have been the limit."""
    offered_less: bool = False
    """One of the reasons: too few requests were in flight, so that the server had less to do."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a result depends on beside the profile's settings."""

    host: str
    demo: bool = False
    profile: str | None = None
    settings: dict[str, str] = {}
    """Verified settings: flags, environment, GPUs, as `decode flag kv-cache-dtype` to their values."""
    verified: bool | None = None
    runs: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    """sglang, driver, …"""
    model: str | None = None
    input_tokens: int
    output_tokens: int
    max_concurrency: int
    prompts: int
    seed: int
    cache: str = "nonce"
    """`nonce`: no two prompts begin alike; `flushed`: and caches were emptied before; `warm`: on purpose."""
    other_load: float | None = None
    """Mean number of requests of others that ran meanwhile; None: not known."""
    gpu: dict[str, float] = {}
    """Means over the measured part: sm_pct, power_w, dram_pct, power_limit_w, clock_mhz; energy_j in all."""
    kv_transfer_gb_s: float | None = None
    cached_share: float | None = None
    """Of the prompt tokens, by the servers' counters, those that a prefix cache served, 0 to 1."""
    server_tokens: int | None = None
    """Output tokens by the servers' own counters over the same time."""
    origin: str | None = None
    """What measured an imported result, such as `sglang (random-ids)`; None: this console."""


class BenchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark at one concurrency."""

    id: str
    at: float
    """Seconds since the epoch, when it began."""
    series: str
    """Ids of results that belong together: a sweep, or the repeats of an A/B."""
    label: str = ""
    """As `A 2/3`."""
    context: Context
    figures: Figures
    client: Client
    partial: str | None = None
    """Why it ended before its time."""
    requests: tuple[RequestTiming, ...] = ()
    """Left out of lists."""
