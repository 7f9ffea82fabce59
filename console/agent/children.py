"""Short-lived programs of the host's, each with a limit, for threads that can wait."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from typing import Mapping, NamedTuple, Sequence

from . import tether


class Ended(NamedTuple):
    """How a child ended, and what it said."""

    code: int
    out: str
    err: str


class TookTooLong(Exception):
    """A child was killed at its limit."""


class Children:
    """The children that run now. `end` may be called from another thread, and lets none start after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._over = False

    def run(
        self,
        argv: Sequence[str],
        limit_s: float,
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Ended:
        """Run a program to its end, with no terminal and in no folder of anybody's.

        Raises OSError when it cannot be started, TookTooLong when it does not end.
        """
        child = self._start(argv, environment)
        try:
            out, err = child.communicate(stdin, timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise TookTooLong from error
        finally:
            self._bury(child)
        return Ended(child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def end(self) -> None:
        """Kill them all."""
        with self._lock:
            self._over = True
            for child in self._running:
                kill(child)

    def _start(self, argv: Sequence[str], environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._over:
                raise OSError("nobody waits for it any more")
            child = tether.start(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
            self._running.add(child)
            return child

    def _bury(self, child: subprocess.Popen[bytes]) -> None:
        """See that it has ended. One that cannot be killed, as it hangs in the kernel, is not waited for."""
        with self._lock:
            self._running.discard(child)
        kill(child)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=1.0)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a child, unless it became root's, as sudo does."""
    with contextlib.suppress(PermissionError):
        child.kill()
