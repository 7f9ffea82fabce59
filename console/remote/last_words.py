"""Why a program ended, as a clause for people: how it went, and what it said last on stderr."""

from __future__ import annotations

import signal

KEPT = 4096
"""Bytes of stderr kept: the last line is wanted, not a log."""

STILL_RUNS = "closed its output, but still runs"


class LastWords:
    """The end of a program's stderr."""

    def __init__(self) -> None:
        self._heard = b""

    def hear(self, data: bytes) -> None:
        """More of its stderr."""
        self._heard = (self._heard + data)[-KEPT:]

    def line(self) -> str:
        """Its last line that says something, without control characters; "" if there is none."""
        lines = (_printable(line) for line in reversed(self._heard.decode("utf-8", "replace").splitlines()))
        return next((line for line in lines if line), "")

    def after_status(self, status: int) -> str:
        """`exited with status 127: sh: 1: exec: python9: not found`."""
        return self._with_words(f"exited with status {status}")

    def after_signal(self, name: str) -> str:
        """`was ended by SIGKILL`; the name comes with or without its SIG."""
        return self._with_words(f"was ended by SIG{name.removeprefix('SIG')}")

    def after_returncode(self, code: int) -> str:
        """The same for a return code of subprocess, where a negative one is a signal's number."""
        return self.after_status(code) if code >= 0 else self.after_signal(signal.Signals(-code).name)

    def _with_words(self, clause: str) -> str:
        words = self.line()
        return f"{clause}: {words}" if words else clause


def _printable(line: str) -> str:
    return "".join(char for char in line if char.isprintable()).strip()
