"""Following log files: every byte once and in order, whatever happens to the file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from console.agent import logfiles, logreader
from console.agent.tails import Event, Tail


class Follower:
    """A tail driven as the agent's loop does it: poll, tell, then read until there is no more."""

    def __init__(self, path: Path, *, lines: int = 2000, resume: tuple[int, int, int] | None = None) -> None:
        self.tail = Tail("t1", str(path), lines=lines, resume=resume)
        self.data = b""
        self.events: list[Event] = []
        self.at = (0, 0, 0)

    def step(self, limit: int = 65536) -> list[str]:
        """One round; the events of it, by name."""
        names = self.poll()
        while self.take(limit):
            pass
        return names

    def poll(self) -> list[str]:
        """Ask for events; their names."""
        events = self.tail.poll()
        self.events += events
        for event in events:
            if event["event"] in ("opened", "rotated", "truncated"):
                self.at = (event["dev"], event["inode"], event["offset"])
        return [event["event"] for event in events]

    def take(self, limit: int) -> bool:
        """Take one chunk; False when there is none."""
        chunk = self.tail.read(limit)
        if chunk is None:
            return False
        header, data = chunk
        assert 0 < len(data) <= limit
        assert (header["kind"], header["tail"]) == ("log", "t1")
        self.data += data
        self.at = (header["dev"], header["inode"], header["offset"] + len(data))
        return True

    def settle(self) -> list[str]:
        """Rounds until nothing happens any more; all their events."""
        seen: list[str] = []
        quiet = 0
        while quiet < 2:
            size = len(self.data)
            names = self.step()
            seen += names
            quiet = 0 if names or len(self.data) > size else quiet + 1
        return seen


def numbered(first: int, last: int) -> bytes:
    """Lines with the numbers first..last-1."""
    return b"".join(b"line %d\n" % number for number in range(first, last))


def append(path: Path, data: bytes) -> None:
    """Write at the end, as a logger does."""
    with path.open("ab") as log:
        log.write(data)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with ten lines."""
    path = tmp_path / "server.log"
    path.write_bytes(numbered(0, 10))
    return path


def test_begins_with_the_last_lines_and_says_where(log: Path) -> None:
    follower = Follower(log, lines=3)
    assert follower.step() == ["opened"]
    assert follower.data == numbered(7, 10)
    opened = follower.events[0]
    assert opened["offset"] == len(numbered(0, 7))
    assert (opened["kind"], opened["tail"], opened["path"]) == ("tail", "t1", str(log))
    assert (opened["dev"], opened["inode"]) == (log.stat().st_dev, log.stat().st_ino)


@pytest.mark.parametrize(
    ("content", "lines", "start"),
    [
        (b"", 5, 0),
        (b"a\nb\nc\n", 2, 2),
        (b"a\nb\nc", 2, 2),
        (b"a\nb\nc\n", 3, 0),
        (b"a\nb\nc\n", 99, 0),
        (b"a\nb\n\n\n", 2, 4),
        (b"\n", 1, 0),
        (b"a\nb\n", 0, 4),
        (b"no line end at all", 1, 0),
    ],
)
def test_start_of_the_last_lines(tmp_path: Path, content: bytes, lines: int, start: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    follower = Follower(path, lines=lines)
    follower.step()
    assert follower.events[0]["offset"] == start
    assert follower.data == content[start:]


@given(content=st.binary(max_size=300), lines=st.integers(0, 12), block=st.integers(1, 64))
def test_start_of_the_last_lines_is_what_splitting_says(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, lines: int, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "split.log"
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logfiles, "BLOCK", block)
        start = logfiles.start_of_last_lines(fd, len(content), lines)
    os.close(fd)
    every_line = re.findall(rb"[^\n]*\n|[^\n]+\Z", content)
    assert content[start:] == b"".join(every_line[max(0, len(every_line) - lines) :])


def test_a_log_of_few_long_lines_is_not_searched_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfiles, "SCAN_LIMIT", 1000)
    path = tmp_path / "long.log"
    path.write_bytes(b"x" * 5000 + b"\n" + b"y" * 600 + b"\n")
    follower = Follower(path)
    follower.step()
    assert follower.data == b"y" * 600 + b"\n"
    path.write_bytes(b"z" * 5000)
    inside = Follower(path)
    inside.step()
    assert inside.data == b"z" * 1000


def test_what_is_appended_arrives_once_even_half_lines_and_any_bytes(log: Path) -> None:
    follower = Follower(log)
    follower.step()
    every_byte = bytes(range(256)) * 3
    append(log, every_byte)
    follower.step(limit=7)
    append(log, b"no line end")
    follower.step()
    append(log, b" yet\n")
    assert follower.settle() == []
    assert follower.data == numbered(0, 10) + every_byte + b"no line end yet\n"


def test_every_header_says_where_its_bytes_were_found(log: Path) -> None:
    tail = Tail("x", str(log), lines=5)
    tail.poll()
    content = log.read_bytes()
    offsets = []
    while (chunk := tail.read(4)) is not None:
        header, data = chunk
        assert content[header["offset"] : header["offset"] + len(data)] == data
        offsets.append(header["offset"])
    assert offsets == list(range(len(numbered(0, 5)), len(content), 4))
    tail.close()


def test_rename_the_old_file_is_read_to_its_end_first(log: Path) -> None:
    follower = Follower(log)
    follower.step()
    append(log, numbered(10, 15))
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(numbered(15, 20))
    assert follower.settle() == ["rotated"]
    assert follower.data == numbered(0, 20)
    rotated = follower.events[-1]
    assert (rotated["inode"], rotated["offset"]) == (log.stat().st_ino, 0)


def test_rename_a_writer_that_keeps_its_descriptor_is_still_followed(log: Path) -> None:
    """logrotate without copytruncate: the server's stdout stays with the old file for ever."""
    follower = Follower(log)
    follower.step()
    with log.open("ab", buffering=0) as stdout:
        log.rename(log.with_name("server.log.1"))
        log.touch()
        follower.settle()
        stdout.write(numbered(10, 15))
        assert follower.settle() == []
    assert follower.data == numbered(0, 15)


