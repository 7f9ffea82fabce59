"""A new tail goes on where one before it stopped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agent_log_follower import Follower, append, numbered, rotate


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with ten lines."""
    path = tmp_path / "server.log"
    path.write_bytes(numbered(0, 10))
    return path


@pytest.fixture
def before(log: Path) -> Follower:
    follower = Follower(log)
    follower.step()
    follower.tail.close()
    return follower


def go_on(log: Path, before: Follower, last: bytes = b"") -> Follower:
    follower = Follower(log, resume=before.at, last=last)
    follower.data = before.data
    return follower


def test_goes_on_in_the_same_file(log: Path, before: Follower) -> None:
    append(log, numbered(10, 20))
    after = go_on(log, before)
    assert after.settle() == ["opened"]
    assert after.events[0]["offset"] == before.at[2]
    assert after.data == numbered(0, 20)


def test_goes_on_in_a_file_that_was_rotated_while_away(log: Path, before: Follower) -> None:
    append(log, numbered(10, 20))
    for first in (20, 30):
        rotate(log)
        log.write_bytes(numbered(first, first + 10))
    after = go_on(log, before)
    assert after.settle() == ["opened", "rotated", "rotated"]
    assert "server.log.2" in after.events[0]["detail"]
    assert after.data == numbered(0, 40)


def test_goes_on_in_a_file_that_was_dated_while_away(log: Path, before: Follower) -> None:
    append(log, numbered(10, 20))
    log.rename(log.with_name("server.log-20261101"))
    log.write_bytes(numbered(20, 30))
    after = go_on(log, before)
    assert after.settle() == ["opened", "rotated"]
    assert after.data == numbered(0, 30)


def test_goes_on_in_a_file_that_was_cut_while_away(log: Path, before: Follower) -> None:
    os.truncate(log, 0)
    append(log, numbered(10, 12))
    after = go_on(log, before)
    assert after.settle() == ["opened", "truncated"]
    assert after.data == numbered(0, 12)


def test_the_file_is_gone(log: Path, before: Follower) -> None:
    held = os.open(log, os.O_RDONLY)
    log.unlink()
    log.write_bytes(numbered(50, 60))
    after = go_on(log, before)
    assert after.settle() == ["gone", "opened"]
    gone = after.events[0]
    assert (gone["dev"], gone["inode"], gone["offset"]) == before.at
    assert after.data == numbered(0, 10) + numbered(50, 60)
    os.close(held)


def test_the_file_is_gone_and_there_is_no_other(log: Path, before: Follower) -> None:
    log.unlink()
    after = go_on(log, before)
    assert after.settle() == ["gone", "missing"]
    log.write_bytes(numbered(10, 12))
    assert after.settle() == ["opened"]
    assert after.data == numbered(0, 12)


def test_goes_on_in_a_file_that_was_cut_and_grew_past_the_offset_while_away(
    log: Path, before: Follower
) -> None:
    os.truncate(log, 0)
    append(log, numbered(100, 200))
    after = go_on(log, before, last=before.last)
    assert after.settle() == ["opened", "truncated"]
    assert after.data == numbered(0, 10) + numbered(100, 200)


def test_a_file_that_was_written_anew_at_the_same_length_while_away_is_known_by_its_last_bytes(
    log: Path, before: Follower
) -> None:
    anew = log.read_bytes().replace(b"line", b"LINE")
    log.write_bytes(anew)
    after = go_on(log, before, last=before.last)
    assert after.settle() == ["opened", "truncated"]
    assert after.data == numbered(0, 10) + anew


def test_last_bytes_that_are_there_change_nothing(log: Path, before: Follower) -> None:
    append(log, numbered(10, 20))
    after = go_on(log, before, last=before.data[-7:])
    assert after.settle() == ["opened"]
    assert after.data == numbered(0, 20)
