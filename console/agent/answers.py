"""Answers that take more than one turn of the loop: pages of a log that was not followed, and searches.

Each gives one part whenever the connection has taken the last, in turn with the followed logs.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator, NamedTuple

from . import logpages
from .frames import FrameWriter
from .logpages import Part
from .logsearch import LogSearch, bounded

MOST_AT_ONCE = 8
GONE = "the log file is no longer there"

Order = Dict[str, Any]


class Answer(NamedTuple):
    """An answer under way."""

    parts: Iterator[Part | None]
    """None stands for: not yet."""
    close: Callable[[], None]
    readable: int | None = None
    """A descriptor that tells when there is a part; without one it is always worth asking."""


class Answers:
    """Carries out the orders `read`, `search` and `cancel`; `open_log` opens the file that an order names."""

    def __init__(self, writer: FrameWriter, open_log: Callable[[Order], int]) -> None:
        self._writer = writer
        self._open_log = open_log
        self._under_way: dict[int, Answer] = {}

    @property
    def due(self) -> bool:
        """Whether `pump` has something to do at once."""
        return any(answer.readable is None for answer in self._under_way.values())

    def readable(self) -> list[int]:
        """Descriptors that tell when `pump` has something to do."""
        return [answer.readable for answer in self._under_way.values() if answer.readable is not None]

    def read(self, order: Order) -> None:
        """Begin to answer with the lines before an offset, or with bytes from an offset on."""
        self._begin(order, page if "before" in order else span)

    def search(self, order: Order) -> None:
        """Begin to answer with the lines that match a pattern."""
        self._begin(order, search)

    def cancel(self, order: Order) -> None:
        """Leave an answer unfinished."""
        self._end(int(order["id"]))

    def close(self) -> None:
        """Leave everything unfinished."""
        for number in list(self._under_way):
            self._end(number)

    def pump(self) -> None:
        """One part of each answer. Wants a writer that was idle when this turn began."""
        for number, answer in list(self._under_way.items()):
            try:
                part = next(answer.parts)
            except OSError as error:
                self._fail(number, error)
                continue
            if part is not None:
                header, body = part
                self._writer.put(dict(header, id=number), body)
                if not header["more"]:
                    self._end(number)

    def _begin(self, order: Order, start: Callable[[int, Order], Answer]) -> None:
        number = int(order["id"])
        try:
            if len(self._under_way) >= MOST_AT_ONCE:
                raise OSError("too many questions at once")
            self._under_way[number] = start(self._open_log(order), order)
        except OSError as error:
            self._fail(number, error)

    def _fail(self, number: int, error: OSError) -> None:
        said = GONE if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        self._writer.put({"kind": "reply", "id": number, "error": said, "more": False})
        self._end(number)

    def _end(self, number: int) -> None:
        answer = self._under_way.pop(number, None)
        if answer is not None:
            answer.close()


def page(fd: int, order: Order) -> Answer:
    """The lines before an offset."""
    limit = max(2 * logpages.PART, min(logpages.PAGE_LIMIT, int(order.get("limit", logpages.PAGE_LIMIT))))
    return Answer(logpages.page_before(fd, int(order["before"]), limit), lambda: os.close(fd))


def span(fd: int, order: Order) -> Answer:
    """So many bytes from an offset on."""
    begin = int(order["offset"])
    return Answer(logpages.span(fd, begin, begin + int(order["size"])), lambda: os.close(fd))


def search(fd: int, order: Order) -> Answer:
    """The lines that match a pattern."""
    found = LogSearch(fd, bounded(order))
    return Answer(found.parts(), found.close, found.fd)
