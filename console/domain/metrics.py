"""A scrape of /metrics as one `Reading`, and two readings as `Rates`.

Families and labels: sglang/srt/observability/metrics_collector.py (SGLang 0.5.5 to 0.5.23) for servers, the
`smg_` series of sglang_router 0.3.2 for routers. The text is the Prometheus exposition format 0.0.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from console.domain.exposition import Page, Sample, read_page

RateSource = Literal["counters", "gauge", "log"]
"""`counters`: tokens counted between two readings. `gauge`: gen_throughput. `log`: the last batch line."""

Gap = Literal["restart", "unreliable"]
"""Why two readings give no rate: the server restarted, or a counter fell although it did not."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One scrape of one server. None: not exported by this version, or not readable (NaN)."""

    at: float
    """Seconds on a monotonic clock when the scrape was taken."""
    process_start: float | None = None
    """Seconds since the epoch on the host's clock."""
    gen_tokens: float | None = None
    """Generated tokens since the server's start: the live counter, not the one that moves at request end."""
    prompt_tokens: float | None = None
    """Prompt tokens computed since the server's start; those taken from the prefix cache are not in it."""
    cached_tokens: float | None = None
    """Prompt tokens taken from the prefix cache since the server's start."""
    finished_tokens: float | None = None
    """Generated tokens of requests that have ended: what answers' `usage` adds up to."""
    gen_throughput: float | None = None
    """The server's own tokens a second; it falls to 0 only after 30 s without work."""
    running: float | None = None
    """As of the last batch line, as all gauges: for 30 s after the last request it may still say 1."""
    queued: float | None = None
    kv_usage: float | None = None
    """Share of the KV cache in use, 0 to 1; of several DP ranks the fullest."""
    bootstrap_queue: float | None = None
    """Prefill: requests that wait for decode's handshake."""
    inflight_queue: float | None = None
    """Prefill: requests whose KV is still being sent."""
    prealloc_queue: float | None = None
    """Decode: requests that wait for KV space."""
    transfer_queue: float | None = None
    """Decode: requests whose KV is still arriving."""
    transfers: float | None = None
    """KV transfers finished since the server's start."""
    transferred_mb: float | None = None
    transfer_speed_sum: float | None = None
    """Of all transfers, GB/s each."""
    transfer_failures: float | None = None
    bootstrap_failures: float | None = None
    note: str | None = None
    """One sentence when the page was not what it should be."""


class RouterReading(msgspec.Struct, frozen=True, kw_only=True):
    """One scrape of a router. A series appears with its first event, so None may also mean `none so far`."""

    at: float
    requests: float | None = None
    request_errors: float | None = None
    active: float | None = None
    """Requests in progress, as the busiest worker has them: a pair works on each request twice."""
    retries: float | None = None
    """Retried requests: a retry counts once for each role, so the larger of the two."""
    retries_exhausted: float | None = None
    workers: int | None = None
    healthy_workers: int | None = None
    open_breakers: int | None = None
    """Workers whose circuit breaker is open or half open."""
    note: str | None = None


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens a second. 0 is an idle server; None is not known."""

    gen_tok_s: float | None = None
    prompt_tok_s: float | None = None
    source: RateSource | None = None
    """Where `gen_tok_s` comes from, or `prompt_tok_s` when that is the only one."""
    gap: Gap | None = None


def parse_reading(text: str, at: float) -> Reading:
    """Read a server's page, taken at `at` (monotonic seconds). Never raises: what is wrong goes to `note`.

    Ranks are labels: DP ranks serve different requests and are added (of usage, the fullest counts); TP, PP
    and EP ranks repeat the same number, so one of them is taken.
    """
    page = read_page(text, _SERVER_NAMES)
    servers = {(labels.get("worker_addr"), labels.get("engine_type")) for _, labels in page.samples}
    if len(servers - {(None, None)}) > 1:
        return Reading(at=at, note="the page mixes several servers; read each by itself")
    values: dict[str, float | None] = {}
    notes = [page.note] if page.note else []
    for field, samples in _by_field(page).items():
        values[field], disagree = _over_ranks(field, samples)
        if disagree:
            notes.append(f"ranks disagree on {field}; the largest is taken")
    return msgspec.convert({"at": at, "note": "; ".join(notes) or None, **values}, Reading)


def parse_router_reading(text: str, at: float) -> RouterReading:
    """Read a router's page (its Prometheus port), taken at `at`. Never raises."""
    page = read_page(text, _ROUTER_NAMES)
    health = page.families.get("smg_worker_health")
    breakers = page.families.get("smg_worker_cb_state")
    return RouterReading(
        at=at,
        requests=_total(page, "smg_router_requests_total"),
        request_errors=_total(page, "smg_router_request_errors_total"),
        active=_largest(page, "smg_worker_requests_active", "worker"),
        retries=_largest(page, "smg_worker_retries_total", "worker_type"),
        retries_exhausted=_largest(page, "smg_worker_retries_exhausted_total", "worker_type"),
        workers=None if health is None else len(health),
        healthy_workers=None if health is None else sum(sample.value == 1 for sample in health),
        open_breakers=None if breakers is None else sum(sample.value != 0 for sample in breakers),
        note=page.note,
    )


