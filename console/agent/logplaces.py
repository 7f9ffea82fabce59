"""Where a server's output goes: what its stdout, else its stderr, points at."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Dict, Iterable

from . import procfs
from .installs import file_tree

Place = Dict[str, Any]
"""The fields of console.domain.server.LogPlace."""

STDOUT, STDERR = 1, 2
DELETED = " (deleted)"
TERMINAL = re.compile(r"/dev/(pts/|tty|console)")
KEPT_BY = {
    "containerd-shim": "the container's log has it: docker logs, crictl logs or kubectl logs",
    "conmon": "the container's log has it: podman logs",
}


def place(kind: str, path: str | None = None, detail: str | None = None) -> Place:
    """One LogPlace."""
    return {"kind": kind, "path": path, "detail": detail and procfs.legible(detail)}


def log_place(proc: str, pid: int, pids: Iterable[str]) -> Place:
    """Where the output of `pid` can be read. `pids` are searched for the reader of a pipe."""
    first = stream_place(proc, pid, STDOUT, pids)
    if first["kind"] in ("file", "deleted", "denied"):
        return first
    second = stream_place(proc, pid, STDERR, pids)
    if second["kind"] in ("file", "deleted"):
        return dict(second, detail="only its stderr is a file; " + (first["detail"] or "stdout is not"))
    return first


def stream_place(proc: str, pid: int, number: int, pids: Iterable[str]) -> Place:
    """Where one of the standard streams of `pid` points."""
    name = "stdout" if number == STDOUT else "stderr"
    fd = f"{proc}/{pid}/fd/{number}"
    try:
        target = os.readlink(fd)
    except PermissionError:
        owner = procfs.user(proc, pid) or "another user"
        return place("denied", detail=f"{name} of pid {pid} may not be seen: it runs as {owner}")
    except OSError:
        return place("unknown", detail=f"{name} of pid {pid} is closed")
    if target.startswith("pipe:"):
        return pipe_place(proc, pid, target, name, pids)
    if target.startswith("socket:"):
        return place("socket", detail=f"{name} is a socket; of a service, try journalctl _PID={pid}")
    if target == "/dev/null":
        return place("null", detail=f"{name} is thrown away (/dev/null)")
    if TERMINAL.match(target):
        return place("terminal", detail=f"{name} is the terminal {target} and is kept nowhere")
    return file_place(fd, target, file_tree(proc, pid) or "")


def file_place(fd: str, target: str, root: str) -> Place:
    """Where the file behind a descriptor can be opened: by its name, else through the descriptor."""
    try:
        opened = os.stat(fd)
    except OSError as error:
        return place("unknown", detail=f"{target}: {error.strerror}")
    if not stat.S_ISREG(opened.st_mode):
        return place("unknown", detail=f"{target} is not a regular file")
    path = next((name for name in (target, root + target) if is_file(name, opened)), None)
    if path is not None and not os.access(path, os.R_OK):
        owner = procfs.user_name(opened.st_uid)
        return place("denied", detail=f"{path} belongs to {owner}, mode {stat.S_IMODE(opened.st_mode):o}")
    if path is not None:
        return place("file", path)
    if target.endswith(DELETED):
        return place(
            "deleted", fd, f"{target[: -len(DELETED)]} was deleted; what is written since is in no folder"
        )
    return place("file", fd, f"{target} cannot be reached by that name from here")


def is_file(path: str, opened: os.stat_result) -> bool:
    """True when `path` names the file that is open, in letters that JSON can carry."""
    try:
        path.encode()
        return os.path.samestat(os.stat(path), opened)
    except (OSError, UnicodeEncodeError):
        return False


def pipe_place(proc: str, pid: int, pipe: str, name: str, pids: Iterable[str]) -> Place:
    """A pipe's reader may be `tee`, whose file can be followed."""
    reader = pipe_reader(proc, pipe, pids) or shim(proc, pid)
    if reader is None:
        return place("pipe", detail=f"{name} is a pipe: no log file to follow")
    number, comm = reader
    said = f"{name} is a pipe to pid {number} ({comm})"
    teed = tee_file(proc, number) if comm == "tee" else None
    if teed is not None:
        return dict(teed, detail=said if teed["detail"] is None else "{}; {}".format(said, teed["detail"]))
    return place("pipe", detail="{}; {}".format(said, KEPT_BY.get(comm, "no log file to follow")))


def pipe_reader(proc: str, pipe: str, pids: Iterable[str]) -> tuple[int, str] | None:
    """Pid and name of the process whose stdin is the pipe."""
    for pid in pids:
        if procfs.link(f"{proc}/{pid}/fd/0") == pipe:
            found = procfs.stat(proc, int(pid))
            if found is not None:
                return int(pid), found.comm
    return None


def shim(proc: str, pid: int) -> tuple[int, str] | None:
    """The container runtime's process above `pid`, which holds the other end of its pipe."""
    above = ((parent, found.comm) for parent, found in procfs.ancestors(proc, pid))
    return next((holder for holder in above if holder[1] in KEPT_BY), None)


def tee_file(proc: str, pid: int) -> Place | None:
    """The first file that a `tee` process writes; its descriptors from 3 on are the files it was told."""
    for number in range(STDERR + 1, 10):
        fd = f"{proc}/{pid}/fd/{number}"
        target = procfs.link(fd)
        if target is not None and target.startswith("/"):
            found = file_place(fd, target, file_tree(proc, pid) or "")
            if found["kind"] != "unknown":
                return found
    return None
