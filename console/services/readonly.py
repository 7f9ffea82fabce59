"""The user's own switch against changes, which the agent on the host obeys as well."""

from __future__ import annotations

import asyncio
import contextlib

from console.domain.errors import HostError
from console.remote.agent_link import AgentLink


class ReadonlySwitch:
    """Off at first. An agent that comes after a reconnect knows nothing of it and must be told."""

    def __init__(self) -> None:
        self.is_on = False
        self._telling: set[asyncio.Task[None]] = set()

    def turn(self, on: bool, link: AgentLink | None) -> None:
        """On or off, here and at once for the agent, where there is one."""
        self.is_on = on
        if link is not None:
            self._begin_to_tell(link)

    def came_up(self, link: AgentLink) -> None:
        """There is another agent."""
        if self.is_on:
            self._begin_to_tell(link)

    def _begin_to_tell(self, link: AgentLink) -> None:
        telling = asyncio.create_task(_tell(link, self.is_on))
        # The loop itself keeps no task alive.
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)


async def _tell(link: AgentLink, on: bool) -> None:
    with contextlib.suppress(HostError):
        await link.obey("readonly", on=on)
