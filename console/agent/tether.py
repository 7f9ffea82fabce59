"""Children that die with the process that started them, however it ends."""

from __future__ import annotations

import ctypes
import signal
import subprocess
from typing import Any, Sequence

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
"""Loaded here, because nothing may be loaded between fork and exec."""


def start(argv: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """subprocess.Popen for such a child. Raises OSError.

    The kernel ties it to the thread that starts it (prctl(2)), which has to live for as long as the child is
    wanted. sudo is root's and slips off.
    """
    return subprocess.Popen(argv, preexec_fn=tie, **how)  # noqa: PLW1509 # it calls one loaded C function


def tie() -> None:
    """In the child: be killed when the parent ends. Should that come too late, it meets a closed pipe."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
