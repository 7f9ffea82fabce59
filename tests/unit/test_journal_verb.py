"""`journal`: what was done, for people and as JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from console.cli.journal import table
from console.cli.main import cli
from console.domain.errors import ConsoleError
from console.domain.journal_entry import JournalEntry
from console.domain.plan_progress import PlanResult, StepEvent
from console.services.journal import Journal
from tests.unit.deployed import RECORD
from tests.unit.test_journal import plan


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the journal is looked for."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "dsv4-console"


async def _write() -> None:
    """Two actions on one host, the second under way, and between them one on another."""
    journal = Journal()
    for host, sentence in (("ct200", "pd-ll is up"), ("demo", "up \x1b[31mtoo")):
        action = await journal.begin(host, plan(), "ops@laptop", ["setsid python3"])
        await journal.step(action, StepEvent(index=0, kind="done", seconds=1.5))
        await journal.end(
            action, PlanResult(state="done", sentence=sentence, deployment=RECORD, seconds=38.2)
        )
    await journal.begin("ct200", plan(None, "stop"), "ops@laptop")
    await journal.close()


def write() -> None:
    asyncio.run(_write())


def asked(*words: str) -> Result:
    return CliRunner().invoke(cli, ["journal", *words], catch_exceptions=True)


def test_the_newest_comes_first_in_columns() -> None:
    write()
    head, *lines = asked().stdout.splitlines()
    assert head.split() == ["time", "host", "verb", "profile", "state", "seconds"]
    assert [line.split(maxsplit=2)[2] for line in lines] == [
        "ct200  stop    -        running  n/a      under way, or its console ended before it did",
        "demo   switch  pd-ll    done     38       up too",
        "ct200  switch  pd-ll    done     38       pd-ll is up",
    ]


def test_one_host_and_a_limit() -> None:
    write()
    assert len(asked("--host", "ct200").stdout.splitlines()) == 3
    assert len(asked("--demo").stdout.splitlines()) == 2
    assert len(asked("--limit", "1").stdout.splitlines()) == 2


def test_json_is_an_object_a_line_with_steps_and_commands() -> None:
    write()
    newest, last = map(json.loads, asked("--host", "ct200", "--json").stdout.splitlines())
    assert (newest["state"], newest["ended_at"], newest["seconds"]) == ("running", None, None)
    assert last["commands"] == ["setsid python3"]
    assert last["steps"] == [
        {
            "index": 0,
            "title": "look before anything is touched",
            "state": "done",
            "seconds": 1.5,
            "text": "",
        }
    ]
    assert last["verified"] is True


def test_nothing_yet_is_no_failure() -> None:
    done = asked()
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing in the journal yet" in done.stderr


def test_a_journal_that_cannot_be_read_is_told(folder: Path) -> None:
    folder.mkdir()
    (folder / "journal.db").write_bytes(b"nonsense" * 100)
    done = asked()
    assert isinstance(done.exception, ConsoleError)
    assert done.exception.exit_code == 1
    assert "journal.db" in str(done.exception)


def test_columns_are_as_wide_as_what_stands_in_them() -> None:
    entry = JournalEntry(
        id="1", host="a-host-with-a-name", verb="switch", by="x", begun_at=0.0, state="failed", seconds=7.0
    )
    head, line = table([entry])
    assert head.index("verb") == line.index("switch")
