"""`dsv4-console bench list|show|delete`: what was measured, without a host."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from console.cli.bench_json import json_line, without_secrets
from console.cli.bench_report import list_lines, result_lines
from console.cli.consent import agree
from console.cli.target import Given
from console.domain.bench.result import BenchResult
from console.domain.errors import UsageError
from console.domain.printable import printable
from console.services.bench_store import BenchStore

DONE = 0
T = TypeVar("T")


def with_store(work: Callable[[BenchStore], Awaitable[T]]) -> T:
    """What comes of it. Raises ConsoleError, also when the file cannot be read."""

    async def done() -> T:
        store = BenchStore()
        try:
            found = await work(store)
        finally:
            await store.close()
        if store.trouble is not None:
            raise store.trouble
        return found

    return asyncio.run(done())


def known_ids(beginning: str) -> list[str]:
    """A few, for completion in a shell; none where they cannot be read."""

    async def found() -> list[str]:
        store = BenchStore()
        try:
            return list(await store.ids(beginning))
        finally:
            await store.close()

    return asyncio.run(found())


def list_results(given: Given, profile: str | None, limit: int, *, as_json: bool) -> int:
    """Print a line or an object for each. Raises ConsoleError."""
    host = asked_host(given)
    results = with_store(lambda store: store.history(host=host, profile=profile, limit=limit))
    if as_json:
        sys.stdout.writelines(map(json_line, results))
    elif results:
        print_lines(list_lines(results))
    else:
        print("dsv4-console: nothing was measured yet", file=sys.stderr)
    return DONE


def show_results(id: str, *, as_json: bool) -> int:
    """Print one, or all of a series. Raises ConsoleError."""
    for result in with_store(lambda store: store.find(id)):
        if as_json:
            sys.stdout.write(json_line(result))
        else:
            print_lines([*result_lines(result), *_settings(result)])
    return DONE


def _settings(result: BenchResult) -> Iterable[str]:
    settings = sorted(without_secrets(result).context.settings.items())
    yield from ["  settings:"] if settings else []
    yield from (f"    {name} = {value}" for name, value in settings)


def delete_result(id: str, *, yes: bool) -> int:
    """Forget one. Raises ConsoleError."""

    async def delete(store: BenchStore) -> str:
        result = await store.result(id)
        context = result.context
        told = f"{result.id}, C={context.max_concurrency} of {context.profile or 'no profile'}"
        if not yes:
            await _agree_to_delete(f"{told} on {context.host}")
        await store.delete(result.id)
        return told

    told = with_store(delete)
    print_lines([f"deleted {told}"])
    return DONE


async def _agree_to_delete(what: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"{what} would be gone for good", next_step="give --yes")
    await agree(f"Delete {what}, for good?")


def asked_host(given: Given) -> str | None:
    """The host that results are asked of."""
    return "demo" if given.demo else given.host


def print_lines(lines: Iterable[str]) -> None:
    """Names and settings are data: nothing in them may steer the terminal."""
    for line in lines:
        print(printable(line))
