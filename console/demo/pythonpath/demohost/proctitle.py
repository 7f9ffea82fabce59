"""Renaming a process and its children, as setproctitle does in SGLang.

Unlike setproctitle this leaves the environment alone: by /proc/PID/environ the demo's processes are told from
those of a real server on the same machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_ARG_START, _ARG_END = 45, 46
"""Of /proc/PID/stat, counted from the state: fields 48 and 49 of proc(5)."""


def rename(title: str) -> None:
    """Make `title` the name and the command line of this process; the rest of the old one becomes zeros."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, title.encode(), 0, 0, 0)
    stat = Path("/proc/self/stat").read_text()
    fields = stat[stat.rindex(")") + 2 :].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, title.encode(), min(len(title.encode()), end - start - 1))


def spawn(title: str) -> int:
    """Start a child that has a name and does nothing; it dies with this process. Returns its pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, signal.SIG_IGN)
    rename(title)
    while True:
        signal.pause()
