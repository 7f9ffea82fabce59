"""The terminal of these tests is one, however they were started themselves."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.integration.raw_terminal import RawTerminal


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """As in a script's background, where SIGINT is ignored by every child."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_the_background")
def test_ctrl_c_ends_a_program_though_these_tests_ignore_it() -> None:
    program: list[str] = ["/bin/sh", "-c", "echo up; exec sleep 60"]
    with RawTerminal([*program], columns=80, rows=24, environment={}) as terminal:
        terminal.shows("up")
        terminal.interrupt()
        assert terminal.exit_code() == -signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
