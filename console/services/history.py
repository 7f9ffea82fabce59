"""What a log holds besides the lines that were followed: older lines and searches, asked of the host."""

from __future__ import annotations

import base64
import re
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from operator import attrgetter
from typing import NamedTuple

import msgspec

from console.domain.errors import ConsoleError, UsageError
from console.domain.loghistory import HostMatch, HostMatches, HostSearch, OlderLines
from console.domain.logline import LogLine
from console.domain.observation import LogUpdate
from console.domain.printable import printable
from console.remote.agent_link import AgentLink
from console.remote.frames import Answer, LogBytes, Match, Matches, Page, Reply, TailEvent
from console.services.loglines import LogReader, classify

PAGE_BYTES = 262144
EXCERPT = 1000
"""Characters of a matching line that are fetched."""
STRIDE = 256
"""Lines between two places of the index, unless a file begins or ends there."""
MOST_PLACES = 4096
REMEMBERED = 64
"""Bytes before the offset by which a file is known again."""
NOTHING = HostSearch(pattern="(?!)")
"""Fits no line: the answer tells how long the file is."""
FILLER = bytes(1 << 20)
"""For what is left out of a long line: it is counted, never shown."""

FileId = tuple[int, int]
"""(device, inode)"""


class Place(NamedTuple):
    """Line `number` begins at `offset` of a file."""

    number: int
    file: FileId
    offset: int
    lost: str | None = None
    """Why nothing before it can be had, unless the log begins here."""


class LineIndex:
    """Where some of the lines of a log begin, in the order of their numbers and in bounded memory.

    Where one file follows another, the end of the first and the start of the second have one number.
    """

    def __init__(self) -> None:
        self._places: list[Place] = []

    def append(self, place: Place) -> None:
        """Note the newest place. It takes the place of the one before where they stand close together."""
        before = self._places[-2:]
        close = len(before) == 2 and place.number - before[0].number < STRIDE
        if close and place.file == before[0].file == before[1].file:
            self._places.pop()
        self._places.append(place)
        self._thin_out()

    def insert(self, place: Place) -> None:
        """Note a place among others."""
        insort(self._places, place, key=attrgetter("number"))
        self._thin_out()

    def find(self, number: int) -> Place | None:
        """The first place that is not before this line."""
        index = bisect_left(self._places, number, key=attrgetter("number"))
        return self._places[index] if index < len(self._places) else None

    def forget(self, file: FileId) -> None:
        """What stood in this file is lost."""
        self._places = [place for place in self._places if place.file != file]

    def _thin_out(self) -> None:
        if len(self._places) > MOST_PLACES:
            self._places = [place for index, place in enumerate(self._places) if self._is_kept(index)]

    def _is_kept(self, index: int) -> bool:
        near = self._places[max(0, index - 1) : index + 2]
        return bool(index % 2) or len(near) < 3 or len({place.file for place in near}) > 1


