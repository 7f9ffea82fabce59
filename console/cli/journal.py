"""`dsv4-console journal`: what was done to hosts from this machine, the newest first."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime

import msgspec

from console.cli.target import Given
from console.domain.journal_entry import JournalEntry
from console.domain.printable import printable
from console.services.journal import Journal

HEAD = ("time", "host", "verb", "profile", "state", "seconds", "")
CUT_OFF = "under way, or its console ended before it did"


def show_journal(given: Given, limit: int, *, as_json: bool) -> int:
    """Print it; returns the exit code. Raises ConsoleError when the file cannot be read."""
    entries = asyncio.run(read("demo" if given.demo else given.host, limit))
    if as_json:
        sys.stdout.writelines(msgspec.json.encode(entry).decode() + "\n" for entry in entries)
    elif entries:
        print("\n".join(table(entries)))
    else:
        print("dsv4-console: nothing in the journal yet", file=sys.stderr)
    return 0


async def read(host: str | None, limit: int) -> Sequence[JournalEntry]:
    """The newest actions, of all hosts where none is named. Raises ConsoleError."""
    journal = Journal()
    try:
        entries = await journal.entries(host, limit)
    finally:
        await journal.close()
    if journal.trouble is not None:
        raise journal.trouble
    return entries


def table(entries: Sequence[JournalEntry]) -> list[str]:
    """A line for each, in columns, times in the zone of this machine."""
    rows = [HEAD, *(tuple(map(printable, _row(entry))) for entry in entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _row(entry: JournalEntry) -> tuple[str, ...]:
    return (
        f"{datetime.fromtimestamp(entry.begun_at):%Y-%m-%d %H:%M:%S}",
        entry.host,
        entry.verb,
        entry.profile or "-",
        entry.state,
        "n/a" if entry.seconds is None else f"{entry.seconds:.0f}",
        CUT_OFF if entry.ended_at is None else entry.sentence,
    )
