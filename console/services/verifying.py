"""The verification of a deployment: what its servers say of their settings, held against the profile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from console.domain.profile import Profile, ServerSpec, server_environment
from console.domain.run_record import Difference, RunRecord, Verification
from console.domain.verification import Seen, compare, log_patterns
from console.remote.sglang import ServerInfo


class Sources(NamedTuple):
    """Where the settings of running servers are read. Each answers None where nothing can be read."""

    server_info: Callable[[int], Awaitable[ServerInfo | None]]
    """What the server on a port reports."""
    environment: Callable[[RunRecord, Sequence[str]], Awaitable[Mapping[str, str] | None]]
    """Those of the named variables that a run was started with."""
    log_has: Callable[[RunRecord, str], Awaitable[bool | None]]
    """Whether the log of a run has a line that fits a regular expression."""


async def verify(
    sources: Sources,
    profile: Profile,
    runs: Sequence[RunRecord],
    version: str | None,
    wall: Callable[[], float],
) -> Verification:
    """Compare all servers of the profile with it. The router reports no settings: the proof is its test.

    `version` is that of the SGLang launched; `wall` gives seconds since the epoch on the host's clock. Raises
    KeyError when a server has no run, and what the sources raise.
    """
    by_name = {run.name: run for run in runs}
    found = await asyncio.gather(
        *(_compared(sources, profile, server, by_name[server.name], version) for server in profile.servers)
    )
    return Verification(
        at=wall(),
        differences=tuple(difference for differences, _ in found for difference in differences),
        checked=sum(checked for _, checked in found),
    )


async def _compared(
    sources: Sources, profile: Profile, server: ServerSpec, run: RunRecord, version: str | None
) -> tuple[tuple[Difference, ...], int]:
    names, patterns = tuple(server_environment(profile, server)), log_patterns(profile, server)
    info, environment, found = await asyncio.gather(
        sources.server_info(server.port),
        sources.environment(run, names),
        asyncio.gather(*(sources.log_has(run, pattern) for pattern in patterns)),
    )
    seen = Seen(
        info=None if info is None else info.flags,
        environment=environment,
        log=dict(zip(patterns, found, strict=True)),
    )
    return compare(profile, server, (info and info.version) or version, seen)
