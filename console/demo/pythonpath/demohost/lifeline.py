"""No simulated process outlives the demo, however either of them ends.

The demo holds a lock on one file for as long as it lives, and the kernel drops it whatever ends the demo, so
waiting for the lock is waiting for that. It costs nothing, needs no pid that could be used again, and works
also for servers that were launched later by someone else, in a session of their own.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from pathlib import Path
from typing import IO


def folder() -> Path:
    """The host's folder. Exits with 2 where there is no demo host: this is no real SGLang."""
    named = os.environ.get("DSV4_DEMO_FOLDER")
    if not named:
        print("DSV4_DEMO_FOLDER is not set: this program runs on the demo host only", file=sys.stderr)
        raise SystemExit(2)
    return Path(named)


def hold(host_folder: Path) -> IO[bytes]:
    """For the demo: alive until the returned file is closed or this process is gone."""
    alive = open(host_folder / "alive", "wb")  # noqa: SIM115 - the caller holds it for as long as it lives
    fcntl.flock(alive, fcntl.LOCK_EX)
    return alive


def end_with_the_demo(host_folder: Path) -> None:
    """For its processes: end this one, at once and whatever it is doing, when the demo is gone."""

    def watch() -> None:
        try:
            with open(host_folder / "alive", "rb") as alive:
                fcntl.flock(alive, fcntl.LOCK_SH)
        except FileNotFoundError:
            pass
        os._exit(0)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
