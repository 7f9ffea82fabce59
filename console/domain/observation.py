"""What a watched host yields, one value after the other: the whole interface between services and screens.

Update = HostView            the connection and the machine; at each change and once a second while lost
       | Sample              one reading of GPUs and host
       | Servers             every server known, whenever anything about one changes
       | LogUpdate           new lines of one server's log
       | HostRecords         runs, deployment, plan under way and lock, whenever one of them changes
       | Throughput          tokens a second of the whole deployment
       | Ended               no connection, and none will be tried
"""

from __future__ import annotations

import msgspec

from console.domain.errors import HostError
from console.domain.gpu import Sample
from console.domain.host_view import HostView
from console.domain.logline import LogLine
from console.domain.printable import Colour
from console.domain.run_record import HostRecords
from console.domain.server_view import ServerView
from console.domain.throughput import Throughput

ServerKey = tuple[int, int]
"""(pid, start_ticks): the identity of a process within one boot."""


class Servers(msgspec.Struct, frozen=True):
    """All servers known, in the order of the screen; one that is gone stays until another takes its place."""

    views: tuple[ServerView, ...] = ()
    looked: bool = True
    """False until the host was looked at for the first time."""
    note: str | None = None
    """One sentence when not every process can be seen."""


class LogUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """News of one server's log, in order: `lines`, then the unfinished `live` one, then `notes` of ours."""

    server: ServerKey
    lines: tuple[LogLine, ...] = ()
    live: LogLine | None = None
    notes: tuple[str, ...] = ()
    colours: dict[int, tuple[Colour, ...]] = {}
    """Colours that the writer gave the lines, by their number."""
    revised: tuple[LogLine, ...] = ()
    """Lines given before that mean something else in the light of later ones; same number, other class."""


class Ended(msgspec.Struct, frozen=True):
    """The last update: the error is for the person at the terminal."""

    error: HostError


Update = HostView | Sample | Servers | LogUpdate | HostRecords | Throughput | Ended
