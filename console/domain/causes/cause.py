"""What is known of one cause of a failure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from console.domain.server import Role
from console.domain.startup import Phase

Kind = Literal["root", "trouble", "client", "symptom", "secondary", "consequence"]
"""`root` explains an end by itself. With `trouble` the process lives, and requests fail until somebody acts.
`client`: a request was wrong, not the server. A `symptom` says that requests fail, not why. `secondary` is
what the other ranks say when one has died: a cause only when nothing better is found. `consequence` reports a
death without knowing why."""


class Cause(NamedTuple):
    """One known cause, and what to do about it."""

    id: str
    kind: Kind
    markers: tuple[str, ...]
    """What gives a line away; one is enough."""
    sentence: str
    """What happened, in plain words."""
    next: str
    """What to do, in the imperative."""
    roles: tuple[Role, ...] = ()
    """The roles that it can befall; empty for all."""
    phases: tuple[Phase | None, ...] = ()
    """When the line means this; empty for always, None for a server that has started."""
    frames: tuple[str, ...] = ()
    """What must also stand in the traceback; one is enough."""
    again: bool = True
    """Starting it again, once that is done, is the end of it."""
