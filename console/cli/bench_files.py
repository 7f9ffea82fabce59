"""`dsv4-console bench export|import`: results as files of sglang's benchmark client, and as CSV."""

from __future__ import annotations

import csv
import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from console.cli.bench_history import asked_host, print_lines, with_store
from console.cli.bench_json import json_line, without_secrets
from console.cli.target import Given
from console.domain.bench.jsonl import from_sglang
from console.domain.bench.result import BenchResult
from console.domain.bench.table import COLUMNS, row
from console.domain.errors import UsageError
from console.domain.printable import printable
from console.services.bench_store import BenchStore

DONE = 0
ALL = 1_000_000
SHOWN_ERRORS = 10


def export_results(given: Given, ids: Sequence[str], *, as_csv: bool, details: bool) -> int:
    """Write them, the oldest first. Raises ConsoleError."""
    if as_csv and details:
        raise UsageError(
            "CSV has no room for the times of requests", next_step="leave --csv or --details out"
        )
    results = with_store(lambda store: _wanted(store, ids, asked_host(given), details=details))
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(row(without_secrets(result)) for result in results)
    else:
        sys.stdout.writelines(json_line(result, details=details) for result in results)
    return DONE


async def _wanted(
    store: BenchStore, ids: Sequence[str], host: str | None, *, details: bool
) -> list[BenchResult]:
    if ids:
        found = {result.id: result for id in ids for result in await store.find(id)}
        return sorted(found.values(), key=lambda result: result.at)
    listed = reversed(await store.history(host=host, limit=ALL))
    return [await store.result(result.id) if details else result for result in listed]


def import_results(given: Given, file: Path) -> int:
    """Keep all results of a file, or none. Raises UsageError with the lines that are no results."""
    name = "stdin" if str(file) == "-" else printable(str(file))
    results, errors = read_results(_lines(file, name), at=time.time())
    if errors:
        for error in errors[:SHOWN_ERRORS]:
            print(f"{name}: {printable(str(error))}", file=sys.stderr)
        more = f", {len(errors) - SHOWN_ERRORS} of them not shown" if len(errors) > SHOWN_ERRORS else ""
        raise UsageError(
            f"{_counted(len(errors), 'line')} of {name} cannot be read{more}; nothing was imported",
            next_step="correct or remove them",
        )
    if not results:
        raise UsageError(f"{name} has no results")
    new = with_store(lambda store: store.add_all(results))
    known = len(results) - len(new)
    there = f"; {known} were there already" if known else ""
    print_lines([f"imported {_counted(len(new), 'result')}{there}", *(f"  {id}" for id in new)])
    return DONE


def read_results(lines: Sequence[bytes], *, at: float) -> tuple[list[BenchResult], list[UsageError]]:
    """A result or an error for each line that is not blank."""
    results, errors = list[BenchResult](), list[UsageError]()
    series = hashlib.sha256(b"\n".join(lines)).hexdigest()[:8]
    for number, line in enumerate(lines, 1):
        if line.strip():
            # By the content, so that importing a file twice keeps each result once.
            id = hashlib.sha256(line.strip()).hexdigest()[:12]
            try:
                results.append(from_sglang(line, number, id=id, at=at, series=series))
            except UsageError as error:
                errors.append(error)
    return results, errors


def _lines(file: Path, name: str) -> list[bytes]:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read",
            cause=error.strerror or str(error),
            next_step="give a file, or - for stdin",
        ) from error
    return content.split(b"\n")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
