"""Which Python a server runs under and which SGLang is installed there, by looking at files alone."""

from __future__ import annotations

import glob
import os
import re
from typing import Iterator, Sequence

from . import procfs
from .cmdlines import PYTHON

ROUTER_LIBRARY = re.compile(rb"(/\S*)/lib(?:64)?/python3[^/]*/(?:site|dist)-packages/sglang_router/\S*\.so")
"""The router's own library among a process's mapped files; the group is the environment's prefix."""


class Interpreter:
    """A Python as another process sees it; `root` leads to that process's file tree, "" where it is ours."""

    def __init__(self, path: str, root: str = "") -> None:
        self.path = path
        self.root = root

    @property
    def usable(self) -> str | None:
        """The path, unless it lies inside a container."""
        return None if self.root else procfs.legible(self.path)

    def version_of(self, package: str, environment: dict[str, str] | None = None) -> str | None:
        """Version of a package, from the name of its dist-info folder; PYTHONPATH goes first."""
        folders = (environment or {}).get("PYTHONPATH", "").split(":")
        folders = [glob.escape(self.root + folder) for folder in folders if folder]
        for prefix in self._prefixes():
            folders.append(glob.escape(self.root + prefix) + "/lib*/python3*/*-packages")
        versions = (dist_info_version(folder, package) for folder in folders)
        return next((version for version in versions if version is not None), None)

    def _prefixes(self) -> tuple[str, ...]:
        prefix = os.path.dirname(os.path.dirname(self.path))
        # Debian's Python lives in /usr and installs into /usr/local.
        return (prefix, "/usr/local") if prefix == "/usr" else (prefix,)


def dist_info_version(folders: str, package: str) -> str | None:
    """The version in the name of `package`'s dist-info folder, looked for in folders given as a pattern."""
    pattern = "{}-*.dist-info".format(package.replace("_", "[-_]"))
    found = sorted(glob.glob(os.path.join(folders, pattern)))
    return os.path.basename(found[-1])[len(package) + 1 : -len(".dist-info")] if found else None


def interpreter_of(
    proc: str, pid: int, argv: Sequence[str], environment: dict[str, str] | None
) -> Interpreter | None:
    """The Python of a server process; None when its file tree cannot be looked into."""
    root = file_tree(proc, pid)
    if root is None:
        return None
    for path in candidates(proc, pid, argv, environment or {}):
        if os.path.isfile(root + path):
            return Interpreter(os.path.normpath(path), root)
    return None


def file_tree(proc: str, pid: int) -> str | None:
    """Where a process's file tree is reachable: "" when it is our own, /proc/PID/root for a container's.

    None when the kernel does not say: the same path may then name another file.
    """
    theirs = procfs.link(f"{proc}/{pid}/ns/mnt")
    if theirs is None:
        return None
    return "" if theirs == procfs.link(proc + "/self/ns/mnt") else f"{proc}/{pid}/root"


def candidates(proc: str, pid: int, argv: Sequence[str], environment: dict[str, str]) -> Iterator[str]:
    """Absolute paths at which the process's Python may be, the most telling first.

    The executable comes last: in a virtual environment it is the Python that the environment was made from.
    """
    folder, _, name = (argv[0] if argv else "").rpartition("/")
    if PYTHON.fullmatch(name):
        here = procfs.link(f"{proc}/{pid}/cwd") or "/"
        places = [folder] if folder else environment.get("PATH", "").split(":")
        yield from (os.path.join(here, place, name) for place in places if place)
    if "VIRTUAL_ENV" in environment:
        yield os.path.join("/", environment["VIRTUAL_ENV"], "bin/python")
    library = ROUTER_LIBRARY.search(procfs.read_all(f"{proc}/{pid}/maps"))
    if library:
        yield os.fsdecode(library.group(1)) + "/bin/python"
    executable = procfs.link(f"{proc}/{pid}/exe") or ""
    if PYTHON.fullmatch(os.path.basename(executable)):
        yield executable
