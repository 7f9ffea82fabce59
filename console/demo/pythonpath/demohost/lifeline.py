"""No simulated process outlives the demo, however either of them ends.

The demo holds a lock on one file for as long as it lives, and the kernel drops it whatever ends the demo, so
waiting for the lock is waiting for that. It costs nothing, needs no pid that could be used again, and works
also for servers that were launched later by someone else, in a session of their own.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path


class NoDemoHostError(Exception):
    """This process does not run on a demo host."""


def folder() -> Path:
    """The host's folder. Raises NoDemoHostError."""
    named = os.environ.get("DSV4_DEMO_FOLDER")
    if not named or not Path(named, "alive").exists():
        raise NoDemoHostError("this program is a simulation: it runs on the console's demo host only")
    return Path(named)


def end_with_the_demo(host_folder: Path, last: Callable[[], None] = lambda: None) -> None:
    """End this process, at once and whatever it is doing, when the demo is gone; `last` is called before."""
    alive = open(host_folder / "alive", "rb")  # noqa: SIM115 - the thread has it until the end

    def watch() -> None:
        fcntl.flock(alive, fcntl.LOCK_SH)
        last()
        _remove(host_folder)
        os._exit(0)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _remove(host_folder: Path) -> None:
    """A demo that was killed could not remove its folder. Others may be doing the same."""
    from shutil import rmtree  # 5 ms that the start is spared

    rmtree(host_folder, ignore_errors=True)
