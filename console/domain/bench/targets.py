"""What a result means: against the targets of its profile, the last result, the best so far, and reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from .comparability import obstacles
from .comparison import NO_VERDICT, Comparison, compare
from .result import BenchResult
from .run_values import value


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A figure told by others, for the sense of scale: never a measurement of this console."""

    output_throughput: float
    what: str


REFERENCES = (
    Reference(output_throughput=10, what="untuned, by the operator's report"),
    Reference(output_throughput=25, what="untuned, by the operator's report"),
    Reference(output_throughput=1291, what="the larger model that ran before on this hardware, likewise"),
)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a result stands among what is known."""

    output_throughput: float
    max_concurrency: int
    target: float | None = None
    """None: the profile has none for this concurrency."""
    last: Comparison | None = None
    """Of this result, as B, with the last; None: there is none that can be compared."""
    best: Comparison | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target is; None: there is none."""
        return None if self.target is None else self.output_throughput >= self.target


def standing(
    result: BenchResult, targets: Mapping[int, float], history: Sequence[BenchResult], seed: int = 0
) -> Standing:
    """`history`: results of the same profile, in any order; those that cannot be compared are passed over.

    Raises ConsoleError when no request of the result succeeded.
    """
    before = [each for each in history if _counts(each, result)]
    return Standing(
        output_throughput=result.figures.output_throughput,
        max_concurrency=result.context.max_concurrency,
        target=targets.get(result.context.max_concurrency),
        last=_against(max(before, key=lambda each: each.at, default=None), result, seed),
        best=_against(max(before, key=_throughput, default=None), result, seed),
    )


def in_words(found: Standing) -> str:
    """As `C=16: 1,048 tok/s, 105 % of the target of 1,000; +3 % on the last (no difference shown)`."""
    return f"C={found.max_concurrency}: " + "; ".join(_parts(found))


def references_in_words() -> str:
    """What others reported."""
    return "For scale: " + "; ".join(
        f"{each.output_throughput:,.0f} tok/s, {each.what}" for each in REFERENCES
    )


def _parts(found: Standing) -> Iterator[str]:
    rate = f"{found.output_throughput:,.0f} tok/s"
    if found.target is None:
        yield rate
    else:
        share = round(100 * found.output_throughput / found.target)
        # 999.7 of 1,000 is not 100 %.
        share = share if found.reached else min(share, 99)
        yield f"{rate}, {share} % of the target of {found.target:,.0f}"
    for comparison, other in ((found.last, "last"), (found.best, "best")):
        if comparison is not None and not (other == "best" and comparison == found.last):
            yield f"{100 * (comparison.ratio - 1):+.0f} % on the {other} ({comparison.verdict or NO_VERDICT})"


def _against(other: BenchResult | None, result: BenchResult, seed: int) -> Comparison | None:
    return None if other is None else compare((other,), (result,), "output_throughput", seed)


def _counts(other: BenchResult, result: BenchResult) -> bool:
    earlier = other.id != result.id and other.at < result.at
    return earlier and value(other, "output_throughput") is not None and not obstacles((other,), (result,))


def _throughput(result: BenchResult) -> float:
    return result.figures.output_throughput
