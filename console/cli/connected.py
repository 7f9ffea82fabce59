"""A host that the command line changes or measures: connected, its servers and records seen, and watched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

from console.cli.operator import TargetOperator
from console.cli.target import Target, TargetWatch
from console.domain.errors import ConnectionLost
from console.domain.observation import Ended, Servers, Update
from console.domain.run_record import HostRecords

LOOK_LIMIT_S = 20.0
LOG_LINES = 200


@asynccontextmanager
async def connected(target: Target) -> AsyncGenerator[TargetOperator, None]:
    """Who changes the host. Raises HostError."""
    async with watched(target) as watch:
        yield TargetOperator(target, watch)


@asynccontextmanager
async def watched(target: Target) -> AsyncGenerator[TargetWatch, None]:
    """The host, once it is known what runs on it. Raises HostError."""
    watch = target.watch(LOG_LINES)
    async with aclosing(watch.updates()) as updates:
        await _look(updates)
        following = asyncio.create_task(_follow(updates))
        try:
            yield watch
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _look(updates: AsyncGenerator[Update, None]) -> None:
    """Until it is known what runs, and what is kept of it."""
    looked = recorded = False
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            async for update in updates:
                if isinstance(update, Ended):
                    raise update.error
                looked = looked or (isinstance(update, Servers) and update.looked)
                recorded = recorded or isinstance(update, HostRecords)
                if looked and recorded:
                    return
    except TimeoutError as error:
        raise ConnectionLost("the host has not told what runs on it") from error


async def _follow(updates: AsyncGenerator[Update, None]) -> None:
    """Take what the watch yields: its values are in the watch, and a watch that is not taken stands still."""
    async for _ in updates:
        pass