class LogHistory:
    """The past of one log; `took` and `told` keep it informed of what is followed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._index = LineIndex()
        self._next = 1  # the number of the next line
        self._at: tuple[FileId, int] | None = None
        self._last = b""

    @property
    def fingerprint(self) -> dict[str, str]:
        """The field `last` of an order that resumes the tail: the bytes before the offset."""
        return {"last": base64.b64encode(self._last).decode()}

    def took(self, chunk: LogBytes, update: LogUpdate) -> None:
        """A chunk was read and gave these lines."""
        self._count(update)
        file = (chunk.dev, chunk.inode)
        self._at = (file, chunk.offset + len(chunk.data))
        self._last = (self._last + chunk.data)[-REMEMBERED:]
        newline = chunk.data.rfind(b"\n")
        if newline >= 0:
            self._index.append(Place(self._next, file, chunk.offset + newline + 1))

    def told(self, event: TailEvent, update: LogUpdate) -> None:
        """Something happened to the log, which may have completed a line."""
        self._count(update)
        if event.event not in ("opened", "rotated", "truncated") or event.dev is None or event.inode is None:
            return
        file, offset = (event.dev, event.inode), event.offset or 0
        before, self._at = self._at, (file, offset)
        if before == self._at:
            return
        self._last = b""
        if event.event == "truncated":
            self._index.forget(file)
            self._index.append(Place(self._next, file, offset, "the log was truncated here"))
        else:
            if before is not None:
                self._index.append(Place(self._next, *before))
            self._index.append(Place(self._next, file, offset))

    async def older(self, link: AgentLink, before: int) -> OlderLines:
        """Lines directly before line number `before`, from at most 256 KiB. Raises ConnectionLost."""
        place = self._index.find(before)
        if place is None:
            return OlderLines(exhausted=True, note="it is not known where this line stands")
        while place.offset > 0:
            parts = await self._read(link, place.file, before=place.offset, limit=PAGE_BYTES)
            if isinstance(parts, str):
                return OlderLines(exhausted=True, note=parts)
            lines = lines_of(parts, place.number)
            place = Place(place.number - len(lines), place.file, parts[0].offset)
            self._index.insert(place)
            if place.number < before:
                wanted = tuple(line for line in lines if line.number < before)
                above = self._index.find(place.number) or place
                return OlderLines(lines=wanted, exhausted=above.offset == 0, note=above.lost)
        return OlderLines(exhausted=True, note=place.lost)

    async def search(self, link: AgentLink, search: HostSearch) -> AsyncGenerator[HostMatches, None]:
        """What was found so far, several times a second; the last one is `done`. Closing it ends the search.

        Raises UsageError when the pattern is no regular expression, ConnectionLost.
        """
        check(search)
        order = self._where() | msgspec.structs.asdict(search) | {"max_chars": EXCERPT}
        found = HostMatches()
        async with aclosing(link.ask("search", **order)) as answer:
            async for part in answer:
                found = after_part(found, part) if isinstance(part, Matches) else unfinished(found, part)
                yield found

    async def whole_line(
        self, link: AgentLink, offset: int, size: int, number: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a line that was cut for display, in pieces; `number` tells in which file it stands.

        Raises ConsoleError when the file is not what it was, ConnectionLost.
        """
        place = None if number is None else self._index.find(number + 1)
        where = self._where(None if place is None else place.file)
        async with aclosing(link.ask("read", **where, offset=offset, size=size)) as answer:
            async for part in answer:
                if isinstance(part, Page):
                    yield part.data
                elif isinstance(part, Reply):
                    raise ConsoleError("the line cannot be read", where=self._path, cause=part.error or "")

    async def last_lines(self, link: AgentLink) -> list[LogLine]:
        """The end of the file, from at most 256 KiB of it and numbered from 1; none where it cannot be read.

        Raises ConnectionLost.
        """
        size = 0
        async with aclosing(self.search(link, NOTHING)) as found:
            async for looked in found:
                size = looked.size
        parts = await self._read(link, before=size, limit=PAGE_BYTES) if size else ""
        return [] if isinstance(parts, str) else lines_of(parts)

    async def _read(self, link: AgentLink, file: FileId | None = None, **what: int) -> list[Page] | str:
        """The parts of a page, or why there is none."""
        parts: list[Page] = []
        async with aclosing(link.ask("read", **self._where(file), **what)) as answer:
            async for part in answer:
                if isinstance(part, Page):
                    parts.append(part)
                elif isinstance(part, Reply):
                    return part.error or "the host gave no answer"
        return parts

    def _where(self, file: FileId | None = None) -> dict[str, object]:
        """Fields of an order that name a file: the one that is followed, if no other."""
        file = file or (self._at and self._at[0])
        return {"path": self._path} | ({} if file is None else {"dev": file[0], "inode": file[1]})

    def _count(self, update: LogUpdate) -> None:
        if update.lines:
            self._next = update.lines[-1].number + 1


def lines_of(parts: Sequence[Page], following: int | None = None) -> list[LogLine]:
    """The lines of a page, numbered so that the next one after it is `following`; without it, from 1."""
    reader = LogReader()
    reads = [reader.feed(data, offset) for offset, data in without_gaps(parts)]
    lines = {line.number: line for read in (*reads, reader.end()) for line in (*read.lines, *read.revised)}
    shift = 0 if following is None else following - 1 - len(lines)
    return [
        line._replace(number=line.number + shift, head=None if line.head is None else line.head + shift)
        for line in lines.values()
    ]


def without_gaps(parts: Sequence[Page]) -> Iterator[tuple[int, bytes]]:
    """Offsets and bytes; a gap in a long line is filled."""
    at = parts[0].offset
    for part in parts:
        while at < part.offset:
            yield at, FILLER[: part.offset - at]
            at += len(FILLER[: part.offset - at])
        yield at, part.data
        at += len(part.data)


def check(search: HostSearch) -> None:
    """Raises UsageError for what is no regular expression."""
    try:
        re.compile(re.escape(search.pattern) if search.literal else search.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"`{search.pattern}` is no regular expression", cause=str(error)) from error


def after_part(found: HostMatches, part: Matches) -> HostMatches:
    """What was found, with a part more."""
    cut = f"{part.cut_lines} very long lines were searched in part" if part.cut_lines else None
    return HostMatches(
        matches=(*found.matches, *map(host_match, part.matches)),
        searched=part.searched,
        size=part.size,
        done=not part.more,
        complete=part.complete,
        note=part.note or cut,
    )


def unfinished(found: HostMatches, part: Answer) -> HostMatches:
    """What was found until the search could not go on."""
    why = part.error if isinstance(part, Reply) else None
    return HostMatches(
        matches=found.matches, searched=found.searched, size=found.size, done=True, note=why or "not searched"
    )


def host_match(match: Match) -> HostMatch:
    """A match as a value that is safe to show; marks stand where its line goes on."""
    text = printable(match.text)
    line_class = "plain" if match.left_out else classify(text)
    shown = f"{'… ' if match.left_out else ''}{text}{' …' if len(match.text) == EXCERPT else ''}"
    return HostMatch(offset=match.offset, size=match.size, text=shown, line_class=line_class)
