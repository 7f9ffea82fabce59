"""A load that a test begins, as the agent does, and reads to its end."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable

import msgspec

from console.agent.loads import LoadChild
from console.domain.bench.load import (
    LoadBegun,
    LoadDone,
    LoadEvent,
    LoadFailed,
    LoadRequests,
    LoadSecond,
    LoadSpec,
    RequestTiming,
)

LIMIT_S = 30.0


class Load:
    """A load that runs, or has run."""

    def __init__(self, spec: LoadSpec, python: str = sys.executable) -> None:
        self.child = LoadChild(python, msgspec.to_builtins(spec))
        self.events: list[LoadEvent] = []

    def read(self) -> None:
        """Wait for something, and take it."""
        assert select.select([self.child.stdout, self.child.stderr], [], [], LIMIT_S)[0]
        self.child.beat()
        self.events += [msgspec.convert(each, LoadEvent) for each in self.child.events()]

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline
            self.read()

    def to_its_end(self) -> Load:
        self.until(lambda: self.events and isinstance(self.events[-1], LoadDone | LoadFailed))
        self.child.close()
        return self

    @property
    def requests(self) -> list[RequestTiming]:
        """In the order of their prompts."""
        found = [each for part in self.events if isinstance(part, LoadRequests) for each in part.items]
        return sorted(found, key=lambda each: each.index)

    @property
    def seconds(self) -> list[LoadSecond]:
        return [each for each in self.events if isinstance(each, LoadSecond)]

    @property
    def pids(self) -> tuple[int, ...]:
        begun = self.events[0]
        assert isinstance(begun, LoadBegun)
        return begun.pids

    @property
    def done(self) -> LoadDone:
        done = self.events[-1]
        assert isinstance(done, LoadDone), done
        return done

    @property
    def failure(self) -> str:
        failed = self.events[-1]
        assert isinstance(failed, LoadFailed), failed
        return failed.reason
