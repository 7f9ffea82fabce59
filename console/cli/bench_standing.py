"""What a result means among those that were measured before it, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from console.domain.bench.benching import Bencher
from console.domain.bench.comparability import obstacles
from console.domain.bench.result import BenchResult
from console.domain.bench.targets import in_words, references_in_words, standing
from console.domain.errors import ConsoleError


class Earlier(msgspec.Struct, frozen=True):
    """What was known before the measurement began: its own results are not compared with each other."""

    bencher: Bencher
    results: Sequence[BenchResult]
    """Of the same profile on the same host, the newest first, without requests."""
    targets: Mapping[int, float]

    async def lines(self, result: BenchResult) -> list[str]:
        """Against target, last and best; why not, where nothing can be compared."""
        if not result.figures.completed:
            return []
        comparable = [each for each in self.results if not obstacles((each,), (result,))]
        last_and_best = {each.id: each for each in (comparable[:1] + _best(comparable))}
        whole = [await self._whole(each) for each in last_and_best.values()]
        stands = standing(result, self.targets, whole)
        said = [] if (stands.target, stands.last) == (None, None) else [f"  {in_words(stands)}"]
        return said if comparable else [*said, *self._incomparable(result)]

    def references(self) -> list[str]:
        """For the sense of scale, where there is a target."""
        return [references_in_words()] if self.targets else []

    async def _whole(self, result: BenchResult) -> BenchResult:
        try:
            return await self.bencher.result(result.id)
        except ConsoleError:
            return result

    def _incomparable(self, result: BenchResult) -> Iterator[str]:
        for each in self.results:
            if each.context.max_concurrency == result.context.max_concurrency:
                why = "; ".join(obstacles((each,), (result,)))
                yield f"  not compared with the last at this concurrency, {each.id} (A): {why}"
                return


def _best(results: Sequence[BenchResult]) -> list[BenchResult]:
    return sorted(results, key=lambda result: result.figures.output_throughput)[-1:]