def test_several_rotations_between_two_looks_lose_no_file(log: Path) -> None:
    follower = Follower(log)
    follower.step()
    for first in (10, 20, 30):
        rotate(log)
        log.write_bytes(numbered(first, first + 10))
    assert follower.settle() == ["rotated"] * 3
    assert follower.data == numbered(0, 40)


def rotate(log: Path) -> None:
    """Shift server.log to .1, .1 to .2 and so on, the oldest first, as logrotate does."""
    number = 1
    while log.with_name(f"{log.name}.{number}").exists():
        number += 1
    for older in range(number, 1, -1):
        log.with_name(f"{log.name}.{older - 1}").rename(log.with_name(f"{log.name}.{older}"))
    log.rename(log.with_name(f"{log.name}.1"))


def test_copytruncate_at_a_quiet_moment(log: Path) -> None:
    follower = Follower(log)
    follower.step()
    log.with_name("server.log.1").write_bytes(log.read_bytes())
    os.truncate(log, 0)
    append(log, numbered(10, 12))
    assert follower.settle() == ["truncated"]
    assert follower.data == numbered(0, 12)
    assert follower.events[-1]["offset"] == 0


def test_truncated_and_grown_past_the_old_offset(log: Path) -> None:
    follower = Follower(log)
    follower.step()
    os.truncate(log, 0)
    append(log, numbered(100, 200))
    assert follower.settle() == ["truncated"]
    assert follower.data == numbered(0, 10) + numbered(100, 200)


def test_written_anew_at_the_same_length(log: Path) -> None:
    follower = Follower(log)
    follower.step()
    anew = log.read_bytes().replace(b"line", b"LINE")
    log.write_bytes(anew)
    os.utime(log, ns=(1, 1))
    assert follower.settle() == ["truncated"]
    assert follower.data == numbered(0, 10) + anew


def test_truncation_between_poll_and_read_is_told_before_the_new_bytes(log: Path) -> None:
    tail = Tail("t", str(log))
    tail.poll()
    tail.read()
    append(log, numbered(10, 11))
    tail.poll()
    log.write_bytes(numbered(50, 90))
    assert tail.read() is None
    assert tail.read() is None
    assert [event["event"] for event in tail.poll()] == ["truncated"]
    chunk = tail.read()
    assert chunk is not None
    assert chunk[1] == numbered(50, 90)
    tail.close()


def test_a_writer_that_does_not_append_leaves_no_flood_of_nuls_after_a_truncation(tmp_path: Path) -> None:
    """`server > log` and copytruncate: the next write lands at the old offset, behind a hole."""
    log = tmp_path / "server.log"
    with log.open("wb", buffering=0) as stdout:
        stdout.write(b"x" * 1_000_000 + b"\n")
        follower = Follower(log)
        follower.step()
        os.truncate(log, 0)
        stdout.write(b"after\n")
    follower.data = b""
    assert follower.settle() == ["truncated"]
    assert follower.data.lstrip(b"\0") == b"after\n"
    assert len(follower.data) < 10_000


