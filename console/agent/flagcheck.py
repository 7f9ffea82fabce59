"""Asks SGLang's own parsers about command lines, once for each installation: the order `check_flags`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import Any, Dict, List, NamedTuple

from . import launchenv, pythons
from .children import Children, TookTooLong
from .logsearch import source_of
from .statefolder import StateFolder, Unreadable

LIMIT_S = 90.0
NOTE_CHARS = 300
CACHE = "flags"
KEPT = 100
"""So many answers are remembered: another port is another question."""

Lines = List[List[str]]
Answer = Dict[str, Any]


class Question(NamedTuple):
    """What is asked of which Python."""

    python: str
    environment: dict[str, str]
    """The profile's own."""
    lines: Lines


def flag_checks(question: Question, children: Children, state: StateFolder) -> Answer:
    """The fields of console.domain.host_facts.FlagChecks; `seconds` is how long this answer took."""
    began = time.monotonic()
    answer = answer_to(question, children, state)
    return dict(answer, seconds=time.monotonic() - began)


def answer_to(question: Question, children: Children, state: StateFolder) -> Answer:
    """From the state folder where the same was asked before, else from the parsers."""
    environment = asking_environment(question.python, question.environment)
    found = pythons.probe(question.python, children, environment)
    if found is None:
        return unanswered(f"{question.python} is not a Python of 3.8 or later that can be run")
    name = f"{key(question, found)}.json"
    known = remembered(state, name, len(question.lines))
    if known is not None:
        return {"lines": known, "cached": True}
    answer = parsed(question, children, environment)
    if answer["lines"]:
        # A host whose state folder cannot be written is asked anew each time.
        with contextlib.suppress(OSError):
            state.write({"lines": answer["lines"]}, CACHE, name)
            for old in state.newest_first(CACHE)[KEPT:]:
                state.remove(CACHE, old)
    return answer


def asking_environment(python: str, profile: dict[str, str]) -> dict[str, str]:
    """What a launch would get, but not the token of a run: this is none."""
    environment = launchenv.launch_environment(os.environ, "", [python], profile)
    del environment[launchenv.RUN]
    return environment


def key(question: Question, found: pythons.Probe) -> str:
    """The same for the same question to the same installation, by this console's way of asking."""
    told = json.dumps([question, found, source_of("flagparser")], sort_keys=True)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def remembered(state: StateFolder, name: str, count: int) -> list[Any] | None:
    """The lines of an earlier answer."""
    try:
        lines = (state.read(CACHE, name) or {}).get("lines")
    except Unreadable:
        return None
    return lines if isinstance(lines, list) and len(lines) == count else None


def parsed(question: Question, children: Children, environment: dict[str, str]) -> Answer:
    """Run the parsers. Importing them takes SGLang seconds."""
    command = [question.python, "-c", source_of("flagparser")]
    try:
        ended = children.run(command, LIMIT_S, environment, json.dumps(question.lines).encode())
    except TookTooLong:
        return unanswered(f"SGLang's parser did not answer within {LIMIT_S:.0f} s")
    with contextlib.suppress(ValueError, IndexError):
        return {"lines": json.loads(ended.out.splitlines()[-1]), "cached": False}
    said = ended.err.strip().splitlines()
    return unanswered(said[-1][:NOTE_CHARS] if said else f"SGLang's parser ended with status {ended.code}")


def unanswered(note: str) -> Answer:
    """Nothing could be parsed, and why."""
    return {"lines": [], "cached": False, "note": note}
