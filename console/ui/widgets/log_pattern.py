"""What a person typed to look for, as a regular expression that cannot hang the console."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

_ESCAPED = re.compile(r"\\.|\(\?P[<=]\w*[>)]", re.DOTALL)


class BadPattern(ValueError):
    """No regular expression; its text is a sentence for the person who typed it."""


class TooSlow(Exception):
    """Matching took longer than it may."""


class Pattern(NamedTuple):
    """A regular expression of Python's `re`, as typed and compiled."""

    typed: str
    regex: re.Pattern[str]

    @classmethod
    def of(cls, typed: str) -> Pattern:
        """Without a capital letter in it the case of letters does not matter, as in less -i and ripgrep -S.

        Raises BadPattern.
        """
        exact = any(char.isupper() for char in _ESCAPED.sub("", typed))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return cls(typed, re.compile(typed, re.NOFLAG if exact else re.IGNORECASE))
        except re.error as error:
            where = "" if error.pos is None else f", column {error.pos + 1}"
            raise BadPattern(f"no regex: {error.msg}{where}") from error
        except (OverflowError, RecursionError) as error:
            raise BadPattern("no regex: too large") from error


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Ends what runs inside after so many seconds of CPU, be it in the midst of a match. Raises TooSlow.

    `(a+)+$` can take years on a line, and nothing else runs meanwhile; but `re` looks for signals now and
    then. Only the main thread gets them, and there the console runs.
    """
    armed = True

    def ring(number: int, frame: FrameType | None) -> None:
        if armed:
            raise TooSlow

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
