"""The journal: what was done is kept, whoever else writes, and no action waits for a file that is broken."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import stat
import time
from pathlib import Path

import msgspec
import pytest

from console.domain.errors import ConsoleError
from console.domain.journal_entry import Mark
from console.domain.operating import LastResult
from console.domain.plan import Plan, Step, Verb
from console.domain.plan_progress import PlanResult, StepEvent
from console.domain.profile import Profile
from console.domain.run_record import DeploymentRecord, Difference, Proof
from console.services import journal_file, journal_schema
from console.services.journal import Journal, journal_path
from tests.unit.deployed import PAIR, RECORD, VERIFIED

changed = msgspec.structs.replace

STEPS = (
    Step(kind="preflight", title="look before anything is touched", waits_for="all well", limit_s=90.0),
    Step(kind="launch", title="launch", waits_for="processes", limit_s=10.0),
)
UP = PlanResult(state="done", sentence="pd-ll is up", deployment=RECORD, seconds=38.2)
REFUSED = PlanResult(state="failed", sentence="flags of decode refused; nothing was changed", seconds=2.0)
OTHER = changed(PAIR, name="tp4", title="another")


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def plan(profile: Profile | None = PAIR, verb: Verb = "switch") -> Plan:
    return Plan(verb=verb, profile=profile, steps=STEPS, consequence="nothing")


def deployed(profile: Profile, *, proven: bool = True, verified: bool = True) -> DeploymentRecord:
    differing = changed(
        VERIFIED,
        differences=(
            Difference(server="decode", setting="flag --x", wanted="1", actual="2", kind="rewritten"),
        ),
    )
    return changed(
        RECORD,
        profile=profile,
        proof=Proof(passed=proven, at=1.0, sentence="seen"),
        verification=VERIFIED if verified else differing,
    )


async def did(
    journal: Journal,
    result: PlanResult = UP,
    profile: Profile = PAIR,
    host: str = "ct200",
    verb: Verb = "switch",
) -> None:
    """One whole action."""
    action = await journal.begin(host, plan(profile, verb), "ops@laptop")
    await journal.end(action, result)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "journal.db"


@pytest.fixture
def told() -> list[ConsoleError]:
    return []


@pytest.fixture
def journal(path: Path, told: list[ConsoleError]) -> Journal:
    return Journal(path, tell=told.append, clock=Clock())


async def test_an_action_is_told_with_its_steps_and_commands(journal: Journal, path: Path) -> None:
    action = await journal.begin("ct200", plan(), "ops@laptop", ["setsid python3 …"])
    await journal.step(action, StepEvent(index=0, kind="began"))
    await journal.step(action, StepEvent(index=0, kind="done", text="9 checks", seconds=1.5))
    await journal.step(action, StepEvent(index=1, kind="began"))
    await journal.step(action, StepEvent(index=1, kind="said", text="prefill pid 5857", seconds=0.2))
    await journal.step(action, StepEvent(index=2, kind="failed", title="clean up", text="pid 1 lives"))
    (under_way,) = await Journal(path).entries()
    assert (under_way.state, under_way.ended_at, under_way.seconds) == ("running", None, None)
    await journal.end(action, UP)
    (entry,) = await Journal(path).entries()
    assert entry.commands == ("setsid python3 …",)
    assert [(step.title, step.state, step.text) for step in entry.steps] == [
        ("look before anything is touched", "done", "9 checks"),
        ("launch", "running", "prefill pid 5857"),
        ("clean up", "failed", "pid 1 lives"),
    ]
    assert (entry.verb, entry.profile, entry.by, entry.host) == ("switch", "pd-ll", "ops@laptop", "ct200")
    assert (entry.state, entry.sentence, entry.seconds, entry.verified) == ("done", "pd-ll is up", 38.2, True)
    assert entry.begun_at < (entry.ended_at or 0.0)


async def test_entries_are_the_newest_of_a_host_and_a_verb(journal: Journal) -> None:
    for number in range(3):
        await did(journal, changed(UP, sentence=f"{number}"))
    await did(journal, host="other", verb="restart")
    assert [entry.sentence for entry in await journal.entries("ct200", limit=2)] == ["2", "1"]
    assert [entry.host for entry in await journal.entries()] == ["other", "ct200", "ct200", "ct200"]
    assert [entry.host for entry in await journal.entries(verb="restart")] == ["other"]


async def test_a_stop_names_what_it_ended_and_verifies_nothing(journal: Journal) -> None:
    action = await journal.begin("ct200", plan(None, "stop"), "ops@laptop")
    await journal.end(action, PlanResult(state="done", sentence="stopped", deployment=RECORD, seconds=16.0))
    (entry,) = await journal.entries()
    assert (entry.profile, entry.verified) == ("pd-ll", None)
    assert await journal.last_results("ct200") == {}
    assert await journal.last_verified("ct200") is None


async def test_the_last_result_of_each_profile(journal: Journal) -> None:
    await did(journal, changed(UP, deployment=deployed(OTHER)), OTHER)
    await did(journal)
    await did(journal, REFUSED)
    await did(journal, host="elsewhere", profile=changed(PAIR, name="pd-mtp"))
    results = await journal.last_results("ct200")
    assert {name: (last.sentence, last.verified) for name, last in results.items()} == {
        "tp4": ("verified after 38 s", True),
        "pd-ll": ("failed: flags of decode refused; nothing was changed", False),
    }
    assert all(isinstance(last, LastResult) and last.at > 1000.0 for last in results.values())


@pytest.mark.parametrize(
    ("result", "verified"),
    [
        (UP, True),
        (changed(UP, deployment=deployed(PAIR, verified=False)), False),
        (changed(UP, deployment=deployed(PAIR, proven=False)), False),
        (changed(UP, state="aborted"), False),
        (changed(UP, deployment=None), False),
    ],
)
async def test_verified_is_done_proven_and_as_asked(
    journal: Journal, result: PlanResult, verified: bool
) -> None:
    await did(journal, result)
    assert (await journal.last_results("ct200"))["pd-ll"].verified is verified
    assert (await journal.last_verified("ct200") == PAIR) is verified


async def test_rolling_back_needs_no_file_and_no_luck(journal: Journal) -> None:
    """The whole profile as it was launched, though its last launch failed."""
    await did(journal, changed(UP, deployment=deployed(OTHER)), OTHER)
    await did(journal)
    await did(journal, REFUSED)
    assert await journal.last_verified("ct200") == PAIR
    assert await journal.last_verified("ct200", other_than="pd-ll") == OTHER
    assert await journal.last_verified("elsewhere") is None


async def test_a_profile_that_cannot_be_read_any_more_is_passed_over(journal: Journal, path: Path) -> None:
    await did(journal, changed(UP, deployment=deployed(OTHER)), OTHER)
    await did(journal)
    with sqlite3.connect(path) as other:
        other.execute("""UPDATE actions SET content = '{"flag": 1}' WHERE profile = 'pd-ll'""")
    other.close()
    assert await journal.last_verified("ct200") == OTHER


async def test_actions_leave_marks(journal: Journal) -> None:
    await did(journal)
    await did(journal, REFUSED, verb="restart")
    await journal.mark("ct200", "bench C=16", "bench")
    await journal.mark("elsewhere", "not here")
    marks = await journal.marks("ct200", 0.0)
    assert [(mark.text, mark.kind) for mark in marks] == [
        ("switch pd-ll", "action"),
        ("verified", "result"),
        ("restart pd-ll", "action"),
        ("failed", "result"),
        ("bench C=16", "bench"),
    ]
    assert await journal.marks("ct200", marks[-1].at) == (
        Mark(at=marks[-1].at, text="bench C=16", kind="bench"),
    )


# The file


async def test_the_file_is_the_users_alone(journal: Journal, path: Path) -> None:
    await did(journal)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


def test_it_is_kept_where_data_of_the_users_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert journal_path() == tmp_path / "dsv4-console" / "journal.db"


def _write_many(path: Path, by: str, count: int) -> None:
    async def write() -> None:
        journal = Journal(path)
        for _ in range(count):
            action = await journal.begin("ct200", plan(), by)
            await journal.step(action, StepEvent(index=0, kind="done"))
            await journal.end(action, UP)
        assert journal.trouble is None
        await journal.close()

    asyncio.run(write())


async def test_two_consoles_write_to_one_journal(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    consoles = [context.Process(target=_write_many, args=(path, f"console {n}", 25)) for n in range(2)]
    for console in consoles:
        console.start()
    for console in consoles:
        await asyncio.to_thread(console.join, 60)
    assert [console.exitcode for console in consoles] == [0, 0]
    entries = await Journal(path).entries(limit=100)
    assert sorted(entry.by for entry in entries) == ["console 0"] * 25 + ["console 1"] * 25
    assert all(entry.state == "done" and len(entry.steps) == 1 for entry in entries)


async def test_many_tasks_use_one_connection(journal: Journal, told: list[ConsoleError]) -> None:
    await asyncio.gather(*(did(journal) for _ in range(20)))
    assert len(await journal.entries()) == 20
    assert told == []


async def test_the_loop_goes_on_while_another_console_holds_the_file(
    path: Path, told: list[ConsoleError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits so long and no longer; the action goes on, and its end is written once that can be done."""
    monkeypatch.setattr(journal_file.JournalFile.__init__, "__defaults__", (0.3,))
    journal = Journal(path, tell=told.append)
    await did(journal)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    beginning = asyncio.create_task(journal.begin("ct200", plan(), "ops@laptop"))
    turns = 0
    while not beginning.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 10
    begun = time.monotonic()
    for kind in ("began", "said", "done"):
        await journal.step(beginning.result(), StepEvent(index=0, kind=kind))
    assert time.monotonic() - begun < 0.3
    other.execute("ROLLBACK")
    other.close()
    await journal.end(beginning.result(), UP)
    assert [entry.state for entry in await journal.entries()] == ["done", "done"]
    (error,) = told
    assert "locked" in str(error)


