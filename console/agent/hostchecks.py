"""What of the host itself a launch depends on: paths, disks, shared memory."""

from __future__ import annotations

import os
from typing import Iterable

MIB = 1 << 20


def kind_of(path: str) -> str:
    """`folder` or `file` when it may be read, else `missing` or `denied`."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "denied"
    if os.path.isdir(path):
        return "folder" if os.access(path, os.R_OK | os.X_OK) else "denied"
    return "file" if os.access(path, os.R_OK) else "denied"


def free_mib(path: str) -> float | None:
    """Space for this user on the file system of a path, or of the nearest folder above it that exists."""
    path = os.path.abspath(path)
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize / MIB


def disks(paths: Iterable[str]) -> dict[str, float]:
    """Free MiB by path, of those that can be read."""
    found = {path: free_mib(path) for path in paths}
    return {path: free for path, free in found.items() if free is not None}
