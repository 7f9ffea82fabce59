"""Benchmark results are kept in the journal's file, and never lost to it."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import stat
from pathlib import Path

import pytest

from console.domain.bench.result import BenchResult
from console.domain.errors import ConsoleError, UsageError
from console.services import journal_file, journal_schema
from console.services.bench_store import BenchStore
from console.services.journal import Journal
from console.services.journal_file import JournalUnusable
from tests.unit.kept_results import NOON, bench_result, changed


def bare(result: BenchResult) -> BenchResult:
    return changed(result, requests=())


def named(*results: BenchResult) -> list[str]:
    return [result.id for result in results]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "journal.db"


@pytest.fixture
def told() -> list[ConsoleError]:
    return []


@pytest.fixture
def store(path: Path, told: list[ConsoleError]) -> BenchStore:
    return BenchStore(path, tell=told.append)


async def test_a_result_is_kept_to_the_last_chunk(store: BenchStore, path: Path) -> None:
    result = bench_result(label="A 1/3", partial="aborted by the operator")
    await store.add(result)
    await store.close()
    later = BenchStore(path)
    assert await later.result(result.id) == result
    assert await later.history() == (bare(result),)


async def test_what_is_kept_while_it_is_measured_is_replaced_by_more(store: BenchStore, path: Path) -> None:
    whole = bench_result()
    parts = [changed(whole, requests=whole.requests[:n], partial="under way") for n in (10, 40)]
    await asyncio.gather(*(store.add(each) for each in (*parts, whole)))
    assert await BenchStore(path).result(whole.id) == whole
    assert await BenchStore(path).history() == (bare(whole),)


async def test_more_that_cannot_be_written_goes_before_what_was(
    store: BenchStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bench_result()
    await store.add(changed(whole, requests=(), partial="under way"))
    with monkeypatch.context() as patch:
        patch.setattr(journal_file.JournalFile.__init__, "__defaults__", (0.05,))
        busy = BenchStore(path)
        await busy.history()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await busy.add(whole)
    assert await busy.history() == (bare(whole),)
    assert await busy.result(whole.id[:4]) == whole
    other.execute("ROLLBACK")
    other.close()
    await busy.close()
    assert await store.result(whole.id) == whole


async def test_lists_are_of_a_host_and_a_profile_the_newest_first(store: BenchStore) -> None:
    await store.add(bench_result("b", at=NOON + 20))
    await store.add(bench_result("a", at=NOON))
    await store.add(bench_result("c", at=NOON + 10, context={"host": "demo"}))
    await store.add(bench_result("d", at=NOON + 30, context={"profile": None}))
    assert named(*await store.history()) == ["d", "b", "c", "a"]
    assert named(*await store.history(host="ct200", profile="pd-ll")) == ["b", "a"]
    assert named(*await store.history(profile="pd-ll", limit=1)) == ["b"]
    assert await store.history(host="nowhere") == ()


async def test_the_beginning_of_an_id_is_enough_where_it_is_one_alone(store: BenchStore) -> None:
    for id in ("abc1", "abd2", "ab%3", "abd"):
        await store.add(bench_result(id))
    assert (await store.result("abc")).id == "abc1"
    assert (await store.result("abd")).id == "abd"
    assert (await store.result("ab%")).id == "ab%3"
    with pytest.raises(UsageError, match=r"abd2.*abc1"):
        await store.result("ab")
    with pytest.raises(UsageError, match="no result 'zz'"):
        await store.result("zz")
    assert await store.ids("abd2") == ("abd2",)


async def test_a_series_is_found_in_the_order_it_was_measured(store: BenchStore) -> None:
    await store.add(bench_result("late", at=NOON + 5, series="sweep"))
    await store.add(bench_result("early", at=NOON, series="sweep"))
    await store.add(bench_result("other"))
    found = await store.find("sweep")
    assert named(*found) == ["early", "late"]
    assert all(len(result.requests) == 96 for result in found)
    assert named(*await store.find("oth")) == ["other"]


async def test_a_deleted_result_is_gone_and_no_other(store: BenchStore) -> None:
    await store.add(bench_result("abc1"))
    await store.add(bench_result("abd2"))
    with pytest.raises(UsageError, match="may be any"):
        await store.delete("ab")
    await store.delete("abc")
    assert named(*await store.history()) == ["abd2"]
    with pytest.raises(UsageError, match="no result"):
        await store.delete("abc1")


async def test_several_are_kept_all_or_none(store: BenchStore, path: Path) -> None:
    await store.add(bench_result("a"))
    assert await store.add_all([bench_result("a"), bench_result("b")]) == ("b",)
    with sqlite3.connect(path) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON bench_results WHEN new.id = 'd'"
            " BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    other.close()
    with pytest.raises(JournalUnusable, match="no room"):
        await store.add_all([bench_result("c"), bench_result("d")])
    assert named(*await store.history()) == ["b", "a"]


# The file


async def test_results_stand_beside_the_journal_and_are_the_users_alone(
    store: BenchStore, path: Path
) -> None:
    journal = Journal(path)
    await asyncio.gather(store.add(bench_result()), journal.mark("ct200", "bench C=16", "bench"))
    assert len(await journal.marks("ct200", 0.0)) == len(await store.history()) == 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    await journal.close()


async def test_a_journal_from_before_there_were_benchmarks_is_brought_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(journal_file, "MIGRATIONS", journal_schema.MIGRATIONS[:1])
        before = Journal(path)
        await before.mark("ct200", "note")
        await before.close()
    store = BenchStore(path)
    await store.add(bench_result())
    assert store.trouble is None
    assert len(await BenchStore(path).history()) == 1
    assert len(await Journal(path).marks("ct200", 0.0)) == 1


async def test_requests_are_kept_small(store: BenchStore, path: Path) -> None:
    """96 requests of 64 chunks are 55 kB of numbers at 9 bytes each."""
    await store.add(bench_result())
    await store.close()
    with sqlite3.connect(path) as other:
        ((size,),) = other.execute("SELECT length(requests) FROM bench_results").fetchall()
    other.close()
    assert size < 50_000


@pytest.mark.parametrize(("column", "content"), [("summary", '{"tok_s": 1}'), ("requests", b"\x00")])
async def test_what_another_version_wrote_is_passed_over_in_lists_and_told_when_asked_for(
    store: BenchStore, path: Path, column: str, content: object
) -> None:
    await store.add(bench_result("old"))
    await store.add(bench_result("new"))
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE bench_results SET {column} = ? WHERE id = 'old'", (content,))
    other.close()
    assert "new" in named(*await store.history())
    with pytest.raises(UsageError, match="old cannot be read by this version"):
        await store.result("old")


def _garbage(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 100)


def _folder(path: Path) -> None:
    path.mkdir(parents=True)


def _mended(path: Path) -> None:
    path.rmdir()


def _no_folder(path: Path) -> None:
    path.parent.write_text("a file where the folder should be")


@pytest.mark.parametrize("spoil", [_garbage, _folder, _no_folder])
async def test_a_broken_file_loses_no_measurement_and_is_told_once(
    spoil: object, path: Path, store: BenchStore, told: list[ConsoleError]
) -> None:
    assert callable(spoil)
    spoil(path)
    first, second = bench_result("a"), bench_result("b", at=NOON + 1)
    await store.add(first)
    await store.add(second)
    assert await store.history() == (bare(second), bare(first))
    assert await store.result("a") == first
    assert await store.find("b") == (second,)
    assert await store.ids("zz") == ()
    with pytest.raises(JournalUnusable):
        await store.add_all([bench_result("c")])
    with pytest.raises(JournalUnusable):
        await store.result("zz")
    await store.delete("a")
    assert await store.history() == (bare(second),)
    (error,) = told
    assert error is store.trouble
    assert str(path) in str(error)


async def test_what_could_not_be_written_is_written_with_the_next(store: BenchStore, path: Path) -> None:
    _folder(path)
    await store.add(bench_result("a"))
    _mended(path)
    await store.add(bench_result("b", at=NOON + 1))
    assert named(*await BenchStore(path).history()) == ["b", "a"]


async def test_closing_is_the_last_attempt(store: BenchStore, path: Path) -> None:
    _folder(path)
    await store.add(bench_result("a"))
    _mended(path)
    await store.close()
    assert named(*await BenchStore(path).history()) == ["a"]


def _write_many(path: Path, by: str, count: int) -> None:
    async def write() -> None:
        store = BenchStore(path)
        for number in range(count):
            await store.add(bench_result(f"{by}{number}"))
        assert store.trouble is None
        await store.close()

    asyncio.run(write())


async def test_two_consoles_keep_their_results_in_one_file(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    consoles = [context.Process(target=_write_many, args=(path, by, 10)) for by in "xy"]
    for console in consoles:
        console.start()
    for console in consoles:
        await asyncio.to_thread(console.join, 60)
    assert [console.exitcode for console in consoles] == [0, 0]
    assert len(await BenchStore(path).history()) == 20
