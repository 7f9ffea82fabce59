"""Who measures, for the console: made at the first key, because the history's SQLite is no part of a first
paint."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.cli.bencher import TargetBencher
    from console.cli.operator import TargetOperator
    from console.cli.target import Target, TargetWatch
    from console.domain.bench.benching import BenchAsk, BenchPlan, BenchRun
    from console.domain.bench.result import BenchResult


class LateBencher:
    """See Bencher."""

    def __init__(self, target: Target, watch: TargetWatch, operator: TargetOperator) -> None:
        self._target = target
        self._watch = watch
        self._operator = operator

    @functools.cached_property
    def _made(self) -> TargetBencher:
        from console.cli.bencher import TargetBencher
        from console.services.bench_store import BenchStore

        return TargetBencher(self._target, self._watch, self._operator, BenchStore())

    def refusal(self) -> str | None:
        """See Bencher."""
        return self._operator.refusal()

    async def plan(self, ask: BenchAsk) -> BenchPlan:
        """See Bencher."""
        return await self._made.plan(ask)

    def run(self, plan: BenchPlan) -> BenchRun:
        """See Bencher."""
        return self._made.run(plan)

    async def history(
        self, *, host: str | None = None, profile: str | None = None, limit: int = 100
    ) -> tuple[BenchResult, ...]:
        """See Bencher."""
        return await self._made.history(host=host, profile=profile, limit=limit)

    async def result(self, id: str) -> BenchResult:
        """See Bencher."""
        return await self._made.result(id)

    async def delete(self, id: str) -> None:
        """See Bencher."""
        await self._made.delete(id)
