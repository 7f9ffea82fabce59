"""The history of benchmark results, kept in the journal's file.

A measurement is never lost to a file that cannot be written: its result stays here, is told like any other,
and is written with the next one that can be. The event loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError, UsageError
from console.services.bench_table import BenchTable
from console.services.journal import journal_path
from console.services.journal_file import JournalUnusable

KNOWN_BY = "`dsv4-console bench list` tells them"


class BenchStore:
    """Writes and reads results. A broken file is told once, and again by what cannot be done without it."""

    def __init__(
        self, path: Path | None = None, *, tell: Callable[[ConsoleError], None] | None = None
    ) -> None:
        """`tell` is called once, with what is wrong with the file."""
        self._table = BenchTable(path or journal_path())
        self._tell = tell
        self._unwritten: dict[str, BenchResult] = {}
        # What is kept of a result must not come after what is kept of it later.
        self._turn = asyncio.Lock()
        self.trouble: ConsoleError | None = None
        """What went wrong first, if anything did."""

    async def add(self, result: BenchResult) -> None:
        """Keep a result, in the place of what was kept of it before.

        Raises nothing for what is wrong with the file.
        """
        self._unwritten[result.id] = result
        await self._write()

    async def add_all(self, results: Sequence[BenchResult]) -> tuple[str, ...]:
        """Keep all or none; the ids of those that were not there yet. Raises JournalUnusable."""
        return await asyncio.to_thread(self._table.add, results)

    async def history(
        self, *, host: str | None = None, profile: str | None = None, limit: int = 100
    ) -> tuple[BenchResult, ...]:
        """The newest results first, without their requests; of a broken file those of this console."""
        try:
            kept = await asyncio.to_thread(self._table.newest, host, profile, limit)
        except JournalUnusable as error:
            self._troubled(error)
            kept = ()
        ours = [_bare(each) for each in self._unwritten.values() if _is_of(each, host, profile)]
        found = {result.id: result for result in (*kept, *ours)}
        return tuple(sorted(found.values(), key=lambda result: result.at, reverse=True)[:limit])

    async def result(self, id: str) -> BenchResult:
        """One result with its requests, by the beginning of its id. Raises UsageError, JournalUnusable."""
        ids = await self._ids(id)
        if len(ids) != 1:
            raise _not_one(id, ids)
        (found,) = await self._read(ids)
        return found

    async def find(self, id: str) -> tuple[BenchResult, ...]:
        """One result by the beginning of its id, or all of a series, with their requests.

        Raises UsageError, JournalUnusable.
        """
        if id not in self._unwritten and (series := await asyncio.to_thread(self._table.of_series, id)):
            return await self._read(series)
        return (await self.result(id),)

    async def ids(self, beginning: str = "") -> tuple[str, ...]:
        """A few ids that begin so, the newest first; none of a broken file."""
        try:
            return await self._ids(beginning)
        except JournalUnusable as error:
            self._troubled(error)
            return ()

    async def delete(self, id: str) -> None:
        """Forget one result, by the beginning of its id. Raises UsageError, JournalUnusable."""
        ids = await self._ids(id)
        if len(ids) != 1:
            raise _not_one(id, ids)
        was_unwritten = self._unwritten.pop(ids[0], None) is not None
        try:
            await asyncio.to_thread(self._table.delete, ids[0])
        except JournalUnusable:
            if not was_unwritten:
                raise

    async def close(self) -> None:
        """Write what could not be written before, and close the file; it can be used again."""
        await self._write()
        await asyncio.to_thread(self._table.close)

    async def _write(self) -> None:
        async with self._turn:
            waiting = tuple(self._unwritten.values())
            if not waiting:
                return
            try:
                await asyncio.to_thread(self._table.put, waiting)
            except JournalUnusable as error:
                self._troubled(error)
                return
            for result in waiting:
                if self._unwritten.get(result.id) is result:
                    del self._unwritten[result.id]

    async def _ids(self, beginning: str) -> tuple[str, ...]:
        ours = tuple(id for id in self._unwritten if id.startswith(beginning))
        if beginning in ours:
            return (beginning,)
        return tuple(dict.fromkeys((*ours, *await asyncio.to_thread(self._table.ids, beginning))))

    async def _read(self, ids: Sequence[str]) -> tuple[BenchResult, ...]:
        kept = [id for id in ids if id not in self._unwritten]
        read = await asyncio.to_thread(self._table.read, kept) if kept else ()
        found = self._unwritten | {id: result for id, result in zip(kept, read, strict=True) if result}
        for id in ids:
            if id not in found:
                raise UsageError(f"result {id} cannot be read by this version of the console")
        return tuple(found[id] for id in ids)

    def _troubled(self, error: JournalUnusable) -> None:
        if self.trouble is None:
            self.trouble = error
            if self._tell is not None:
                self._tell(error)


def _bare(result: BenchResult) -> BenchResult:
    return msgspec.structs.replace(result, requests=())


def _is_of(result: BenchResult, host: str | None, profile: str | None) -> bool:
    return host in (None, result.context.host) and profile in (None, result.context.profile)


def _not_one(id: str, found: Sequence[str]) -> UsageError:
    if not found:
        return UsageError(f"there is no result {id!r}", next_step=KNOWN_BY)
    return UsageError(f"{id!r} may be any of {', '.join(found)}", next_step="give more of it")
