"""From a name on the command line to a host: config.toml first, then ssh_config, `local` and `demo`."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from console.domain.errors import ConnectionLost, UsageError
from console.domain.loghistory import HostMatches, HostSearch, OlderLines
from console.domain.observation import ServerKey, Update
from console.settings import HostSettings, Settings, load_settings

if TYPE_CHECKING:
    from types import ModuleType

    from console.remote.host import Host
    from console.services.telemetry import HostWatch


class Given(msgspec.Struct, frozen=True):
    """The options that stand before or after every verb; None where not given."""

    host: str | None = None
    demo: bool = False
    readonly: bool = False
    config: Path | None = None

    def over(self, other: Given) -> Given:
        """These options, completed by those of an outer command."""
        return Given(
            host=self.host or other.host,
            demo=self.demo or other.demo,
            readonly=self.readonly or other.readonly,
            config=self.config or other.config,
        )


class Target(msgspec.Struct, frozen=True):
    """The host that was asked for, and how to open it."""

    name: str
    demo: bool
    host: HostSettings
    readonly: bool
    settings: Settings
    open_host: Callable[[], Host]

    @property
    def readonly_because(self) -> str | None:
        """Why the host may not be changed; None when it may."""
        if not self.readonly:
            return None
        if self.host.readonly:
            return f"config.toml says so of {self.name}"
        return "--readonly was given"

    def watch(self, log_lines: int = 2000) -> TargetWatch:
        """The host, watched; its logs from the last `log_lines` lines on."""
        return TargetWatch(self, log_lines)

    def updates(self, log_lines: int = 2000) -> AsyncGenerator[Update, None]:
        """What a watch of the host yields, for who asks no more."""
        return self.watch(log_lines).updates()


class TargetWatch:
    """A watch that imports asyncssh and httpx when it begins, so that a screen can be there before them."""

    def __init__(self, target: Target, log_lines: int) -> None:
        self._target = target
        self._log_lines = log_lines
        self._watch: HostWatch | None = None

    async def updates(self) -> AsyncGenerator[Update, None]:
        """See HostWatch. The imports are made in a thread: a screen that is there stays responsive."""
        telemetry = await asyncio.to_thread(importlib.import_module, "console.services.telemetry")
        if self._target.name != "local":
            await asyncio.to_thread(importlib.import_module, "console.remote.ssh")
        self._watch = self._begin(telemetry)
        async with aclosing(self._watch.updates()) as updates:
            async for update in updates:
                yield update

    async def older(self, server: ServerKey, before: int) -> OlderLines:
        """See HostWatch."""
        return await self._begun().logs.older(server, before)

    def search(self, server: ServerKey, search: HostSearch) -> AsyncGenerator[HostMatches, None]:
        """See HostWatch."""
        return self._begun().logs.search(server, search)

    def cut_line(self, server: ServerKey, number: int) -> AsyncGenerator[bytes, None]:
        """See HostWatch."""
        return self._begun().logs.cut_line(server, number)

    @property
    def begun(self) -> HostWatch | None:
        """The watch, once it has begun."""
        return self._watch

    def _begun(self) -> HostWatch:
        if self._watch is None:
            raise ConnectionLost("the log cannot be asked for", cause="the host is not connected yet")
        return self._watch

    def _begin(self, telemetry: ModuleType) -> HostWatch:
        target = self._target
        identity = telemetry.Identity(
            name=target.name, demo=target.demo, readonly=target.readonly, protected=target.host.protected
        )
        options = telemetry.AgentOptions(interval=target.host.interval_s, readonly=target.readonly)
        patterns = target.settings.line_patterns
        watch: HostWatch = telemetry.HostWatch(
            identity, target.open_host, options, target.host.python, self._log_lines, patterns
        )
        return watch


def choose(given: Given) -> Target:
    """The target of a command line. Raises UsageError and SettingsError."""
    settings = load_settings(given.config)
    name = _name(given, settings)
    host = settings.hosts.get(name, HostSettings())
    if name in ("local", "demo") and host.python is None:
        # The console's own Python has nvidia-ml-py.
        host = msgspec.structs.replace(host, python=sys.executable)
    return Target(
        name=name,
        demo=name == "demo",
        host=host,
        readonly=given.readonly or host.readonly,
        settings=settings,
        open_host=_opener(name, host),
    )


def _name(given: Given, settings: Settings) -> str:
    if given.demo and given.host not in (None, "demo"):
        raise UsageError(f"--demo and --host {given.host} name two hosts", next_step="leave one of them out")
    if given.demo:
        return "demo"
    name = given.host or settings.default_host
    if name:
        return name
    if len(settings.hosts) == 1:
        return next(iter(settings.hosts))
    raise UsageError(
        "no host is named",
        next_step="give --host NAME (any name of ~/.ssh/config, or local), set default_host in config.toml,"
        " or try --demo",
    )


def _opener(name: str, host: HostSettings) -> Callable[[], Host]:
    if name == "demo":
        from console.cli.demo_host import DemoProcess

        return DemoProcess().open_host

    def open_host() -> Host:
        if name == "local":
            from console.remote.local import LocalHost

            return LocalHost()
        from console.remote.ssh import SshHost

        return SshHost(host.ssh or name, name=name)

    return open_host
