"""Older lines and searches of a whole log, fetched from a host over a real sshd while the log goes on."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.errors import ConnectionLost
from console.domain.loghistory import HostMatches, HostSearch
from console.domain.logline import LogLine
from tests.integration.scripted import ScriptedServer
from tests.integration.sshd import SshServer, descendants
from tests.integration.waiting import eventually
from tests.integration.watching import Watching, watching

BEFORE = 30_000
"""Lines that the log has when it is first seen."""
STUCK = HostSearch(pattern="^(a+)+$")


@pytest.fixture
def writer(tmp_path: Path, gpu_box: SshServer) -> Iterator[ScriptedServer]:
    """A server with a long log."""
    folder = tmp_path / "run"
    folder.mkdir()
    old = "".join(f"old {number} of a log with lines of some length\n" for number in range(BEFORE))
    (folder / "server.log").write_text(old)
    server = ScriptedServer(folder, str(tmp_path))
    yield server
    server.kill()


async def first_lines(seen: Watching) -> None:
    """Wait until the tail has given what it begins with."""
    await seen.until(lambda: seen.texts[-1:] == [f"old {BEFORE - 1} of a log with lines of some length"])


async def scroll_to_the_start(seen: Watching) -> list[LogLine]:
    """Every line there is, the oldest first."""
    lines = list(seen.lines)
    while True:
        older = await seen.watch.logs.older(seen.server, lines[0].number)
        lines[:0] = older.lines
        if older.exhausted:
            assert older.note is None
            return lines


async def test_scrolling_up_reaches_the_first_line_of_the_file(writer: ScriptedServer) -> None:
    async with watching("gpu-box", log_lines=100) as seen:
        await first_lines(seen)
        assert len(seen.lines) == 100
        lines = await scroll_to_the_start(seen)
    assert [line.text.split()[1] for line in lines] == [str(number) for number in range(BEFORE)]
    assert [line.number for line in lines] == list(range(101 - BEFORE, 101))


async def test_older_lines_come_while_the_log_grows_and_rotates(writer: ScriptedServer) -> None:
    async with watching("gpu-box", log_lines=100) as seen:
        await first_lines(seen)
        writer.lines(5000)
        writer.log.rename(writer.log.with_name("server.log.1"))
        writer.reopen()
        writer.lines(10)
        await seen.until(lambda: seen.texts[-1] == "line 5010")
        # What the buffer of a screen has dropped by now is fetched again.
        del seen.lines[:-5]
        lines = await scroll_to_the_start(seen)
    assert len(lines) == BEFORE + 5010
    assert [line.number for line in lines] == list(range(101 - BEFORE, 101 + 5010))
    assert [line.text for line in lines[BEFORE:]] == [f"line {number}" for number in range(1, 5011)]


async def test_what_cannot_be_had_any_more_is_told(writer: ScriptedServer, gpu_box: SshServer) -> None:
    async with watching("gpu-box", log_lines=100) as seen:
        await first_lines(seen)
        server = seen.server
        gpu_box.stop()
        await seen.until(lambda: seen.host.connection == "lost")
        with pytest.raises(ConnectionLost):
            await seen.watch.logs.older(server, 1)
        with pytest.raises(ConnectionLost):
            await found_at_last(seen, HostSearch(pattern="old"))
        writer.log.rename(writer.log.with_name("elsewhere"))
        writer.reopen()
        writer.lines(1)
        gpu_box.start()
        await seen.until(lambda: seen.texts[-1] == "line 1")
        older = await seen.watch.logs.older(server, 1)
    assert (older.lines, older.exhausted) == ((), True)
    assert older.note == "the log file is no longer there"


async def found_at_last(seen: Watching, search: HostSearch) -> HostMatches:
    """The end of a search."""
    async with aclosing(seen.watch.logs.search(seen.server, search)) as finding:
        (last,) = [found async for found in finding if found.done]
    return last


async def test_a_search_finds_what_was_never_followed(writer: ScriptedServer) -> None:
    async with watching("gpu-box", log_lines=100) as seen:
        await first_lines(seen)
        found = await found_at_last(seen, HostSearch(pattern=r"old \d*777 "))
        some = await found_at_last(
            seen, HostSearch(pattern="LOG", literal=True, ignore_case=True, max_matches=7)
        )
    assert [match.text.split()[1] for match in found.matches] == [
        str(number) for number in range(29_777, 0, -1000)
    ]
    assert (found.complete, found.searched) == (True, found.size)
    assert (len(some.matches), some.complete) == (7, False)
    data = writer.log.read_bytes()
    for match in found.matches:
        assert data[match.offset : match.offset + match.size] == match.text.encode() + b"\n"


async def test_a_pattern_that_never_ends_disturbs_nothing_and_is_ended(writer: ScriptedServer) -> None:
    async with watching("gpu-box", log_lines=100) as seen:
        await first_lines(seen)
        writer.text("a" * 64 + "! ")
        writer.lines(1)
        searching = asyncio.create_task(found_at_last(seen, STUCK))
        ages = []
        for number in range(2, 10):
            writer.lines(1)
            ages.append(await seen.until(lambda number=number: seen.texts[-1] == f"line {number}"))
        assert not searching.done()
        found = await searching
    assert max(ages) < 1.0
    assert not found.complete
    assert "too long" in (found.note or "")


async def test_leaving_a_search_ends_its_process(writer: ScriptedServer, gpu_box: SshServer) -> None:
    async with watching("gpu-box", log_lines=100) as seen:
        await first_lines(seen)
        writer.text("a" * 64 + "! ")
        writer.lines(1)
        searching = asyncio.create_task(found_at_last(seen, STUCK))
        await eventually(lambda: searchers(gpu_box), "no search process")
        searching.cancel()
        begun = time.monotonic()
        await eventually(lambda: not searchers(gpu_box), "the search process lives on")
        assert time.monotonic() - begun < 1.0


async def test_a_search_does_not_outlive_its_agent(writer: ScriptedServer, gpu_box: SshServer) -> None:
    async with watching("gpu-box", log_lines=100) as seen:
        await first_lines(seen)
        writer.text("a" * 64 + "! ")
        writer.lines(1)
        searching = asyncio.create_task(found_at_last(seen, STUCK))
        await eventually(lambda: searchers(gpu_box), "no search process")
        (pid,) = searchers(gpu_box)
        begun = time.monotonic()
        gpu_box.stop()
        with pytest.raises(ConnectionLost):
            await searching
        await eventually(lambda: not command(pid), "the search process lives on")
        assert time.monotonic() - begun < 1.5


def searchers(server: SshServer) -> list[int]:
    """The search processes on the host."""
    found = []
    for session in server.sessions():
        for pid in descendants(session):
            if b"# dsv4-console search" in command(pid):
                found.append(pid)
    return sorted(set(found))


def command(pid: int) -> bytes:
    """The command line of a process; empty when it is gone."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


async def test_a_line_of_megabytes_can_be_had_whole(writer: ScriptedServer) -> None:
    async with watching("gpu-box", log_lines=100) as seen:
        await first_lines(seen)
        offset = writer.log.stat().st_size
        with writer.log.open("ab") as log:
            log.write(b"begin " + os.urandom(1_500_000).hex().encode() + b" end\n")
        await seen.until(lambda: seen.texts[-1].startswith("begin"))
        size = writer.log.stat().st_size - offset
        number = seen.lines[-1].number
        pieces = [piece async for piece in seen.watch.logs.whole_line(seen.server, offset, size, number)]
    assert b"".join(pieces) == writer.log.read_bytes()[offset:]
