"""The questions to all servers that live: each is asked from the first sight of it to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from console.remote.sglang import SglangClient
from console.services.metrics import Changed, Probe
from console.services.runs import Run


class Probes:
    """One probe for each server; `changed` is called after each answer."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self._asking: dict[str, asyncio.Task[None]] = {}
        """By the name of the server's tail."""

    def ask(self, client: SglangClient, alive: Iterable[Run]) -> None:
        """Ask these servers, and no others."""
        runs = {run.log.tail: run for run in alive}
        for tail in self._asking.keys() - runs.keys():
            self._asking.pop(tail).cancel()
        for tail in runs.keys() - self._asking.keys():
            probe = Probe(client, runs[tail], self._changed)
            self._asking[tail] = asyncio.create_task(probe.watch())

    def stop(self) -> None:
        """Ask nobody: the connection is gone."""
        for task in self._asking.values():
            task.cancel()
        self._asking.clear()
