"""A tail driven as the agent drives it, and what happens to logs."""

from __future__ import annotations

from pathlib import Path

from console.agent.tails import Event, Resume, Tail


class Follower:
    """A tail driven as the agent's loop does it: poll, tell, then read until there is no more."""

    def __init__(
        self, path: Path, *, lines: int = 2000, resume: tuple[int, int, int] | None = None, last: bytes = b""
    ) -> None:
        self.tail = Tail("t1", str(path), lines=lines, resume=resume and Resume(*resume, last))
        self.data = b""
        self.events: list[Event] = []
        self.at = (0, 0, 0)
        self.last = b""
        """What was read directly before that, as far as this follower has read it."""

    def step(self, limit: int = 65536) -> list[str]:
        """One round; the events of it, by name."""
        names = self.poll()
        while self.take(limit):
            pass
        return names

    def poll(self) -> list[str]:
        """Ask for events; their names."""
        events = self.tail.poll()
        self.events += events
        for event in events:
            if event["event"] in ("opened", "rotated", "truncated"):
                self.at, self.last = (event["dev"], event["inode"], event["offset"]), b""
        return [event["event"] for event in events]

    def take(self, limit: int) -> bool:
        """Take one chunk; False when there is none."""
        chunk = self.tail.read(limit)
        if chunk is None:
            return False
        header, data = chunk
        assert 0 < len(data) <= limit
        assert (header["kind"], header["tail"]) == ("log", "t1")
        self.data += data
        self.at = (header["dev"], header["inode"], header["offset"] + len(data))
        self.last = (self.last + data)[-64:]
        return True

    def settle(self) -> list[str]:
        """Rounds until nothing happens any more; all their events."""
        seen: list[str] = []
        quiet = 0
        while quiet < 2:
            size = len(self.data)
            names = self.step()
            seen += names
            quiet = 0 if names or len(self.data) > size else quiet + 1
        return seen


def numbered(first: int, last: int) -> bytes:
    """Lines with the numbers first..last-1."""
    return b"".join(b"line %d\n" % number for number in range(first, last))


def append(path: Path, data: bytes) -> None:
    """Write at the end, as a logger does."""
    with path.open("ab") as log:
        log.write(data)


def rotate(log: Path) -> None:
    """Shift server.log to .1, .1 to .2 and so on, the oldest first, as logrotate does."""
    number = 1
    while log.with_name(f"{log.name}.{number}").exists():
        number += 1
    for older in range(number, 1, -1):
        log.with_name(f"{log.name}.{older - 1}").rename(log.with_name(f"{log.name}.{older}"))
    log.rename(log.with_name(f"{log.name}.1"))
