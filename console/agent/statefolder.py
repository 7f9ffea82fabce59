"""The folder in which the agent keeps what outlives it (its layout: see the package's docstring)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from typing import Any, Mapping, NamedTuple

PLACE = "DSV4_AGENT_STATE"


class Unreadable(ValueError):
    """A file of the state folder does not hold what it should."""


class Mark(NamedTuple):
    """By which a change of a file or folder is noticed."""

    inode: int
    mtime_ns: int
    size: int


def location(environment: Mapping[str, str]) -> str:
    """Where the state folder is, whether it exists or not."""
    if environment.get(PLACE):
        return os.path.abspath(os.path.expanduser(environment[PLACE]))
    state = environment.get("XDG_STATE_HOME", "")
    # A relative path there is to be ignored, says the XDG base directory specification.
    folder = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    return os.path.join(folder, "dsv4-console")


class StateFolder:
    """Reads and writes below `path`. Nothing is made before something is written."""

    def __init__(self, path: str) -> None:
        self.path = path

    def at(self, *names: str) -> str:
        """The path of something in it."""
        return os.path.join(self.path, *names)

    def problem(self) -> str | None:
        """Why the folder cannot be used; one that is not there yet can."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{self.path} cannot be used: {error.strerror}"
        if not stat.S_ISDIR(found.st_mode):
            return f"{self.path} cannot be used: it is no folder"
        usable = os.access(self.path, os.R_OK | os.W_OK | os.X_OK)
        return None if usable else f"{self.path} may not be read and written"

    def make(self, *names: str) -> str:
        """See that a folder is there, mode 0700 where it is made; its path. Raises OSError."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        path = self.path
        for name in names:
            path = os.path.join(path, name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        return path

    def mark(self, *names: str) -> Mark | None:
        """By which to see a change; None while there is no such thing."""
        try:
            found = os.stat(self.at(*names))
        except OSError:
            return None
        return Mark(found.st_ino, found.st_mtime_ns, found.st_size)

    def newest_first(self, *names: str) -> list[str]:
        """The names in a folder, by when each was changed last; none where it cannot be listed."""
        try:
            with os.scandir(self.at(*names)) as entries:
                changed = {entry.name: entry.stat(follow_symlinks=False).st_mtime_ns for entry in entries}
        except OSError:
            return []
        return sorted(changed, key=lambda name: changed[name], reverse=True)

    def read(self, *names: str) -> dict[str, Any] | None:
        """The JSON object in a file; None when there is no such file. Raises Unreadable."""
        path = self.at(*names)
        try:
            with open(path, "rb") as source:
                content = json.loads(source.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise Unreadable(f"{path} is damaged: it holds no JSON") from error
        if not isinstance(content, dict):
            raise Unreadable(f"{path} is damaged: it holds no JSON object")
        return content

    def write(self, content: object, *names: str) -> None:
        """Put JSON into a file, mode 0600, all of it or nothing. Raises OSError.

        Not synced to the disk: what that would guard against ends all runs too.
        """
        folder = self.make(*names[:-1])
        beside = os.path.join(folder, f".{names[-1]}.{os.getpid()}")
        try:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(fd, "w", encoding="utf-8") as target:
                json.dump(content, target)
            os.replace(beside, self.at(*names))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise

    def remove(self, *names: str) -> None:
        """Remove a file, if it is there. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.at(*names))

    def remove_folder(self, *names: str) -> None:
        """Remove a folder with all that is in it, as far as it may be removed."""
        shutil.rmtree(self.at(*names), ignore_errors=True)
