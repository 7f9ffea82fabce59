"""Why a server failed, as far as its own words tell: known causes, and what to do about each.

A row is found by what one line says. Where the same words mean different things, the step of the start-up or
a frame of the traceback decides. Wordings are those of sglang 0.5.5 to 0.5.23, sglang_router 0.3.2, torch,
NCCL, NIXL, the kernel and the shell. The first row that fits wins: the particular stands before the general.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from console.domain.server import Role
from console.domain.startup import Phase

from .cause import Cause, Kind
from .hardware import COLLECTIVE, GPU, MEMORY
from .launch import COMMAND_LINE, ENVIRONMENT, PORTS
from .serving import ENDED, HEALTH_FAILED, KILLED, PAIR, SERVING

__all__ = ["CAUSES", "FRAMES", "HEALTH_FAILED", "KILLED", "Cause", "Kind", "cause_of", "next_step"]

CAUSES = (*COMMAND_LINE, *PORTS, *MEMORY, *GPU, *PAIR, *SERVING, *COLLECTIVE, *ENDED, *ENVIRONMENT)
FRAMES = tuple({frame for cause in CAUSES for frame in cause.frames})
"""What in a traceback may decide between causes."""
_SHELL_KILLED = re.compile(r"(?:.*: line \d+: +\d+ |\[\d+\][+-]? +(?:\d+ )?)?Killed\b(?!:)")
"""How a shell reports it: alone, or with the script's line or the job's number before it."""

_AGAIN: dict[Role, str] = {
    "single": "start it again",
    "prefill": "restart the pair, both roles",
    "decode": "restart the pair, both roles",
    "router": "start the router again",
}
_UNKNOWN = "this is not a known error: read what stands before it, and look for its text in SGLang's issues"


def cause_of(text: str, phase: Phase | None = None, body: Iterable[str] = ()) -> Cause | None:
    """The known cause that one line gives away; `phase` is None for a server that has started.

    `body` is the traceback around the line.
    """
    return next((cause for cause in _candidates(text) if _applies(cause, phase, body)), None)


@lru_cache(maxsize=512)
def _candidates(text: str) -> tuple[Cause, ...]:
    """The rows that the line itself allows. An error that floods a log repeats its lines."""
    if "Killed" in text and _SHELL_KILLED.match(text):
        return (KILLED,)
    return tuple(cause for cause in CAUSES if any(marker in text for marker in cause.markers))


def _applies(cause: Cause, phase: Phase | None, body: Iterable[str]) -> bool:
    if cause.phases and phase not in cause.phases:
        return False
    return not cause.frames or any(frame in line for line in body for frame in cause.frames)


def next_step(cause: Cause | None, role: Role | None = None, *, lives: bool = False) -> str:
    """What to do: the cure, and what to start again, which for a role of a pair is always the pair.

    `lives`: the server got over it, or may yet.
    """
    if cause is not None and (cause.kind == "client" or not cause.again):
        return cause.next
    roles = (role,) if role else cause.roles if cause else ()
    again = _AGAIN[roles[0] if roles else "single"]
    when = "if requests go on failing," if lives else "then"
    return f"{_UNKNOWN if cause is None else cause.next}; {when} {again}"
