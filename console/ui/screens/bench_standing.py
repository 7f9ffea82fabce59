"""Reads what a result stands against: the profile's target, and the results of before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from console.domain.bench.benching import Bencher
from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError
from console.ui.widgets.bench_references import not_comparable, references, worth_reading
from console.ui.widgets.bench_result import Reference

Targets = Callable[[str], Mapping[int, float]]
"""Output tokens per second wanted of a profile, by concurrency."""


class BenchStanding:
    """Asks the bencher for earlier results, and `targets` for what a profile wants."""

    def __init__(self, bencher: Bencher, targets: Targets) -> None:
        self._bencher, self._targets = bencher, targets

    async def of(self, result: BenchResult, tell: Callable[[str], None]) -> Sequence[Reference]:
        """All that could be read; what could not is told."""
        profile = result.context.profile
        known: Sequence[BenchResult] = ()
        before: list[BenchResult] = []
        targets: Mapping[int, float] = {}
        try:
            targets = {} if profile is None else self._targets(profile)
            known = await self._bencher.history(host=result.context.host, profile=profile)
            before = [await self._bencher.result(id) for id in worth_reading(result, known)]
        except ConsoleError as error:
            tell(str(error))
        found = await asyncio.to_thread(references, result, before, targets)
        return found if before else [*found, *not_comparable(result, known)]
