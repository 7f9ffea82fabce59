"""Starts a server as a run: a session of its own, its own log, no stdin; it outlives the agent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Any, Mapping, Sequence

from . import launchenv, procfs, sudo
from .children import Children
from .refusal import Refused
from .runs import LIST_FIELDS, NAME, ROLES, Record, RunFolders, is_list, is_whole

END_S = 5.0
ASKED_TEXT = ("id", "deployment", "profile", "name", "role", "by")


class Launcher:
    """Launches runs, and collects those of its own that end."""

    def __init__(
        self, folders: RunFolders, boot_id: str | None, login: Mapping[str, str], proc: str = "/proc"
    ) -> None:
        self._folders = folders
        self._boot_id = boot_id
        self._login = login
        self._proc = proc
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def launch(self, asked: dict[str, Any]) -> Record:
        """Start what `asked` names, and keep its record. Raises Refused, and then leaves nothing behind."""
        problem = problem_with(asked)
        if problem is not None:
            raise Refused(f"nothing was launched: {problem}")
        refused = sudo.refusal(Children(), self._login) if asked.get("sudo") else None
        if refused is not None:
            raise Refused(f"nothing was launched: {refused}")
        run = asked["id"]
        try:
            folder = self._folders.make(run)
        except FileExistsError as error:
            raise Refused(f"nothing was launched: run {run} has a folder and no record") from error
        try:
            record = self._start(asked, folder)
        except (OSError, ValueError) as error:
            self._folders.remove(run)
            raise Refused(f"nothing was launched: {reason(error)}") from error
        return record

    def collect(self) -> bool:
        """Note the exit codes of those that have ended; whether there were any."""
        ended = [run for run, child in self._children.items() if child.poll() is not None]
        for run in ended:
            self._folders.ended(run, self._children.pop(run).returncode)
        return bool(ended)

    def _start(self, asked: dict[str, Any], folder: str) -> Record:
        log = os.path.join(folder, asked["name"] + ".log")
        child = self._spawn(asked, folder, log)
        try:
            record = self._record(asked, child.pid, log)
            self._folders.write(record)
        except OSError:
            # Without its record nobody would know it again.
            self._end(child, as_root=bool(asked.get("sudo")))
            raise
        self._children[record["id"]] = child
        return record

    def _end(self, child: subprocess.Popen[bytes], *, as_root: bool) -> None:
        """Kill a session that has just begun."""
        # sudo cannot pass SIGKILL on: what it started has to get it first.
        if as_root:
            sudo.kill([-child.pid], "KILL", self._login)
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=END_S)

    def _spawn(self, asked: dict[str, Any], folder: str, log: str) -> subprocess.Popen[bytes]:
        run, profile, argv = asked["id"], asked["environment"], asked["argv"]
        environment = launchenv.launch_environment(self._login, run, argv, profile)
        if asked.get("sudo"):
            argv = sudo.launched(launchenv.given(self._login, run, argv, profile), argv)
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return spawn(argv, environment, folder, fd)
        finally:
            os.close(fd)

    def _record(self, asked: dict[str, Any], pid: int, log: str) -> Record:
        # It is this process's child and not collected yet, so there is something to read.
        found = procfs.stat(self._proc, pid)
        if found is None:
            raise OSError(f"{self._proc}/{pid}/stat cannot be read")
        return {
            **{name: asked[name] for name in (*ASKED_TEXT, *LIST_FIELDS, "port", "environment")},
            "sudo": bool(asked.get("sudo")),
            "pid": pid,
            "start_ticks": found.start_ticks,
            "boot_id": self._boot_id,
            "launched_at": time.time(),
            "log": log,
        }


def spawn(
    argv: Sequence[str], environment: Mapping[str, str], folder: str, log: int
) -> subprocess.Popen[bytes]:
    """Start a process that shares nothing with the agent. Raises OSError, ValueError."""
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        close_fds=True,
        cwd=folder,
        env=environment,
    )


def problem_with(asked: dict[str, Any]) -> str | None:
    """Why this cannot be launched, as far as the words of the order tell."""
    for name in ASKED_TEXT:
        if not isinstance(asked.get(name), str):
            return f"the order has no {name}"
    for name in ("id", "name"):
        if not NAME.fullmatch(asked[name]):
            return f"{asked[name]!r} cannot be used as a file name"
    if asked["role"] not in ROLES:
        return f"{asked['role']!r} is no role"
    for name, kind in LIST_FIELDS.items():
        if not is_list(asked.get(name), kind):
            return f"the order has no {name}"
    environment = asked.get("environment")
    if not isinstance(environment, dict) or not is_list(list(environment.values()), str):
        return "the order has no environment"
    return None if asked["argv"] and is_whole(asked.get("port")) else "the order has no command or no port"


def reason(error: Exception) -> str:
    """`/venv/bin/python: No such file or directory`."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
