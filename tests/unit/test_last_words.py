"""Why a program ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.remote.last_words import KEPT, LastWords


def heard(*pieces: bytes) -> LastWords:
    words = LastWords()
    for piece in pieces:
        words.hear(piece)
    return words


def test_the_last_line_that_says_something() -> None:
    assert heard(b"bash: warning: setlocale\n", b"sh: 1: exec: pyt", b"hon9: not found\n\n  \n").after_status(
        127
    ) == ("exited with status 127: sh: 1: exec: python9: not found")


def test_silence() -> None:
    assert heard().after_status(0) == "exited with status 0"


def test_signals() -> None:
    assert heard().after_signal("KILL") == heard().after_signal("SIGKILL") == "was ended by SIGKILL"
    assert heard(b"oh").after_returncode(-11) == "was ended by SIGSEGV: oh"
    assert heard().after_returncode(2) == "exited with status 2"


@given(st.lists(st.binary()))
def test_nothing_hostile_and_never_too_much(pieces: list[bytes]) -> None:
    line = heard(*pieces).line()
    assert line.isprintable()
    assert len(line) <= KEPT
