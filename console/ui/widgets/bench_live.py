"""A benchmark that goes on: where it is, the figures so far, failures, and how client and GPUs do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from console.domain.bench.benching import BenchPhase
from console.domain.bench.client_limits import MOST_CPU_PCT
from console.domain.bench.figures import Running, running
from console.domain.bench.load import FailureKind, LoadSecond
from console.domain.bench.seconds import tokens_per_chunk

from .bench_progress import BenchProgress, done_share, seconds_left
from .bench_shape import about
from .histogram import ms
from .lines import Line, Span
from .meter import Glyphs, bar, percent, rate
from .paragraphs import Paragraph

BAR_WIDTH = 20
LABEL_WIDTH = 9
LATE_MS = 10.0
"""Of the longest delay of the generator's loop in a second; the result judges by the 95th percentile."""
MAY_LIMIT = "the client may be the limit"


def where_it_is(progress: BenchProgress, now: float) -> str:
    """`45 of 96 requests, about 38 s left`, for one of several `2 of 5, C=4: …`."""
    which, latest = _which(progress.phase), progress.latest
    if latest is None:
        return which + (progress.phase.text if progress.phase is not None else "begins")
    if progress.warming is not None:
        return f"{which}warming up, {latest.done + latest.failed} of {latest.of}, not measured"
    ended = latest.done + latest.failed
    if ended >= latest.of and progress.phase is not None:
        return f"{which}{ended} of {latest.of} requests, {progress.phase.text}"
    left = seconds_left(progress, now)
    said = "" if left is None else f", {about(left)} left"
    return f"{which}{ended} of {latest.of} requests{said}"


def _which(phase: BenchPhase | None) -> str:
    if phase is None or phase.of == 1:
        return ""
    at = "" if phase.concurrency is None else f", C={phase.concurrency}"
    return f"{phase.number} of {phase.of}{at}: "


def progress_paragraph(progress: BenchProgress, now: float, glyphs: Glyphs) -> Paragraph:
    """A bar over all requests of the plan, and the words beside it."""
    full, empty = bar(100.0 * done_share(progress), BAR_WIDTH, glyphs)
    head = (Span(full, "bar-high"), Span(empty, "bar-track"), Span("  "))
    return Paragraph(where_it_is(progress, now), "strong", head=head)


def live_paragraphs(
    progress: BenchProgress, gpus: Sequence[Paragraph], glyphs: Glyphs
) -> Iterator[Paragraph]:
    """Figures so far, those of what is under way."""
    latest = progress.latest
    yield from _figures(progress)
    yield _flight(latest)
    yield failure_paragraph(Counter(each.failure for each in progress.requests if each.failure), glyphs)
    yield from _client(latest)
    yield from gpus


def _figures(progress: BenchProgress) -> Iterator[Paragraph]:
    so_far = running(progress.requests, float(len(progress.seconds)))
    per_chunk = tokens_per_chunk(progress.requests)
    now = progress.seconds[-1].chunks * (per_chunk or 1.0) if progress.seconds else None
    # A chunk's tokens are known only by the usage of requests that have ended.
    unit = " tok/s now" if per_chunk is not None else " chunks/s now"
    mean = so_far.output_throughput if so_far.completed else None
    yield _row("output", _value(rate(now), now), Span(unit, "muted"), *_mean(mean))
    yield _row("TTFT", *_median(so_far.ttft_ms, so_far))
    yield _row("TPOT", *_median(so_far.tpot_ms, so_far))


def _value(text: str, value: float | None) -> Span:
    return Span(text if value is not None else "n/a", "strong" if value is not None else "muted")


def _mean(value: float | None) -> Line:
    if value is None:
        return (Span("  no request has ended yet", "muted"),)
    return (Span(f"  {rate(value)}", "strong"), Span(" mean of what has ended", "muted"))


def _median(value: float | None, so_far: Running) -> Line:
    if value is None:
        return (Span("n/a", "muted"),)
    return (Span(f"{ms(value)} ms", "strong"), Span(f" median, n={so_far.completed}", "muted"))


def _flight(latest: LoadSecond | None) -> Paragraph:
    if latest is None:
        return _row("in flight", Span("n/a", "muted"))
    return _row("in flight", Span(str(latest.in_flight), "strong"))


def _client(latest: LoadSecond | None) -> Iterator[Paragraph]:
    if latest is None:
        yield _row("client", Span("n/a", "muted"))
        return
    yield _row("client", Span(f"{percent(latest.cpu_pct)} of a core, late by {ms(latest.lag_ms)} ms at most"))
    if latest.cpu_pct > MOST_CPU_PCT or latest.lag_ms >= LATE_MS:
        yield _row("", Span(f"! {MAY_LIMIT}", "warning"))


def failure_paragraph(failures: Mapping[FailureKind, int], glyphs: Glyphs) -> Paragraph:
    """`failed  none`, `failed  ✗ 3: 2 timed out, 1 cut off`."""
    if not failures:
        return _row("failed", Span("none", "muted"))
    said = f"{glyphs.failed} {sum(failures.values())}: {kinds(failures)}"
    return _row("failed", Span(said, "state-failed"))


def kinds(failures: Mapping[FailureKind, int]) -> str:
    """`2 timed out, 1 cut off`, the most frequent first."""
    ordered: Iterable[tuple[FailureKind, int]] = sorted(failures.items(), key=lambda each: -each[1])
    return ", ".join(f"{count} {kind}" for kind, count in ordered)


def _row(label: str, *spans: Span) -> Paragraph:
    return Paragraph(head=(Span(f"{label:<{LABEL_WIDTH}} ", "muted"), *spans))
