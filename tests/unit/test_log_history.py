"""Older lines have the numbers that count down to the known ones, wherever those were read from."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import logpages
from console.domain.errors import ConsoleError, UsageError
from console.domain.loghistory import HostMatches, HostSearch
from console.domain.logline import LogLine
from console.domain.observation import LogUpdate
from console.domain.server import LogPlace
from console.remote.frames import Answer, LogBytes, Match, Matches, Page, Reply, TailEvent
from console.services import history
from console.services.history import LineIndex, LogHistory, Place
from console.services.logs import LogFollower

FILE = (1, 2)
NEXT = (1, 3)


class Files:
    """A link to an agent that holds these files, by (device, inode), and answers at once."""

    def __init__(self, limit: int = 1 << 18) -> None:
        self.contents: dict[tuple[int, int], bytes] = {}
        self.limit = limit
        self.asked = 0
        self.answers: list[Answer] = []

    async def ask(self, op: str, **fields: Any) -> AsyncGenerator[Answer, None]:
        self.asked += 1
        for answer in self.answers or self._read(fields):
            yield answer

    def _read(self, fields: dict[str, Any]) -> list[Answer]:
        content = self.contents.get((fields["dev"], fields["inode"]))
        if content is None:
            return [Reply(1, "the log file is no longer there")]
        path = Path("/proc/self/fd") / str(memory_file(content))
        fd = os.open(path, os.O_RDONLY)
        try:
            parts = list(logpages.page_before(fd, fields["before"], self.limit))
        finally:
            os.close(fd)
            os.close(int(path.name))
        return [Page(1, part[0]["offset"], part[0]["more"], part[1]) for part in parts if part]


def memory_file(content: bytes) -> int:
    fd = os.memfd_create("log")
    os.write(fd, content)
    return fd


class Watched:
    """One log as a watch follows it, with what it got to show."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.follower = LogFollower((7, 8), LogPlace(kind="file", path="/var/log/server.log"))
        self.history = LogHistory("/var/log/server.log")
        self.lines: list[LogLine] = []

    def event(self, name: Any, file: tuple[int, int], offset: int) -> None:
        event = TailEvent("7.8", name, dev=file[0], inode=file[1], offset=offset)
        self._take(self.follower.told(event), event)

    def read(self, file: tuple[int, int], offset: int, size: int) -> None:
        chunk = LogBytes("7.8", *file, offset, self.files.contents[file][offset : offset + size])
        self._take(self.follower.take(chunk), chunk)

    def _take(self, update: LogUpdate, source: LogBytes | TailEvent) -> None:
        self.lines += update.lines
        if isinstance(source, LogBytes):
            self.history.took(source, update)
        else:
            self.history.told(source, update)

    async def scroll_up(self) -> str | None:
        """All that can be had above, page by page; the note at its end."""
        for _ in range(500):
            first = self.lines[0].number if self.lines else 1
            older = await self.history.older(self.files, first)  # type: ignore[arg-type] # a stand-in
            self.lines[:0] = older.lines
            if older.exhausted:
                return older.note
        raise AssertionError("it never ends")

    def texts(self) -> list[str]:
        numbers = [line.number for line in self.lines]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        return [line.text for line in self.lines]


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(count))


@pytest.fixture
def watched() -> Watched:
    return Watched(Files(limit=100))


@given(
    lines=st.lists(
        st.sampled_from([b"", b"one", b"two words", b"x" * 90, b"bar\rredrawn", b"\xff"]), max_size=60
    ),
    start=st.integers(0, 60),
    chunk=st.integers(1, 200),
)
async def test_all_lines_together_are_those_of_the_whole_file(
    lines: list[bytes], start: int, chunk: int
) -> None:
    content = b"".join(line + b"\n" for line in lines)
    begin = sum(len(line) + 1 for line in lines[:start])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logpages, "PART", 32)
        whole, part = Watched(Files()), Watched(Files(limit=100))
        for each, offset, size in ((whole, 0, len(content)), (part, begin, chunk)):
            each.files.contents[FILE] = content
            each.event("opened", FILE, offset)
            for at in range(offset, len(content), max(size, 1)):
                each.read(FILE, at, size)
        await part.scroll_up()
    assert part.texts() == whole.texts()
    assert not part.lines or part.lines[-1].number == max(0, len(lines) - start)


async def test_lines_that_a_buffer_has_dropped_are_found_by_their_number(watched: Watched) -> None:
    content = watched.files.contents[FILE] = numbered(3000)
    watched.files.limit = 1 << 18
    watched.event("opened", FILE, 0)
    for at in range(0, len(content), 1000):
        watched.read(FILE, at, 1000)
    watched.lines = watched.lines[-50:]
    older = await watched.history.older(watched.files, watched.lines[0].number)  # type: ignore[arg-type]
    assert older.exhausted
    assert [line.text for line in older.lines] == [f"line {number}" for number in range(2950)]
    assert older.lines[0].number == 1


async def test_scrolling_up_goes_over_a_rotation_into_the_file_before(watched: Watched) -> None:
    watched.files.contents |= {FILE: numbered(40) + b"half", NEXT: b"new 0\nnew 1\n"}
    watched.event("opened", FILE, len(numbered(30)))
    watched.read(FILE, len(numbered(30)), 1000)
    watched.event("rotated", NEXT, 0)
    watched.read(NEXT, 0, 1000)
    watched.lines = watched.lines[-1:]
    assert await watched.scroll_up() is None
    assert watched.texts() == [*(f"line {number}" for number in range(40)), "half", "new 0", "new 1"]
    assert watched.lines[-1].number == 13


