"""A question whose answer may take long, or never come: it is looked into by a thread of its own.

A path on a network disk whose server is away, or a process that holds the lock of its own memory, stops
whoever looks at it, and no signal helps.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Callable

from .children import Children

FAILED = "the agent could not look into it"


class Job:
    """`work` runs at once, with the children that it may use, and gives a value or raises OSError."""

    def __init__(self, work: Callable[[Children], Any]) -> None:
        self._work = work
        self._children = Children()
        self.value: Any = None
        self.error: str | None = FAILED
        """Why there is no value; None once there is one."""
        self.over = False
        self.fd, self._done = os.pipe()
        """Readable when it is over."""
        threading.Thread(target=self._run, name="job", daemon=True).start()

    def _run(self) -> None:
        try:
            self.value = self._work(self._children)
            self.error = None
        except OSError as error:
            self.error = error.strerror or str(error)
        finally:
            self.over = True
            os.close(self._done)

    def close(self) -> None:
        """Ask nothing more of it. A thread that hangs is left behind, and ends with the agent."""
        self._children.end()
        with contextlib.suppress(OSError):
            os.close(self.fd)
