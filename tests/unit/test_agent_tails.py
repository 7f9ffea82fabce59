"""Following a log file by its name, whatever happens to it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_log_follower import Follower, append, numbered, rotate
from hypothesis import given
from hypothesis import strategies as st

from console.agent import logfiles, logreader
from console.agent.tails import Tail


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
    calls: list[str] = []

    def noted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            calls.append(name)
            return original(*given)

        return call

    for name in ("stat", "fstat", "pread", "open", "listdir", "lseek"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    follower.step()
    assert calls == ["stat"]
