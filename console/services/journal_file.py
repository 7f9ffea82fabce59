"""The journal's SQLite file: one connection, used by one thread at a time. The only import of sqlite3.

Several consoles write to the same file: WAL, short transactions, and a wait where another one has its turn.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from console.domain.errors import ConsoleError
from console.domain.journal_entry import JournalEntry, JournalStep, Mark
from console.domain.profile import Profile
from console.services.journal_schema import MIGRATIONS

BUSY_S = 2.0
"""How long another console's write is waited for; it takes milliseconds."""
CANDIDATES = 20
"""So many verified launches are looked at for one whose profile can still be read."""


class JournalUnusable(ConsoleError):
    """The file cannot be read or written."""


class JournalFile:
    """Every method may block for BUSY_S, and raises JournalUnusable."""

    def __init__(self, path: Path, busy_s: float = BUSY_S) -> None:
        self.path = path
        self._busy_s = busy_s
        self._connection: sqlite3.Connection | None = None
        # A thread goes on after the coroutine that waited for it was cancelled.
        self._turn = threading.Lock()

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._turn:
            self._drop()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection, in a transaction that is undone by whatever is raised."""
        with self.reading() as connection, _transaction(connection):
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time."""
        with self._turn:
            try:
                if self._connection is None:
                    self._connection = self._open()
                yield self._connection
            except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
                self._drop()
                raise JournalUnusable(
                    "the journal cannot be used",
                    where=str(self.path),
                    cause=str(error),
                    next_step="see that the file is yours and sound, or move it away for a new one",
                ) from error

    def add_action(self, entry: JournalEntry) -> None:
        """Write an action that begins."""
        with self.writing() as connection:
            connection.execute(
                "INSERT INTO actions (id, host, verb, profile, by, begun_at, state, commands)"
                " VALUES (:id, :host, :verb, :profile, :by, :begun_at, :state, :commands)",
                _row(entry),
            )

    def put_step(self, action: str, step: JournalStep) -> None:
        """Write how far a step is."""
        with self.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO steps VALUES (:action, :index, :title, :state, :seconds, :text)",
                {"action": action, **msgspec.structs.asdict(step)},
            )

    def end_action(self, entry: JournalEntry, profile: Profile | None) -> None:
        """Write how an action ended, also where its beginning could not be written."""
        content = None if profile is None else msgspec.json.encode(profile).decode()
        with self.writing() as connection:
            connection.execute(
                "INSERT INTO actions (id, host, verb, profile, content, by, begun_at, ended_at, state,"
                " sentence, seconds, verified, commands) VALUES (:id, :host, :verb, :profile, :content, :by,"
                " :begun_at, :ended_at, :state, :sentence, :seconds, :verified, :commands)"
                " ON CONFLICT (id) DO UPDATE SET profile = excluded.profile, content = excluded.content,"
                " ended_at = excluded.ended_at, state = excluded.state, sentence = excluded.sentence,"
                " seconds = excluded.seconds, verified = excluded.verified",
                {**_row(entry), "content": content},
            )

    def add_mark(self, host: str, mark: Mark) -> None:
        """Write a mark."""
        with self.writing() as connection:
            connection.execute("INSERT INTO marks VALUES (?, ?, ?, ?)", (host, mark.at, mark.text, mark.kind))

    def marks(self, host: str, since: float) -> tuple[Mark, ...]:
        """The marks of a host from `since` on, oldest first."""
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT at, text, kind FROM marks WHERE host = ? AND at >= ? ORDER BY at", (host, since)
            ).fetchall()
            return tuple(msgspec.convert(dict(row), Mark) for row in rows)

    def entries(
        self, host: str | None = None, limit: int = 50, verb: str | None = None
    ) -> tuple[JournalEntry, ...]:
        """The newest actions, the newest first, with their steps."""
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM actions WHERE (:host IS NULL OR host = :host)"
                " AND (:verb IS NULL OR verb = :verb) ORDER BY number DESC LIMIT :limit",
                {"host": host, "verb": verb, "limit": limit},
            ).fetchall()
            return tuple(_entry(row, _steps(connection, row["id"])) for row in rows)

    def last_launches(self, host: str) -> tuple[JournalEntry, ...]:
        """The last action that was to launch each profile, without steps."""
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM actions WHERE number IN (SELECT max(number) FROM actions WHERE host = ?"
                " AND verb != 'stop' AND profile IS NOT NULL AND ended_at IS NOT NULL GROUP BY profile)",
                (host,),
            ).fetchall()
            return tuple(_entry(row, ()) for row in rows)

    def verified_profiles(self, host: str) -> tuple[Profile, ...]:
        """The profiles of the newest verified launches, as they were launched, the newest first.

        Leaves out those that this version of the console cannot read any more.
        """
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT content FROM actions WHERE host = ? AND verified AND content IS NOT NULL"
                " ORDER BY number DESC LIMIT ?",
                (host, CANDIDATES),
            ).fetchall()
        return tuple(profile for row in rows if (profile := _profile(row["content"])) is not None)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its -wal and -shm files the mode of this one. Commands may hold secrets.
        os.close(os.open(self.path, os.O_RDONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            self.path, timeout=self._busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            connection.row_factory = sqlite3.Row
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(connection: sqlite3.Connection) -> None:
    if _version(connection) < len(MIGRATIONS):
        # A change of the journal mode does not wait for others; any mode will do until the next start.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        with _transaction(connection):
            _migrate(connection)
    if _version(connection) > len(MIGRATIONS):
        raise OSError("it was written by a newer version of the console")
    connection.execute("PRAGMA synchronous = NORMAL")


def _migrate(connection: sqlite3.Connection) -> None:
    """Inside a transaction, for another console may be about to do the same."""
    for statements in MIGRATIONS[_version(connection) :]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {max(_version(connection), len(MIGRATIONS))}")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _row(entry: JournalEntry) -> dict[str, Any]:
    fields = msgspec.structs.asdict(entry)
    return fields | {"commands": msgspec.json.encode(entry.commands).decode(), "steps": None}


def _entry(row: sqlite3.Row, steps: Sequence[JournalStep]) -> JournalEntry:
    fields: dict[str, Any] = dict(row)
    fields["verified"] = None if row["verified"] is None else bool(row["verified"])
    fields["commands"] = msgspec.json.decode(row["commands"], type=tuple[str, ...])
    return msgspec.convert(fields | {"steps": tuple(steps)}, JournalEntry)


def _steps(connection: sqlite3.Connection, action: str) -> list[JournalStep]:
    rows = connection.execute(
        'SELECT "index", title, state, seconds, text FROM steps WHERE action = ? ORDER BY "index"', (action,)
    )
    return [msgspec.convert(dict(row), JournalStep) for row in rows]


def _profile(content: str) -> Profile | None:
    """None: written by another version, with other fields."""
    try:
        return msgspec.json.decode(content, type=Profile)
    except (msgspec.MsgspecError, ValueError):
        return None
