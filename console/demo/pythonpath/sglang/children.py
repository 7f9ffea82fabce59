"""The server's child processes: a scheduler for each rank and a detokenizer, in name only.

Like the real ones they hold the GPUs (so says NVML), die with the server, and take it along when they die
first.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import NamedTuple

from demohost import proctitle


class Death(NamedTuple):
    """A child that died by itself."""

    name: str
    pid: int
    exit_code: int


class Children:
    """Started at once, ended together."""

    def __init__(self, tp_size: int) -> None:
        titles = ["scheduler"] if tp_size == 1 else [f"scheduler_TP{rank}" for rank in range(tp_size)]
        self.ranks = tuple(proctitle.spawn(f"sglang::{title}") for title in titles)
        self._names = {pid: f"scheduler_{rank}" for rank, pid in enumerate(self.ranks)}
        self._names[proctitle.spawn("sglang::detokenizer")] = "detokenizer"
        self._ending = False

    def dead(self) -> Death | None:
        """The first that died by itself; None when they are merely being ended."""
        with suppress(ChildProcessError):
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid and not self._ending:
                return Death(self._names[pid], pid, os.waitstatus_to_exitcode(status))
        return None

    def end(self) -> None:
        """Kill and reap all."""
        self._ending = True
        for pid in self._names:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
