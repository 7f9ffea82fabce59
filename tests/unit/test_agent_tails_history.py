"""Every byte once and in order: over random histories, and beside a writer at work."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from agent_log_follower import Follower, append, numbered, rotate
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

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
        self.follower = Follower(self.log, resume=before.at, last=before.last)
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