def _garbage(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 100)


def _folder(path: Path) -> None:
    path.mkdir(parents=True)


def _newer(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()


def _no_folder(path: Path) -> None:
    path.parent.write_text("a file where the folder should be")


@pytest.mark.parametrize("spoil", [_garbage, _folder, _newer, _no_folder])
async def test_a_broken_journal_stops_no_action_and_is_told_once(
    spoil: object, path: Path, journal: Journal, told: list[ConsoleError]
) -> None:
    assert callable(spoil)
    spoil(path)
    action = await journal.begin("ct200", plan(), "ops@laptop")
    await journal.step(action, StepEvent(index=0, kind="began"))
    await journal.end(action, UP)
    await journal.mark("ct200", "note")
    assert await journal.entries() == ()
    assert await journal.last_results("ct200") == {}
    assert await journal.last_verified("ct200") is None
    assert await journal.marks("ct200", 0.0) == ()
    (error,) = told
    assert error is journal.trouble
    assert str(path) in str(error)
    assert "Next: " in str(error)


async def test_a_journal_that_cannot_be_written_can_still_be_read(
    journal: Journal, path: Path, told: list[ConsoleError], monkeypatch: pytest.MonkeyPatch
) -> None:
    await did(journal)
    await journal.close()
    connect = sqlite3.connect

    def read_only(*args: object, **kwargs: object) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)  # type: ignore[call-overload]  # as given
        connection.execute("PRAGMA query_only = ON")
        assert isinstance(connection, sqlite3.Connection)
        return connection

    # What file modes forbid, root may do all the same.
    monkeypatch.setattr(sqlite3, "connect", read_only)
    await did(journal, REFUSED)
    assert [entry.state for entry in await journal.entries()] == ["done"]
    assert [("readonly" in str(error)) for error in told] == [True]


async def test_a_file_of_an_older_version_is_brought_up_and_keeps_what_it_has(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Journal(path)
    await did(before)
    await before.close()
    later = (*journal_schema.MIGRATIONS, ("CREATE TABLE results (action TEXT, tok_s REAL)",))
    monkeypatch.setattr(journal_file, "MIGRATIONS", later)
    journal = Journal(path)
    assert [entry.sentence for entry in await journal.entries()] == ["pd-ll is up"]
    assert journal.trouble is None
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (len(later),)
        assert other.execute("SELECT count(*) FROM results").fetchone() == (0,)
    other.close()


async def test_a_migration_that_fails_changes_nothing(
    path: Path, told: list[ConsoleError], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Journal(path)
    await did(before)
    await before.close()
    with monkeypatch.context() as patch:
        bad = (*journal_schema.MIGRATIONS, ("CREATE TABLE results (n)", "not SQL"))
        patch.setattr(journal_file, "MIGRATIONS", bad)
        await did(Journal(path, tell=told.append))
        assert len(told) == 1
    journal = Journal(path)
    assert len(await journal.entries()) == 1
    assert journal.trouble is None
