"""Plans and results of benchmarks as lines of text."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime

from console.domain.bench.benching import BenchPlan, prompts_for
from console.domain.bench.comparability import was_cached
from console.domain.bench.result import BenchResult, Client, Context, Figures, Spread
from console.domain.bench.weaknesses import weaknesses

NOT_ASSESSED = "n/a"
SPREADS = ("mean", "median", "p90", "p95", "p99", "max")
LIST_HEAD = ("id", "began", "C", "in/out", "tok/s ", "TTFT ms", "of")
TO_THE_RIGHT = (2, 4, 5)
SHORT_ID = 8
"""Digits of an id that a list shows: enough to name it."""
MARKED = "* partial, failures, client, cache or others: see `bench show ID`"


def plan_lines(plan: BenchPlan) -> Iterator[str]:
    """What is to be measured, what it costs, and what is against it."""
    ask = plan.ask
    concurrencies = ask.concurrency or ()
    repeats = f", {ask.repeats} times" if ask.repeats > 1 else ""
    yield f"{plan.host}: measure {plan.target}{repeats}"
    yield f"  {ask.input_tokens} tokens in, {ask.output_tokens} out, cache {ask.cache}"
    requests = [f"{ask.prompts or prompts_for(each)} at C={each}" for each in concurrencies]
    yield f"  requests: {', '.join(requests)}"
    yield f"  load from the host; {_duration(plan)}"
    others = "not known" if plan.serving is None else f"{plan.serving}"
    yield f"  requests of others served now: {others}; they and the benchmark slow each other"
    yield from (f"  note: {warning}" for warning in plan.warnings)


def _duration(plan: BenchPlan) -> str:
    if plan.seconds is None:
        return "how long it takes is not known"
    if plan.seconds < 90:
        return f"about {plan.seconds:.0f} s"
    return f"about {plan.seconds / 60:.0f} minutes"


def result_lines(result: BenchResult) -> Iterator[str]:
    """One result: what was measured, how it went, and what it depends on."""
    yield _title(result)
    if result.partial:
        yield f"  partial: {result.partial}"
    yield from _rates(result.figures)
    if result.figures.completed:
        yield from _spreads(result.figures)
    else:
        yield "  no successful request: there is nothing to be said of times"
    yield from _failures(result.figures)
    yield from _circumstances(result)
    yield from _client(result.client)


def _title(result: BenchResult) -> str:
    context = result.context
    label = f"{result.label}, " if result.label else ""
    shape = f"{context.input_tokens} tokens in, {context.output_tokens} out, cache {context.cache}"
    return f"{of_context(context)}: {label}C={context.max_concurrency}, {shape}  [{result.id}]"


def of_context(context: Context) -> str:
    """What was measured, and where."""
    demo = " (DEMO)" if context.demo else ""
    return f"{context.profile or 'no profile'} on {context.host}{demo}"


def _rates(figures: Figures) -> Iterator[str]:
    estimated = ", tokens estimated where the server gave no usage" if figures.tokens_estimated else ""
    yield (
        f"  output {figures.output_throughput:,.1f} tok/s, input {figures.input_throughput:,.1f},"
        f" total {figures.total_throughput:,.1f}{estimated}"
    )
    yield (
        f"  {figures.completed} requests in {figures.duration:.1f} s, {figures.request_throughput:.2f}/s,"
        f" {figures.concurrency:.1f} in flight on average"
    )
    if figures.max_output_tokens_per_s is not None:
        yield f"  best second: {figures.max_output_tokens_per_s:,.0f} tok/s"


def _spreads(figures: Figures) -> Iterator[str]:
    per_chunk = "ITL ms, per chunk" if figures.itl_is_per_chunk else "ITL ms"
    rows = [
        ("", "n", *SPREADS),
        ("TTFT ms", *_spread(figures.ttft_ms)),
        ("TPOT ms", *_spread(figures.tpot_ms)),
        (per_chunk, *_spread(figures.itl_ms)),
        ("E2E ms", *_spread(figures.e2e_latency_ms)),
    ]
    yield from (f"  {line}" for line in columns(rows, right=range(1, len(SPREADS) + 2)))
    if any(NOT_ASSESSED in row for row in rows):
        yield f"  {NOT_ASSESSED}: too few samples to tell"


def _spread(spread: Spread) -> tuple[str, ...]:
    return (f"{spread.n:,}", *(shown(getattr(spread, name), 2) for name in SPREADS))


def _failures(figures: Figures) -> Iterator[str]:
    if figures.failed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(figures.failures.items()))
        yield f"  {figures.failed} failed: {kinds}; none of them is in the times"
    if figures.short:
        yield f"  {figures.short} answers were shorter than asked for"


def _circumstances(result: BenchResult) -> Iterator[str]:
    context, figures = result.context, result.figures
    if context.server_tokens is not None:
        ours = figures.total_output_tokens
        agree = "as counted here" if context.server_tokens == ours else f"counted here: {ours:,}"
        yield f"  the servers' own count: {context.server_tokens:,} output tokens, {agree}"
    if context.cached_share is not None and (context.cached_share >= 0.005 or context.cache == "warm"):
        but = ", which it was not to" if was_cached(context) else ""
        yield f"  a prefix cache served {context.cached_share:.0%} of the prompt tokens{but}"
    if context.gpu:
        yield f"  GPUs: {', '.join(_gpu(context.gpu, context.server_tokens or figures.total_output_tokens))}"
    if context.kv_transfer_gb_s is not None:
        yield f"  KV transfer: {context.kv_transfer_gb_s:.1f} GB/s"
    if context.other_load:
        yield f"  others had {context.other_load:.1f} requests in flight meanwhile, on average"
    if context.verified is False:
        yield "  its settings were not those of its profile"
    versions = ", ".join(f"{name} {version}" for name, version in context.versions.items())
    if versions:
        yield f"  {versions}"


def _gpu(means: dict[str, float], tokens: int) -> Iterator[str]:
    """`tokens`: all that were generated, those of others too: the energy is theirs as well."""
    units = {"sm_pct": "SM {:.0f} %", "power_w": "{:.0f} W", "power_limit_w": "limit {:.0f} W"}
    units |= {"dram_pct": "DRAM {:.0f} %", "clock_mhz": "{:.0f} MHz"}
    yield from (text.format(means[name]) for name, text in units.items() if name in means)
    if "energy_j" in means and tokens:
        yield f"{means['energy_j'] / tokens:.2f} J per output token"


def _client(client: Client) -> Iterator[str]:
    workers = "1 worker" if client.workers == 1 else f"{client.workers} workers"
    yield (
        f"  client: {client.where}, {client.name}, {workers}, {shown(client.cpu_pct)} % of a core,"
        f" late by {shown(client.lag_p95_ms, 1)} ms at p95"
    )
    if client.limited:
        yield f"  THE CLIENT MAY HAVE BEEN THE LIMIT: {client.limited}"


def list_lines(results: Sequence[BenchResult], width: int | None = None) -> Iterator[str]:
    """A line for each, in columns, times in the zone of this machine; none is wider than the terminal."""
    width = width or shutil.get_terminal_size((80, 24)).columns
    rows = [LIST_HEAD, *(_row(result) for result in results)]
    yield from (cut(line, width) for line in columns(rows, right=TO_THE_RIGHT))
    if any(is_marked(result) for result in results):
        yield cut(MARKED, width)


def is_marked(result: BenchResult) -> bool:
    """Is there something that must be known of it beside its figures?"""
    return bool(result.figures.failed or weaknesses(result))


def _row(result: BenchResult) -> tuple[str, ...]:
    figures, context = result.figures, result.context
    rate = f"{figures.output_throughput:,.1f}" if figures.completed else NOT_ASSESSED
    return (
        result.id[:SHORT_ID],
        f"{datetime.fromtimestamp(result.at):%y-%m-%d %H:%M}",
        f"{context.max_concurrency}",
        f"{context.input_tokens}/{context.output_tokens}",
        rate + ("*" if is_marked(result) else " "),
        shown(figures.ttft_ms.median),
        of_context(context) + (f", {result.label}" if result.label else ""),
    )


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """Lines of rows whose columns align, those of `right` at their right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        texts = (
            text.rjust(width) if index in right else text.ljust(width)
            for index, (text, width) in enumerate(cells)
        )
        yield "  ".join(texts).rstrip()


def shown(value: float | None, digits: int = 0) -> str:
    """A number, or that it is not known."""
    return NOT_ASSESSED if value is None else f"{value:,.{digits}f}"


def cut(line: str, width: int) -> str:
    """One that does not wrap."""
    return line if len(line) <= width else f"{line[: width - 1]}…"
