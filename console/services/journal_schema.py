"""The tables of the journal's file. PRAGMA user_version counts the versions that it has gone through."""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE actions (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            host TEXT NOT NULL,
            verb TEXT NOT NULL,
            profile TEXT,
            content TEXT,          -- the profile as it was launched, as JSON
            by TEXT NOT NULL,
            begun_at REAL NOT NULL,
            ended_at REAL,
            state TEXT NOT NULL DEFAULT 'running',
            sentence TEXT NOT NULL DEFAULT '',
            seconds REAL,
            verified INTEGER,      -- NULL: it made no deployment
            commands TEXT NOT NULL DEFAULT '[]'
        )""",
        "CREATE INDEX actions_of_host ON actions (host, profile, number)",
        """CREATE TABLE steps (
            action TEXT NOT NULL REFERENCES actions (id) ON DELETE CASCADE,
            "index" INTEGER NOT NULL,
            title TEXT NOT NULL,
            state TEXT NOT NULL,
            seconds REAL NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (action, "index")
        ) WITHOUT ROWID""",
        """CREATE TABLE marks (
            host TEXT NOT NULL,
            at REAL NOT NULL,
            text TEXT NOT NULL,
            kind TEXT NOT NULL
        )""",
        "CREATE INDEX marks_of_host ON marks (host, at)",
    ),
    (
        """CREATE TABLE bench_results (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            series TEXT NOT NULL,
            host TEXT NOT NULL,
            profile TEXT,
            at REAL NOT NULL,
            summary TEXT NOT NULL,      -- the result without its requests, as JSON
            requests BLOB NOT NULL      -- they, as MessagePack, compressed by zlib
        )""",
        "CREATE INDEX bench_results_of_host ON bench_results (host, profile, at)",
        "CREATE INDEX bench_results_of_series ON bench_results (series)",
    ),
)
"""Statements for each version, from the one before it; those that were shipped are never changed."""
