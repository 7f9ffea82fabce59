"""The table of benchmark results in the journal's file. Lists need no requests, so these are kept beside."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from console.domain.bench.load import RequestTiming
from console.domain.bench.result import BenchResult
from console.services.journal_file import JournalFile

INSERT = (
    "INSERT INTO bench_results (id, series, host, profile, at, summary, requests)"
    " VALUES (:id, :series, :host, :profile, :at, :summary, :requests)"
)
AMBIGUOUS = 5
"""So many results with a beginning in common are named."""

_requests = msgspec.msgpack.Decoder(tuple[RequestTiming, ...])


class BenchTable:
    """Every method may block, and raises JournalUnusable."""

    def __init__(self, path: Path) -> None:
        self._file = JournalFile(path)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    def put(self, results: Iterable[BenchResult]) -> None:
        """Write all or none; a result that is there already, as what was measured so far, is replaced."""
        rows = [_row(result) for result in results]
        with self._file.writing() as connection:
            connection.executemany(
                f"{INSERT} ON CONFLICT (id) DO UPDATE SET summary = excluded.summary,"
                " requests = excluded.requests",
                rows,
            )

    def add(self, results: Iterable[BenchResult]) -> tuple[str, ...]:
        """Write all or none; the ids of those that were not there yet, and only these are written."""
        rows = [_row(result) for result in results]
        with self._file.writing() as connection:
            return tuple(
                str(row["id"])
                for row in rows
                if connection.execute(f"{INSERT} ON CONFLICT (id) DO NOTHING", row).rowcount
            )

    def newest(self, host: str | None, profile: str | None, limit: int) -> tuple[BenchResult, ...]:
        """The newest results first, without requests; those that this version cannot read are left out."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT summary FROM bench_results WHERE (:host IS NULL OR host = :host)"
                " AND (:profile IS NULL OR profile = :profile) ORDER BY at DESC, number DESC LIMIT :limit",
                {"host": host, "profile": profile, "limit": limit},
            ).fetchall()
        return tuple(result for row in rows if (result := _summary(row["summary"])) is not None)

    def ids(self, beginning: str) -> tuple[str, ...]:
        """A few of the ids that begin so, the newest first; that one alone that is exactly this."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT id FROM bench_results WHERE substr(id, 1, length(:text)) = :text"
                " ORDER BY id = :text DESC, at DESC, number DESC LIMIT :limit",
                {"text": beginning, "limit": AMBIGUOUS},
            ).fetchall()
        found = tuple(str(row["id"]) for row in rows)
        return found[:1] if beginning in found else found

    def of_series(self, series: str) -> tuple[str, ...]:
        """The ids of its results, in the order in which they were measured."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT id FROM bench_results WHERE series = ? ORDER BY at, number", (series,)
            ).fetchall()
        return tuple(str(row["id"]) for row in rows)

    def read(self, ids: Sequence[str]) -> tuple[BenchResult | None, ...]:
        """Whole results; None for one that this version cannot read."""
        with self._file.reading() as connection:
            rows = [
                connection.execute(
                    "SELECT summary, requests FROM bench_results WHERE id = ?", (id,)
                ).fetchone()
                for id in ids
            ]
        return tuple(None if row is None else _whole(row["summary"], row["requests"]) for row in rows)

    def delete(self, id: str) -> None:
        """Forget one."""
        with self._file.writing() as connection:
            connection.execute("DELETE FROM bench_results WHERE id = ?", (id,))


def _row(result: BenchResult) -> dict[str, str | float | bytes | None]:
    summary = msgspec.structs.replace(result, requests=())
    return {
        "id": result.id,
        "series": result.series,
        "host": result.context.host,
        "profile": result.context.profile,
        "at": result.at,
        "summary": msgspec.json.encode(summary).decode(),
        "requests": zlib.compress(msgspec.msgpack.encode(result.requests)),
    }


def _summary(text: str) -> BenchResult | None:
    """None: written by another version, with other fields."""
    try:
        return msgspec.json.decode(text, type=BenchResult)
    except msgspec.MsgspecError:
        return None


def _whole(summary: str, packed: bytes) -> BenchResult | None:
    result = _summary(summary)
    if result is None:
        return None
    try:
        return msgspec.structs.replace(result, requests=_requests.decode(zlib.decompress(packed)))
    except (msgspec.MsgspecError, zlib.error):
        return None
