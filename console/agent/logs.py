"""The logs that are followed, by name.

Nothing is read ahead: each tail gives one chunk whenever the connection has taken the last.
"""

from __future__ import annotations

import base64
from typing import Any, Callable, Dict

from . import logfiles
from .frames import FrameWriter
from .tails import Resume, Tail

LIVELY_S = 0.1
QUIET_S = 0.25
LIVELY_FOR_S = 5.0
SPACE_S = 2.0
READ_SIZE = 32768
"""Bytes of one frame: what telemetry may have to wait for."""

Order = Dict[str, Any]


class Logs:
    """Carries out the orders `tail` and `untail`."""

    def __init__(self, writer: FrameWriter, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._clock = clock
        self._tails: dict[str, Tail] = {}
        self._pump_at = self._space_at = self._lively_until = clock()

    @property
    def due(self) -> float:
        """When `pump` has something to do, by the clock."""
        return self._pump_at if self._tails else float("inf")

    def follow(self, order: Order) -> None:
        """Follow a log, or begin anew where the order says."""
        self.unfollow(order)
        name = str(order["tail"])
        lines = int(order.get("lines", 2000))
        self._tails[name] = Tail(name, str(order["path"]), lines=lines, resume=resume_of(order))
        self._pump_at = self._space_at = self._clock()

    def unfollow(self, order: Order) -> None:
        """Let go of a log."""
        tail = self._tails.pop(str(order["tail"]), None)
        if tail is not None:
            tail.close()

    def open(self, order: Order) -> int:
        """A descriptor of the file that the order names by `dev` and `inode`, else of what `path` names now.

        Raises FileNotFoundError when that file has left its folder and no tail holds it open, else OSError.
        """
        path = str(order["path"])
        if "inode" not in order:
            return logfiles.open_log(path)
        file = (int(order["dev"]), int(order["inode"]))
        for tail in self._tails.values():
            if tail.file == file:
                return tail.descriptor()
        name = logfiles.name_of(path, file)
        if name is None:
            raise FileNotFoundError
        return logfiles.open_log(name)

    def pump(self) -> None:
        """One chunk of each log that has one; come back at once while there is more. Wants an idle writer."""
        now = self._clock()
        if not self._tails or now < self._pump_at:
            return
        had_more = [self._pump(tail) for tail in self._tails.values()]
        if now >= self._space_at:
            self._space_at = now + SPACE_S
            for tail in self._tails.values():
                tail.look_for_space()
        if any(had_more):
            self._lively_until = now + LIVELY_FOR_S
            self._pump_at = now
        else:
            self._pump_at = now + (LIVELY_S if now < self._lively_until else QUIET_S)

    def _pump(self, tail: Tail) -> bool:
        for event in tail.poll():
            self._writer.put(event)
        chunk = tail.read(READ_SIZE)
        if chunk is None:
            return False
        self._writer.put(*chunk)
        return True


def resume_of(order: Order) -> Resume | None:
    """Where to go on, if the order says so."""
    if "inode" not in order:
        return None
    last = base64.b64decode(order.get("last", ""))
    return Resume(int(order["dev"]), int(order["inode"]), int(order["offset"]), last)
