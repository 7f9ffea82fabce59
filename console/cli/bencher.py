"""Who measures a target, made when its watch has begun: a screen is there before."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from console.cli.connected import watched
from console.cli.narrator import say
from console.cli.operator import NOT_YET, TargetOperator
from console.domain.errors import ConnectionLost, ConsoleError
from console.services.bench_store import BenchStore

if TYPE_CHECKING:
    from console.cli.target import Target, TargetWatch
    from console.domain.bench.benching import BenchAsk, BenchPlan, BenchRun
    from console.domain.bench.result import BenchResult
    from console.services.benchmark import Benchmarks


class TargetBencher:
    """See Bencher. Its history needs no connection."""

    def __init__(
        self, target: Target, watch: TargetWatch, operator: TargetOperator, store: BenchStore
    ) -> None:
        self._target = target
        self._watch = watch
        self._operator = operator
        self._store = store
        self._benchmarks: Benchmarks | None = None

    def refusal(self) -> str | None:
        """See Bencher: what forbids changes forbids this as well."""
        return self._operator.refusal()

    async def plan(self, ask: BenchAsk) -> BenchPlan:
        """See Bencher."""
        return await self._made().plan(ask)

    def run(self, plan: BenchPlan) -> BenchRun:
        """See Bencher."""
        run = self._made().run(plan)
        self._operator.measures(run)
        return run

    async def history(
        self, *, host: str | None = None, profile: str | None = None, limit: int = 100
    ) -> tuple[BenchResult, ...]:
        """See Bencher."""
        return await self._store.history(host=host, profile=profile, limit=limit)

    async def result(self, id: str) -> BenchResult:
        """See Bencher."""
        return await self._store.result(id)

    async def delete(self, id: str) -> None:
        """See Bencher."""
        await self._store.delete(id)

    def _made(self) -> Benchmarks:
        if self._watch.begun is None:
            raise ConnectionLost(NOT_YET)
        if self._benchmarks is None:
            from console.services.benchmark import Benchmarks

            self._benchmarks = Benchmarks(
                self._watch.begun,
                host=self._target.name,
                demo=self._target.demo,
                store=self._store,
                refusal=self.refusal,
            )
        return self._benchmarks


@asynccontextmanager
async def measuring(target: Target) -> AsyncGenerator[tuple[TargetBencher, TargetOperator], None]:
    """Who measures the host, and who changes it. Raises HostError."""
    store = BenchStore(tell=_tell)
    try:
        async with watched(target) as watch:
            operator = TargetOperator(target, watch)
            yield TargetBencher(target, watch, operator, store), operator
    finally:
        await store.close()


def _tell(trouble: ConsoleError) -> None:
    say(f"results are not kept: {trouble}")
