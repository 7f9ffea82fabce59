"""The folders of the runs: runs/ID with run.json, exit, and the log."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any, Collection, Dict

from .groups import RunIdentity
from .statefolder import StateFolder, Unreadable

FOLDER = "runs"
RECORD = "run.json"
EXIT = "exit"
NAME = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,80}")
"""What the id of a run and the name of a server may be: each becomes a file name."""
KEPT = 40
"""So many runs that have ended stay for who wants to read their logs."""

Record = Dict[str, Any]
"""The fields of console.domain.run_record.RunRecord but `alive` and `exit_code`."""

TEXT_FIELDS = ("id", "deployment", "profile", "name", "role", "by", "log")
NUMBER_FIELDS = ("pid", "start_ticks", "port")
LIST_FIELDS = {"argv": str, "gpus": int, "ports": int}
ROLES = ("single", "prefill", "decode", "router")


class RunFolders:
    """Reads and writes them."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._exits: dict[str, int] = {}

    def ids(self) -> list[str]:
        """Every run that has a folder, in no order."""
        try:
            return [name for name in os.listdir(self._state.at(FOLDER)) if NAME.fullmatch(name)]
        except OSError:
            return []

    def record(self, run: str) -> Record | None:
        """What is kept of a run; None when nothing is, or not yet. Raises Unreadable."""
        found = self._state.read(FOLDER, run, RECORD)
        if found is not None and not is_record(found, run):
            raise Unreadable(f"{self._state.at(FOLDER, run, RECORD)} is damaged: it is no record of a run")
        return found

    def identity(self, run: str) -> RunIdentity:
        """By which its processes are known; by the token alone when its record is gone or damaged."""
        try:
            record = self.record(run)
        except Unreadable:
            record = None
        return RunIdentity(run) if record is None else identity(record)

    def make(self, run: str) -> str:
        """The folder of a new run. Raises FileExistsError, OSError."""
        self._state.make(FOLDER)
        path = self._state.at(FOLDER, run)
        os.mkdir(path, 0o700)
        return path

    def write(self, record: Record) -> None:
        """Keep a record. Raises OSError."""
        self._state.write(record, FOLDER, record["id"], RECORD)

    def ended(self, run: str, code: int) -> None:
        """Keep the exit code of its first process; while the disk is full, only in memory."""
        self._exits[run] = code
        with contextlib.suppress(OSError):
            self._state.write(code, FOLDER, run, EXIT)

    def exit_code(self, run: str) -> int | None:
        """The exit code of its first process; negative: the signal that ended it; None: no agent saw it."""
        if run not in self._exits:
            try:
                with open(self._state.at(FOLDER, run, EXIT), "rb") as source:
                    self._exits[run] = int(source.read())
            except (OSError, ValueError):
                return None
        return self._exits[run]

    def remove(self, run: str) -> None:
        """Remove the folder with everything in it."""
        self._exits.pop(run, None)
        self._state.remove_folder(FOLDER, run)

    def prune(self, kept: Collection[str]) -> None:
        """Remove all but the newest runs; those `kept` are not counted."""
        others = [run for run in self._state.newest_first(FOLDER) if NAME.fullmatch(run) and run not in kept]
        for run in others[KEPT:]:
            self.remove(run)


def identity(record: Record) -> RunIdentity:
    """By which the processes of a recorded run are known."""
    return RunIdentity(record["id"], record["pid"], record["start_ticks"], bool(record.get("sudo")))


def is_record(found: Record, run: str) -> bool:
    """Whether this is a whole record of that run: the console would not take half a one."""
    environment = found.get("environment", {})
    return (
        found.get("id") == run
        and all(isinstance(found.get(name), str) for name in TEXT_FIELDS)
        and all(is_whole(found.get(name)) for name in NUMBER_FIELDS)
        and all(is_list(found.get(name), kind) for name, kind in LIST_FIELDS.items())
        and isinstance(environment, dict)
        and all(isinstance(value, str) for value in environment.values())
        and isinstance(found.get("launched_at"), (int, float))
        and isinstance(found.get("boot_id"), (str, type(None)))
        and isinstance(found.get("sudo", False), bool)
        # Sessions 0 and 1 are the kernel's and the system's.
        and found["pid"] > 1
        and found["role"] in ROLES
    )


def is_whole(value: object) -> bool:
    """JSON's true is no number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_list(value: object, kind: type) -> bool:
    """Whether this is a list of values of one kind."""
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)