async def test_what_stood_before_a_truncation_is_lost_and_that_is_said(watched: Watched) -> None:
    watched.files.contents[FILE] = numbered(40)
    watched.event("opened", FILE, len(numbered(30)))
    watched.read(FILE, len(numbered(30)), 1000)
    watched.files.contents[FILE] = b"anew\n"
    watched.event("truncated", FILE, 0)
    watched.read(FILE, 0, 1000)
    assert await watched.scroll_up() == "the log was truncated here"
    assert watched.files.asked == 0
    assert watched.texts() == [*(f"line {number}" for number in range(30, 40)), "anew"]


async def test_a_file_that_is_gone_is_told(watched: Watched) -> None:
    watched.files.contents[FILE] = numbered(40)
    watched.event("opened", FILE, 100)
    watched.read(FILE, 100, 1000)
    del watched.files.contents[FILE]
    assert await watched.scroll_up() == "the log file is no longer there"


async def test_a_reconnect_changes_no_number(watched: Watched) -> None:
    content = watched.files.contents[FILE] = numbered(40)
    watched.event("opened", FILE, len(numbered(30)))
    watched.read(FILE, len(numbered(30)), 25)
    watched.event("opened", FILE, len(numbered(30)) + 25)
    watched.read(FILE, len(numbered(30)) + 25, len(content))
    await watched.scroll_up()
    assert watched.texts() == [f"line {number}" for number in range(40)]


async def test_a_line_of_megabytes_is_one_line_with_its_length(watched: Watched) -> None:
    watched.files.limit = 1 << 18
    long = b"begin " + b"x" * 5_000_000 + b"\n"
    watched.files.contents[FILE] = b"first\n" + long + b"last\n"
    watched.event("opened", FILE, len(b"first\n" + long))
    watched.read(FILE, len(b"first\n" + long), 100)
    await watched.scroll_up()
    assert [line.number for line in watched.lines] == [-1, 0, 1]
    assert watched.lines[1].text.startswith("begin xxx")
    assert watched.lines[1].text.endswith(" … +4.99 MB")


def test_the_fingerprint_is_what_stood_before_the_place_to_resume(watched: Watched) -> None:
    watched.files.contents |= {FILE: numbered(40), NEXT: b"ab"}
    watched.event("opened", FILE, 0)
    assert watched.history.fingerprint == {"last": ""}
    watched.read(FILE, 0, 10)
    assert watched.history.fingerprint == {"last": "bGluZSAwCmxpbg=="}
    watched.event("rotated", NEXT, 0)
    watched.read(NEXT, 0, 2)
    assert watched.history.fingerprint == {"last": "YWI="}


def test_the_index_of_a_million_lines_is_small_and_keeps_where_files_change() -> None:
    index = LineIndex()
    for number in range(0, 500_000, 10):
        index.append(Place(number, FILE, number * 100))
    index.append(Place(500_000, NEXT, 0))
    for number in range(500_010, 3_000_000, 300):
        index.append(Place(number, NEXT, (number - 500_000) * 100))
    assert len(index._places) <= history.MOST_PLACES
    assert index.find(500_000) == Place(500_000, NEXT, 0)
    found = index.find(499_000)
    assert found is not None
    assert (found.file, found.offset) == (FILE, found.number * 100)


async def found_by(search: HostSearch, *answers: Answer) -> list[HostMatches]:
    files = Files()
    files.answers = list(answers)
    log = LogHistory("/var/log/server.log")
    return [found async for found in log.search(files, search)]  # type: ignore[arg-type] # a stand-in


async def test_what_a_search_finds_adds_up_and_is_safe_to_show() -> None:
    found = await found_by(
        HostSearch(pattern="x"),
        Matches(1, True, (Match(10, 5, "\x1b]0;title\x07x\x00"),), 50, 100),
        Matches(1, False, (Match(0, 9999, "y" * 1000, 20),), 100, 100, 0, True),
    )
    assert [(each.searched, each.done, each.complete) for each in found] == [
        (50, False, False),
        (100, True, True),
    ]
    assert [match.text for match in found[-1].matches] == ["x\u2400", f"… {'y' * 1000} …"]
    assert found[-1].note is None


async def test_a_search_that_cannot_go_on_keeps_what_it_found() -> None:
    found = await found_by(
        HostSearch(pattern="x"), Matches(1, True, (Match(10, 5, "x"),), 50, 100), Reply(1, "too slow")
    )
    last = found[-1]
    assert (len(last.matches), last.done, last.complete, last.note) == (1, True, False, "too slow")


async def test_lines_that_were_searched_in_part_are_noted() -> None:
    last = (await found_by(HostSearch(pattern="x"), Matches(1, False, (), 9, 9, 2, True)))[-1]
    assert last.note == "2 very long lines were searched in part"


async def test_what_is_no_expression_is_refused_before_the_host_is_asked() -> None:
    with pytest.raises(UsageError):
        await found_by(HostSearch(pattern="("))
    assert await found_by(HostSearch(pattern="(", literal=True), Matches(1, False, complete=True))


async def test_a_whole_line_comes_in_pieces_or_says_why_not() -> None:
    files = Files()
    files.answers = [Page(1, 0, True, b"ab"), Page(1, 2, False, b"c")]
    log = LogHistory("/var/log/server.log")
    pieces = [piece async for piece in log.whole_line(files, 0, 3)]  # type: ignore[arg-type] # a stand-in
    assert pieces == [b"ab", b"c"]
    files.answers = [Reply(1, "the log was truncated")]
    with pytest.raises(ConsoleError, match="truncated"):
        await anext(log.whole_line(files, 0, 3))  # type: ignore[arg-type] # a stand-in
