"""The log of one server, followed: what a chunk and an event mean for the reader."""

from __future__ import annotations

from console.domain.logclass import LinePattern
from console.domain.server import LogPlace
from console.remote.frames import LogBytes, TailEvent
from console.services.logs import LogFollower

PLACE = LogPlace(kind="file", path="/var/log/x.log")
UNWELL = b"[2026-11-02 10:15:40] Health check failed. Server couldn't get a response.\n"
ALIVE = b"[2026-11-02 10:15:50 TP0] Decode batch, #running-req: 3\n"
LONG = b"x" * 9000 + b"\n"


def follower(*patterns: LinePattern) -> LogFollower:
    follower = LogFollower((7, 70), PLACE, patterns=patterns)
    follower.told(TailEvent(tail=follower.tail, event="opened", dev=1, inode=2, offset=0))
    return follower


def chunk(data: bytes, offset: int) -> LogBytes:
    return LogBytes(tail="7.70", dev=1, inode=2, offset=offset, data=data)


def test_lines_that_mean_something_else_now_are_told() -> None:
    log = follower()
    (given,) = log.take(chunk(UNWELL, 0)).lines
    update = log.take(chunk(ALIVE, len(UNWELL)))
    assert [line.number for line in update.lines] == [2]
    assert update.revised == (given._replace(line_class="warning"),)


def test_a_line_that_was_never_finished_is_one_when_the_file_is_replaced() -> None:
    log = follower()
    assert log.take(chunk(b"half a li", 0)).live is not None
    update = log.told(TailEvent(tail=log.tail, event="rotated", dev=1, inode=3, offset=0))
    assert [(line.number, line.text) for line in update.lines] == [(1, "half a li")]


def test_a_line_goes_on_while_the_disk_is_full() -> None:
    log = follower()
    log.take(chunk(b"half a ", 0))
    update = log.told(TailEvent(tail=log.tail, event="full", dev=1, inode=2, offset=7, detail="9 bytes left"))
    assert (update.lines, update.notes) == ((), (log.note,))
    assert log.note == "the disk that holds the log is full: lines may be lost (9 bytes left)"
    log.told(TailEvent(tail=log.tail, event="space", dev=1, inode=2, offset=7))
    assert log.note is None
    assert [line.text for line in log.take(chunk(b"line\n", 7)).lines] == ["half a line"]


def test_cut_lines_are_found_until_their_file_is_truncated() -> None:
    log = follower()
    log.take(chunk(b"short\n" + LONG, 500))
    log.told(TailEvent(tail=log.tail, event="rotated", dev=1, inode=3, offset=0))
    log.take(chunk(LONG, 0))
    cuts = {number: (cut.offset, cut.length) for number, cut in log.cuts.items()}
    assert cuts == {2: (506, 9000), 3: (0, 9000)}
    log.told(TailEvent(tail=log.tail, event="truncated", dev=1, inode=3, offset=0))
    assert log.cuts == {}


def test_patterns_of_the_user_count() -> None:
    (line,) = follower(LinePattern("error", "my marker")).take(chunk(b"my marker\n", 0)).lines
    assert line.line_class == "error"
