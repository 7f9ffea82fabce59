"""The lock that lets one console at a time change the host: flock(2) on one file of the state folder.

It ends with the agent that holds it, however that ends; the text that a dead agent left is no lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any, Dict

from .statefolder import StateFolder

NAME = "lock"
TRIES = 4
TRY_AGAIN_S = 0.005
"""Who only looks whether the lock is held keeps it for some microseconds."""
LONGEST_TEXT = 4096

Holder = Dict[str, Any]
"""The fields of console.domain.run_record.LockHolder."""


class HostLock:
    """The lock of one state folder, as one agent sees it."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether this agent holds it."""
        return self._fd is not None

    def take(self, by: str, what: str) -> Holder | None:
        """Hold it from now on, or tell who does; None when it was got.

        Raises OSError where the state folder cannot be written or its file system has no locks.
        """
        mine = {"by": by, "what": what, "since": time.time(), "pid": os.getpid()}
        if self._fd is not None:
            write(self._fd, mine)
            return None
        self._state.make()
        fd = os.open(self._state.at(NAME), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not taken(fd):
                return holder_in(fd)
            write(fd, mine)
            self._fd = fd
        finally:
            if self._fd is None:
                os.close(fd)
        return None

    def release(self) -> None:
        """Let others have it, if it is held here."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def holder(self) -> Holder | None:
        """Who holds it now, here or elsewhere."""
        if self._fd is not None:
            return holder_in(self._fd)
        try:
            fd = os.open(self._state.at(NAME), os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return holder_in(fd)
        except OSError:
            # A file system without locks: nobody can hold one there.
            return None
        finally:
            os.close(fd)
        return None


def taken(fd: int) -> bool:
    """Whether the lock was got. Raises OSError where there are no locks."""
    for again in range(TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(TRY_AGAIN_S if again < TRIES - 1 else 0.0)
        except OSError as error:
            said = f"nothing can be locked on the file system of the state folder: {error.strerror}"
            raise OSError(error.errno, said) from error
        else:
            return True
    return False


def write(fd: int, holder: Holder) -> None:
    """Replace the text so that who reads meanwhile sees one whole first line, the old or the new."""
    text = json.dumps(holder).encode() + b"\n"
    os.pwrite(fd, text, 0)
    os.ftruncate(fd, len(text))


def holder_in(fd: int) -> Holder:
    """The text of a lock that is held; of one that does not say, only since when."""
    try:
        found = json.loads(os.pread(fd, LONGEST_TEXT, 0).partition(b"\n")[0])
        return {
            "by": str(found["by"]),
            "what": str(found["what"]),
            "since": float(found["since"]),
            "pid": int(found["pid"]),
        }
    except (ValueError, KeyError, TypeError):
        since = os.fstat(fd).st_mtime
        return {"by": "another console", "what": "a change that it does not tell", "since": since, "pid": 0}
