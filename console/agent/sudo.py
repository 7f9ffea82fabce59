"""What is done as root: by `sudo -n`, which never asks for a password."""

from __future__ import annotations

import os
from typing import Mapping, Sequence

from .children import Children, TookTooLong

LIMIT_S = 5.0
MISSING = "sudo: command not found"


class Failed(Exception):
    """sudo did not run a command, or the command failed. Its text are the last words that were said."""

    def __init__(self, *said: str) -> None:
        super().__init__(said[-1])
        self.said = said
        """Line by line."""


def launched(environment: Mapping[str, str], argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` with these variables, which sudo itself would not let in."""
    return ["sudo", "-n", "env", *(f"{name}={value}" for name, value in environment.items()), *argv]


def refusal(children: Children, login: Mapping[str, str] = os.environ) -> str | None:
    """Why sudo does not run a command without asking, in its own words; None when it does."""
    try:
        run(["true"], children, login)
    except Failed as failed:
        return str(failed)
    return None


def kill(pids: Sequence[int], name: str, login: Mapping[str, str] = os.environ) -> str | None:
    """Signal processes, or groups by negative numbers; what was said where that failed."""
    try:
        run(["kill", "-s", name, "--", *map(str, pids)], Children(), login)
    except Failed as failed:
        # One that has just ended is no failure; the others were signalled all the same.
        failures = [line for line in failed.said if "No such process" not in line]
        return failures[-1] if failures else None
    return None


def environ(pid: int) -> str:
    """The text of /proc/PID/environ; empty where it cannot be read."""
    try:
        return run(["cat", f"/proc/{pid}/environ"], Children())
    except Failed:
        return ""


def run(words: Sequence[str], children: Children, login: Mapping[str, str] = os.environ) -> str:
    """What a command says. Raises Failed."""
    try:
        ended = children.run(["sudo", "-n", *words], LIMIT_S, dict(login, LC_ALL="C"))
    except FileNotFoundError:
        raise Failed(MISSING) from None
    except TookTooLong:
        raise Failed(f"sudo: no answer within {LIMIT_S:.0f} s") from None
    except OSError as error:
        raise Failed(f"sudo: {error.strerror or error}") from error
    if ended.code != 0:
        said = ended.err.strip().splitlines()
        raise Failed(*(said or [f"sudo: exit code {ended.code}"]))
    return ended.out