def rates(previous: Reading | None, current: Reading) -> Rates:
    """Tokens a second between two readings of one server; best 2 to 5 s apart.

    Generation comes from the live token counter, else from the gen_throughput gauge. A counter that went down
    gives a gap, never a negative rate.
    """
    gauge = current.gen_throughput
    by_gauge = Rates(gen_tok_s=gauge, source=None if gauge is None else "gauge")
    if previous is None or current.at <= previous.at:
        # The gauge may be half a minute old; where there is a counter, the second reading will tell.
        return by_gauge if current.gen_tokens is None else Rates()
    if gap := _gap(previous, current):
        return Rates(gap=gap)
    seconds = current.at - previous.at
    gen = _rate(previous.gen_tokens, current.gen_tokens, seconds)
    prompt = _rate(previous.prompt_tokens, current.prompt_tokens, seconds)
    if gen is None and gauge is not None:
        return Rates(gen_tok_s=gauge, prompt_tok_s=prompt, source="gauge")
    known = gen is not None or prompt is not None
    return Rates(gen_tok_s=gen, prompt_tok_s=prompt, source="counters" if known else None)


def from_batch_line(text: str) -> Rates | None:
    """The last resort: what a `Decode batch` or `Prefill batch` line of the log says; None for others.

    The server averages since its previous line, idle time included, so the first line after idle reads low.
    """
    head, found, rest = text.partition(" batch")
    if not found or not head.endswith(("Decode", "Prefill")):
        return None
    pairs = dict(part.partition(": ")[::2] for part in rest.split(", "))
    gen = _number(pairs.get("gen throughput (token/s)"))
    prompt = _number(pairs.get("input throughput (token/s)"))
    if gen is None and prompt is None:
        return None
    return Rates(gen_tok_s=gen, prompt_tok_s=prompt, source="log")


_SERVER_FIELDS = {
    "running": ("num_running_reqs", "num_requests_running"),
    "queued": ("num_queue_reqs", "num_requests_waiting"),
    "gen_throughput": ("gen_throughput",),
    "kv_usage": ("token_usage",),
    "bootstrap_queue": ("num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs"),
    "inflight_queue": ("num_prefill_inflight_queue_reqs",),
    "prealloc_queue": ("num_decode_prealloc_queue_reqs",),
    "transfer_queue": ("num_decode_transfer_queue_reqs",),
    "transfers": ("kv_transfer_latency_ms_count",),
    "transferred_mb": ("kv_transfer_total_mb_sum",),
    "transfer_speed_sum": ("kv_transfer_speed_gb_s_sum",),
    "finished_tokens": ("generation_tokens_total",),
    "transfer_failures": ("num_transfer_failed_reqs_total",),
    "bootstrap_failures": ("num_bootstrap_failed_reqs_total",),
}
"""Field of Reading -> families, newest name first. `sglang:` at a server, `sglang_` through a router."""