def test_deleted_and_made_anew(log: Path) -> None:
    follower = Follower(log)
    follower.step()
    with log.open("ab", buffering=0) as stdout:
        log.unlink()
        assert follower.settle() == ["missing"]
        stdout.write(numbered(10, 12))
    log.write_bytes(numbered(12, 14))
    assert follower.settle() == ["rotated"]
    assert follower.data == numbered(0, 14)


def test_a_file_that_is_missing_at_first_is_read_from_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "run" / "server.log"
    follower = Follower(path, lines=1)
    assert follower.settle() == ["missing"]
    assert follower.events[0]["inode"] is None
    path.parent.mkdir()
    path.write_bytes(numbered(0, 10))
    assert follower.settle() == ["opened"]
    assert follower.data == numbered(0, 10)


def test_what_is_no_regular_file_is_denied_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    follower = Follower(tmp_path / "pipe")
    assert follower.settle() == ["denied"]
    assert follower.events[0]["detail"] == "not a regular file"
    assert Follower(tmp_path).settle() == ["denied"]


def test_a_denied_file_is_opened_once_it_may_be(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as refused:
        refused.setattr(logfiles, "open_log", deny)
        follower = Follower(log, lines=2)
        assert follower.settle() == ["denied"]
    assert follower.settle() == ["opened"]
    assert follower.data == numbered(8, 10)


def deny(path: str) -> int:
    """What the kernel answers to somebody without the right; the tests may run as root, who has it."""
    raise PermissionError(13, "Permission denied", path)


def test_a_read_error_is_told_and_reading_goes_on_where_it_stopped(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(log)
    follower.step()
    append(log, numbered(10, 12))
    with monkeypatch.context() as broken:
        broken.setattr(logreader.LogReader, "read", stale)
        follower.step()
    assert follower.settle() == ["denied", "opened"]
    assert follower.data == numbered(0, 12)


def stale(reader: logreader.LogReader, limit: int) -> bytes:
    """What NFS answers when the server has forgotten the file."""
    raise OSError(116, "Stale file handle")


class TestResume:
    """A new tail goes on where one before it stopped."""

    @pytest.fixture
    def before(self, log: Path) -> Follower:
        follower = Follower(log)
        follower.step()
        follower.tail.close()
        return follower

    def go_on(self, log: Path, before: Follower) -> Follower:
        follower = Follower(log, resume=before.at)
        follower.data = before.data
        return follower

    def test_in_the_same_file(self, log: Path, before: Follower) -> None:
        append(log, numbered(10, 20))
        after = self.go_on(log, before)
        assert after.settle() == ["opened"]
        assert after.events[0]["offset"] == before.at[2]
        assert after.data == numbered(0, 20)

    def test_in_a_file_that_was_rotated_while_away(self, log: Path, before: Follower) -> None:
        append(log, numbered(10, 20))
        for first in (20, 30):
            rotate(log)
            log.write_bytes(numbered(first, first + 10))
        after = self.go_on(log, before)
        assert after.settle() == ["opened", "rotated", "rotated"]
        assert "server.log.2" in after.events[0]["detail"]
        assert after.data == numbered(0, 40)

    def test_in_a_file_that_was_dated_while_away(self, log: Path, before: Follower) -> None:
        append(log, numbered(10, 20))
        log.rename(log.with_name("server.log-20261101"))
        log.write_bytes(numbered(20, 30))
        after = self.go_on(log, before)
        assert after.settle() == ["opened", "rotated"]
        assert after.data == numbered(0, 30)

    def test_in_a_file_that_was_cut_while_away(self, log: Path, before: Follower) -> None:
        os.truncate(log, 0)
        append(log, numbered(10, 12))
        after = self.go_on(log, before)
        assert after.settle() == ["opened", "truncated"]
        assert after.data == numbered(0, 12)

    def test_the_file_is_gone(self, log: Path, before: Follower) -> None:
        held = os.open(log, os.O_RDONLY)
        log.unlink()
        log.write_bytes(numbered(50, 60))
        after = self.go_on(log, before)
        assert after.settle() == ["gone", "opened"]
        gone = after.events[0]
        assert (gone["dev"], gone["inode"], gone["offset"]) == before.at
        assert after.data == numbered(0, 10) + numbered(50, 60)
        os.close(held)

    def test_the_file_is_gone_and_there_is_no_other(self, log: Path, before: Follower) -> None:
        log.unlink()
        after = self.go_on(log, before)
        assert after.settle() == ["gone", "missing"]
        log.write_bytes(numbered(10, 12))
        assert after.settle() == ["opened"]
        assert after.data == numbered(0, 12)


def test_a_deleted_log_is_followed_through_its_writers_descriptor(log: Path) -> None:
    with log.open("ab", buffering=0) as stdout:
        log.unlink()
        follower = Follower(Path(f"/proc/{os.getpid()}/fd/{stdout.fileno()}"))
        assert follower.settle() == ["opened"]
        stdout.write(numbered(10, 12))
        assert follower.settle() == []
    assert follower.data == numbered(0, 12)


def test_a_quiet_file_costs_one_stat(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(log)
    follower.settle()
    calls = []
    for name in ("stat", "fstat", "pread", "open", "listdir", "lseek"):
        original = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *given, name=name, original=original: (calls.append(name), original(*given))[1]
        )
    follower.step()
    assert calls == ["stat"]


WRITER = """
import os, sys
path, how, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
log = open(path, "ab", buffering=0)
for number in range(count):
    if number and number % 97 == 0 and how != "append":
        log.close()
        if how == "delete":
            os.unlink(path)
        else:
            last = 1
            while os.path.exists("%s.%d" % (path, last)):
                last += 1
            for older in range(last, 1, -1):
                os.rename("%s.%d" % (path, older - 1), "%s.%d" % (path, older))
            os.rename(path, path + ".1")
        log = open(path, "ab", buffering=0)
    log.write(b"line %d\\n" % number)
    if how == "delete" and number % 97 == 0:
        os.write(1, b".")
        sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["append", "rename", "delete"])
def test_a_writer_at_work_in_another_process(tmp_path: Path, how: str) -> None:
    """Numbered lines arrive each once and in order. In a file made anew the writer waits until it was
    seen: one that is made and deleted between two looks cannot be known."""
    log = tmp_path / "server.log"
    log.touch()
    follower = Follower(log)
    follower.step()
    count = 6000
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(log), how, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    os.set_blocking(writer.stdout.fileno(), False)
    deadline = time.monotonic() + 30
    while not follower.data.endswith(b"line %d\n" % (count - 1)) and time.monotonic() < deadline:
        follower.step(limit=1000)
        if writer.stdout.read():
            follower.settle()
            writer.stdin.write(b"\n")
            writer.stdin.flush()
    writer.stdin.close()
    writer.stdout.close()
    assert writer.wait(timeout=30) == 0
    assert follower.data == numbered(0, count)


class TailModel(RuleBasedStateMachine):
    """Random histories of a log. As long as nothing is destroyed unread, what is read is what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "server.log"
        self.log.touch()
        self.follower = Follower(self.log)
        self.follower.step()
        self.written = b""
        self.number = 0

    @rule(data=st.binary(min_size=1, max_size=200))
    def append(self, data: bytes) -> None:
        """The writer writes."""
        append(self.log, data)
        self.written += data

    @rule(lines=st.integers(1, 30))
    def append_lines(self, lines: int) -> None:
        """The writer writes lines that never repeat."""
        data = numbered(self.number, self.number + lines)
        self.number += lines
        append(self.log, data)
        self.written += data

    @rule()
    def rotate(self) -> None:
        """The writer or logrotate renames and begins anew."""
        rotate(self.log)
        self.log.touch()

    @rule(limit=st.integers(1, 300))
    def read(self, limit: int) -> None:
        """The loop comes round once."""
        self.follower.step(limit)

    @rule(limit=st.integers(1, 300))
    def read_one_chunk(self, limit: int) -> None:
        """The connection takes one chunk and no more."""
        self.follower.poll()
        self.follower.take(limit)

    @rule()
    def reconnect(self) -> None:
        """The connection breaks and a new tail goes on."""
        before = self.follower
        before.tail.close()
        self.follower = Follower(self.log, resume=before.at)
        self.follower.data, self.follower.at = before.data, before.at

    @precondition(lambda self: self.follower.data == self.written)
    @rule()
    def truncate(self) -> None:
        """logrotate with copytruncate, when all has been read and before the writer goes on."""
        os.truncate(self.log, 0)
        self.follower.poll()

    @invariant()
    def nothing_is_read_twice_or_out_of_order(self) -> None:
        assert self.written.startswith(self.follower.data)

    def teardown(self) -> None:
        """In the end everything has arrived."""
        self.follower.settle()
        self.follower.tail.close()
        self.folder.cleanup()
        assert self.follower.data == self.written


TestTailModel = TailModel.TestCase
TestTailModel.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
