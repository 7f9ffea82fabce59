"""`bench` as a program of its own: the history in a file, by pipes and exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.services.bench_store import BenchStore
from tests.unit.kept_results import NOON, bench_result


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that can be compared, and one that cannot."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    async def keep() -> None:
        store = BenchStore()
        await store.add(bench_result("a" * 12))
        await store.add(bench_result("b" * 12, at=NOON + 60, rate=2000.0, step=0.01))
        await store.add(bench_result("c" * 12, at=NOON + 120, concurrency=1, context={"host": "other"}))
        await store.close()

    asyncio.run(keep())


def ran(*words: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "console", "bench", *words],
        input=stdin,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_history_is_listed_within_80_columns() -> None:
    done = ran("list", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line[:1] for line in lines] == ["i", "c", "b", "a"]
    assert max(map(len, lines)) <= 80


def test_comparing_answers_with_an_exit_code() -> None:
    faster = ran("compare", "aaa", "bbb")
    assert faster.returncode == 0
    assert "faster" in faster.stdout
    refused = ran("compare", "aaa", "ccc")
    assert refused.returncode == 1
    assert "the host differs: ct200 against other" in refused.stdout
    unknown = ran("compare", "aaa", "zzz")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("dsv4-console: there is no result 'zzz'")


def test_what_is_exported_can_be_imported_through_a_pipe(tmp_path: Path) -> None:
    exported = ran("export", "--host", "ct200", "--details").stdout
    elsewhere = str(tmp_path / "elsewhere")
    done = ran("import", "-", stdin=exported, XDG_DATA_HOME=elsewhere)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "imported 2 results")
    assert ran("export", "--details", XDG_DATA_HOME=elsewhere).stdout == exported
    bad = ran("import", "-", stdin=f"{exported}nonsense\n", XDG_DATA_HOME=str(tmp_path / "third"))
    assert bad.returncode == 2
    assert "line 3 is no benchmark result" in bad.stderr
    assert ran("list", XDG_DATA_HOME=str(tmp_path / "third")).stdout == ""


def test_nothing_is_deleted_unasked() -> None:
    refused = ran("delete", "aaa")
    assert refused.returncode == 2
    assert "give --yes" in refused.stderr
    assert ran("delete", "aaa", "--yes").returncode == 0
    left = [json.loads(line)["dsv4"]["id"][0] for line in ran("list", "--json").stdout.splitlines()]
    assert left == ["c", "b"]