_NOT_ADDED = ("kv_usage", "process_start")

_TOKEN_MODES = {
    "decode": "gen_tokens",
    "prefill_compute": "prompt_tokens",
    "prefill_cache": "cached_tokens",
}
"""Label `mode` of realtime_tokens_total -> field of Reading."""

_SERVER_FAMILIES = {family: field for field, families in _SERVER_FIELDS.items() for family in families}
_SERVER_NAMES = frozenset(
    {f"sglang{mark}{family}" for family in (*_SERVER_FAMILIES, "realtime_tokens_total") for mark in ":_"}
    | {"process_start_time_seconds"}
)
_ROUTER_NAMES = frozenset(
    {
        "smg_router_requests_total",
        "smg_router_request_errors_total",
        "smg_worker_requests_active",
        "smg_worker_retries_total",
        "smg_worker_retries_exhausted_total",
        "smg_worker_health",
        "smg_worker_cb_state",
    }
)


def _by_field(page: Page) -> dict[str, list[Sample]]:
    """Samples under the name of the field of Reading that they belong to, whatever their version calls it."""
    fields: dict[str, list[Sample]] = {}
    for name, samples in page.families.items():
        for sample in samples:
            if field := _field_of(name.removeprefix("sglang")[1:], sample):
                fields.setdefault(field, []).append(sample)
    return fields


def _field_of(family: str, sample: Sample) -> str | None:
    if family == "realtime_tokens_total":
        return _TOKEN_MODES.get(sample.labels.get("mode", ""))
    return _SERVER_FAMILIES.get(family, "process_start")


def _total(page: Page, family: str) -> float | None:
    samples = page.families.get(family)
    return None if samples is None else _finite(sum(sample.value for sample in samples))


def _largest(page: Page, family: str, label: str) -> float | None:
    """The sum for the value of `label` that has the largest."""
    sums: dict[str, float] = {}
    for value, labels in page.families.get(family, ()):
        key = labels.get(label, "")
        sums[key] = sums.get(key, 0.0) + value
    return _finite(max(sums.values(), default=math.nan))


def _over_ranks(field: str, samples: Iterable[Sample]) -> tuple[float | None, bool]:
    """The value over all ranks, and whether ranks that should repeat one number disagree."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.labels.get("dp_rank", "0"), []).append(sample)
    chosen = [_of_rank_0(group) for group in groups.values()]
    values = [value for value, _ in chosen]
    if not all(map(math.isfinite, values)):
        return None, False
    value = max(values) if field in _NOT_ADDED else sum(values)
    return value, any(disagree for _, disagree in chosen)


def _of_rank_0(samples: list[Sample]) -> tuple[float, bool]:
    """What the first rank says; without a first rank the largest, and whether they disagree."""
    for value, labels in samples:
        if all(labels[key] == "0" for key in labels if key.endswith("_rank") and key != "dp_rank"):
            return value, False
    values = [sample.value for sample in samples]
    return max(values), min(values) != max(values)


def _gap(previous: Reading, current: Reading) -> Gap | None:
    before, now = previous.process_start, current.process_start
    if before is not None and now is not None and before != now:
        return "restart"
    if _fell(previous.gen_tokens, current.gen_tokens) or _fell(previous.prompt_tokens, current.prompt_tokens):
        return "unreliable" if before is not None and before == now else "restart"
    return None


def _fell(before: float | None, now: float | None) -> bool:
    return before is not None and now is not None and now < before


def _rate(before: float | None, now: float | None, seconds: float) -> float | None:
    return None if before is None or now is None else (now - before) / seconds


def _number(text: str | None) -> float | None:
    try:
        return _finite(float(text or ""))
    except ValueError:
        return None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
