"""Two sides of results next to each other: metric by metric with intervals, and what differs between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.domain.bench.comparability import changed_settings, several_settings
from console.domain.bench.comparison import NO_VERDICT, Comparison, Side
from console.domain.bench.result import BenchResult
from console.domain.bench.run_values import Metric

from .bench_heading import WARNS
from .bench_result import shape_words, weaknesses
from .histogram import ms
from .lines import Span
from .meter import Glyphs, rate
from .paragraphs import Paragraph

NAMES: dict[Metric, str] = {
    "output_throughput": "output tok/s",
    "ttft": "TTFT ms, median",
    "tpot": "TPOT ms, median",
    "itl": "ITL ms, mean",
    "e2e": "E2E ms, median",
}
NAME_WIDTH = 16
SIDE_WIDTH = 24
TONES = {
    "faster": "state-ready",
    "slower": "state-failed",
    "no difference shown": "muted",
    NO_VERDICT: "muted",
}
SIGNS = {"faster": "+", "slower": "-", "no difference shown": "=", NO_VERDICT: "?"}
METHOD = (
    "Intervals are of 95%: of five metrics one may mislead in a fifth of the comparisons, so decide before"
    " which one counts."
)


def side_paragraph(name: str, results: Sequence[BenchResult]) -> Paragraph:
    """`A  pd-ll at C=16, 3 runs: 1,024 in, 256 out, …`."""
    first = results[0]
    runs = "1 run" if len(results) == 1 else f"{len(results)} runs"
    profile = first.context.profile or "no profile"
    said = f"{profile} at C={first.context.max_concurrency}, {runs}: {shape_words(first)}"
    return Paragraph(said, head=(Span(f"{name}  ", "strong"),))


def weak_paragraphs(name: str, results: Sequence[BenchResult], glyphs: Glyphs) -> Iterator[Paragraph]:
    """What makes a side less than it seems."""
    for result in results:
        for each in weaknesses(result, glyphs):
            yield each._replace(head=(Span(f"{name}  ", "strong"), *each.head))


def setting_paragraphs(a: BenchResult, b: BenchResult, glyphs: Glyphs) -> Iterator[Paragraph]:
    """The settings that were changed, and whether the effect can be given to one of them."""
    changes = changed_settings(a.context, b.context)
    if not a.context.settings or not b.context.settings:
        yield Paragraph("What was set is not known of both: the effect can't be given to a setting.", "muted")
        return
    if several := several_settings(a.context, b.context):
        yield Paragraph(f"{several}:", "warning", head=WARNS)
    else:
        yield Paragraph("One setting differs:" if changes else "No setting differs.", "muted")
    for change in changes:
        shown = change.replace("→", "->") if glyphs.ascii_only else change
        yield Paragraph(shown, head=(Span("    "),))


def comparison_paragraphs(
    compared: Sequence[Comparison], *, verdicts: bool, wide: bool
) -> Iterator[Paragraph]:
    """A line a metric, and what it rests on. Without `verdicts` figures alone."""
    yield Paragraph(head=(Span(_titles(wide), "muted"),))
    for each in compared:
        yield from _metric(each, verdicts=verdicts, wide=wide)
    yield Paragraph()
    for note in dict.fromkeys(note for each in compared for note in each.notes):
        yield Paragraph(note, "muted")
    yield Paragraph(METHOD if verdicts else "No verdict: these results are not comparable.", "muted")


def _titles(wide: bool) -> str:
    width = SIDE_WIDTH if wide else SIDE_WIDTH // 2
    return f"{'':<{NAME_WIDTH}}{'A':<{width}}{'B':<{width}}B against A"


def _metric(each: Comparison, *, verdicts: bool, wide: bool) -> Iterator[Paragraph]:
    change = Span(f"{percent_change(each.ratio):<9}", "strong")
    interval = Span(f"{percent_change(each.low)} to {percent_change(each.high)}", "muted")
    values = (Span(_side(each, each.a, wide)), Span(_side(each, each.b, wide)))
    yield Paragraph(head=(Span(f"{NAMES[each.metric]:<{NAME_WIDTH}}"), *values, change, interval))
    if verdicts:
        verdict = each.verdict or NO_VERDICT
        said = f"{SIGNS[verdict]} {verdict}"
        least = f"  smallest detectable: {each.smallest_pct:.1f}%"
        yield Paragraph(head=(Span(" " * NAME_WIDTH), Span(said, TONES[verdict]), Span(least, "muted")))


def _side(each: Comparison, side: Side, wide: bool) -> str:
    """`1,048 (1,020-1,077)`; the interval yields where it is narrow."""
    shown = rate if each.metric == "output_throughput" else ms
    if not wide:
        return f"{shown(side.value):<{SIDE_WIDTH // 2}}"
    return f"{f'{shown(side.value)} ({shown(side.low)}-{shown(side.high)})':<{SIDE_WIDTH}}"


def percent_change(ratio: float) -> str:
    """`+8.9%`."""
    return f"{100 * (ratio - 1):+.1f}%"


def refusal_paragraphs(obstacles: Sequence[str], glyphs: Glyphs) -> Iterator[Paragraph]:
    """That no verdict can be given, and everything that stands against it."""
    head = (Span(f"{glyphs.failed} NOT COMPARABLE  ", "state-failed"),)
    yield Paragraph("a difference could come from any of these:", head=head)
    for obstacle in obstacles:
        yield Paragraph(obstacle, head=(Span("  ! ", "warning"),))
