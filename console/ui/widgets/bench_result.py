"""What came of a benchmark: what weakens it first, the figure, what it stands against, and all the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from console.domain.bench.comparability import had_others, was_cached
from console.domain.bench.result import BenchResult, Client
from console.domain.bench.targets import references_in_words

from .bench_live import kinds
from .bench_progress import BenchProgress
from .bench_table import result_table, spread_table
from .big_number import ROWS, big
from .lines import Line, Span
from .meter import NA, Glyphs, count, duration, percent, rate
from .paragraphs import Paragraph
from .progress import stretch

LABEL_WIDTH = 10
NOT_KNOWN = "What was measured before is kept: c shows it."


class Reference(NamedTuple):
    """What a figure stands against, or why it cannot."""

    label: str
    tok_s: float | None
    """None: they cannot be compared, and `said` tells why."""
    said: str = ""
    is_target: bool = False


def ending_paragraphs(progress: BenchProgress, glyphs: Glyphs) -> Iterator[Paragraph]:
    """Why it ended before all was measured, if it did."""
    failed = Span(f"{glyphs.failed} STOPPED  ", "state-failed")
    if progress.error is not None:
        yield Paragraph(progress.error, head=(failed,))
        yield Paragraph(f"Next: {NOT_KNOWN}", "muted")
    elif progress.stopped is not None:
        yield Paragraph(progress.stopped.reason, head=(failed,))
        if progress.stopped.next:
            yield Paragraph(f"Next: {progress.stopped.next}")
    elif progress.aborting is not None:
        said = progress.aborting if progress.results else "before anything was measured"
        yield _told("! ABORTED", said)


def result_paragraphs(
    result: BenchResult, against: Sequence[Reference], glyphs: Glyphs, *, large: bool
) -> Iterator[Paragraph]:
    """One result; `large` has the room for large digits."""
    yield from weaknesses(result, glyphs)
    yield from _figure(result, large=large)
    yield from _against(result, against, glyphs)
    yield Paragraph()
    yield from spread_table(result.figures, glyphs)
    yield Paragraph()
    yield from context_paragraphs(result)
    if any(each.is_target for each in against):
        # A profile that has a target is for the hardware of which this was reported.
        yield Paragraph(references_in_words(), "muted")


def several_paragraphs(results: Sequence[BenchResult], glyphs: Glyphs) -> Iterator[Paragraph]:
    """A table, above it what weakens any of them."""
    for result in results:
        at = f"C={result.context.max_concurrency}: "
        yield from (each._replace(text=at + each.text) for each in weaknesses(result, glyphs))
    yield from result_table(results, glyphs)


def weaknesses(result: BenchResult, glyphs: Glyphs) -> Iterator[Paragraph]:
    """Everything for which the figures may not be what they seem, the gravest first."""
    figures, context = result.figures, result.context
    if not figures.completed:
        yield _told(f"{glyphs.failed} FAILED", "no request succeeded", "state-failed")
    if result.partial is not None:
        yield _told("! PARTIAL", result.partial)
    if figures.failed:
        total = figures.completed + figures.failed
        said = f"{figures.failed} of {total} requests: {kinds(figures.failures)}; not in the figures"
        yield _told(f"{glyphs.failed} failed", said, "state-failed")
    if result.client.limited is not None:
        yield _told("! CLIENT", f"it may have been the limit: {result.client.limited}")
    if figures.short:
        yield _told("! short", f"{figures.short} answers ended with fewer tokens than were asked for")
    if figures.tokens_estimated:
        yield _told("! tokens", "estimated by chunks: some answer had no usage")
    if context.server_tokens is not None and context.server_tokens != figures.total_output_tokens:
        yield _told("! tokens", _disagreement(result))
    if was_cached(context):
        share = f"{context.cached_share:.0%} of the prompt tokens"
        yield _told("! cache", f"{share} came from a prefix cache, which was not wanted")
    if context.verified is False:
        yield _told("! settings", "what ran was not as the profile asks: see the result of its switch")
    if had_others(context):
        yield _told("! others", f"{context.other_load:.1f} requests of others ran meanwhile, on average")


def _disagreement(result: BenchResult) -> str:
    told = f"{count(result.context.server_tokens)} by the servers' counters"
    return f"{told}, {count(result.figures.total_output_tokens)} by usage of requests that succeeded"


def _told(word: str, said: str, tone: str = "warning") -> Paragraph:
    return Paragraph(said, head=(Span(f"{word:<{LABEL_WIDTH}} ", tone),))


def _figure(result: BenchResult, *, large: bool) -> Iterator[Paragraph]:
    figures = result.figures
    number = rate(figures.output_throughput)
    unit: Line = (Span(f" output tok/s at C={result.context.max_concurrency}", "muted"),)
    if not large:
        yield Paragraph(head=(Span(number, "strong"), *unit))
        return
    for row, text in enumerate(big(number)):
        yield Paragraph(head=(Span(text, "strong"), *(unit if row == ROWS - 1 else ())))


def _against(result: BenchResult, against: Sequence[Reference], glyphs: Glyphs) -> Iterator[Paragraph]:
    figure = result.figures.output_throughput
    width = max((len(each.label) for each in against), default=0)
    for each in against:
        label = Span(f"{each.label:<{width}} ", "muted")
        if each.tok_s is None:
            yield Paragraph(each.said, "muted", head=(label,))
            continue
        share = figure / each.tok_s if each.tok_s else None
        number = Span(f"{rate(each.tok_s):>7}", "strong")
        yield Paragraph(each.said, "muted", head=(label, number, *_ratio(share, each, glyphs), Span("  ")))


def _ratio(share: float | None, reference: Reference, glyphs: Glyphs) -> Line:
    if share is None:
        return (Span(f"  {NA}", "muted"),)
    if reference.is_target:
        reached = share >= 1
        sign = glyphs.ready if reached else "!"
        word = "reached" if reached else "missed"
        return (Span(f"  {sign} {word}, {100 * share:.0f}%", "state-ready" if reached else "warning"),)
    return (Span(f"  {ratio(share)}"),)


def ratio(share: float) -> str:
    """`+3.2%`; from twice on `2.4x`, `105x`."""
    if share >= 2:
        return f"{share:.1f}x" if share < 10 else f"{share:,.0f}x"
    return f"{100 * (share - 1):+.1f}%"


def context_paragraphs(result: BenchResult) -> Iterator[Paragraph]:
    """Rates, servers, GPUs, client and shape."""
    figures, context = result.figures, result.context
    peak = figures.max_output_tokens_per_s
    yield _row(
        "rates",
        f"input {rate(figures.input_throughput)} tok/s, total {rate(figures.total_throughput)} tok/s,"
        f" {figures.request_throughput:.2f} requests/s, best second {rate(peak)} tok/s",
    )
    yield _row(
        "requests",
        f"{figures.completed} succeeded, {figures.failed} failed in {stretch(figures.duration)},"
        f" {figures.concurrency:.1f} in flight on average",
    )
    yield _row("shape", shape_words(result))
    if gpu := _gpus(result):
        yield _row("GPUs", gpu)
    if context.kv_transfer_gb_s is not None:
        yield _row("transfer", f"{context.kv_transfer_gb_s:.2f} GB/s of KV cache from prefill to decode")
    yield _row("servers", _servers(result))
    yield _row("client", _client(result.client))
    yield _row("id", " ".join(filter(None, (result.id, result.label))))


def _client(client: Client) -> str:
    workers = "1 process" if client.workers == 1 else f"{client.workers} processes"
    late = NA if client.lag_p95_ms is None else f"{client.lag_p95_ms:.2f} ms"
    busy = f"{percent(client.cpu_pct)} of a core"
    return f"{client.name} on {client.where}, {workers}, {busy}, late by {late} at p95"


def shape_words(result: BenchResult) -> str:
    """`1,024 in, 256 out, 96 requests, cache nonce, seed 42`."""
    context = result.context
    return (
        f"{context.input_tokens:,} in, {context.output_tokens:,} out, {context.prompts} requests,"
        f" cache {context.cache}, seed {context.seed}"
    )


def _gpus(result: BenchResult) -> str:
    gpu = result.context.gpu
    # The servers' count has what others were given, and the energy went into that too.
    tokens = result.context.server_tokens or result.figures.total_output_tokens
    parts = [
        f"{label} {gpu[key]:,.0f}{unit}"
        for key, label, unit in (
            ("sm_pct", "SM", "%"),
            ("dram_pct", "DRAM", "%"),
            ("power_w", "power", " W"),
            ("clock_mhz", "clock", " MHz"),
        )
        if key in gpu
    ]
    energy = gpu.get("energy_j")
    parts += [f"{energy / tokens:.2f} J for each output token"] if energy is not None and tokens else []
    return ", ".join(parts)


def _servers(result: BenchResult) -> str:
    context = result.context
    versions = " ".join(f"{name} {version}" for name, version in context.versions.items())
    verified = {None: "settings not compared", True: "settings verified", False: "settings differ"}
    counted = context.server_tokens
    tokens = "" if counted != result.figures.total_output_tokens else f", count {count(counted)} tokens too"
    where = "no profile" if context.profile is None else context.profile
    return f"{where}, {verified[context.verified]}{tokens}" + (f", {versions}" if versions else "")


def _row(label: str, said: str) -> Paragraph:
    return Paragraph(said, head=(Span(f"{label:<{LABEL_WIDTH}} ", "muted"),))


def ago(then: float, now: float) -> str:
    """`2h14m ago`."""
    return f"{duration(max(0.0, now - then))} ago"
