"""From an alias to the hops that lead there, by ssh_config.

asyncssh reads the files (Include, Match, tokens); the route is built here, so that each jump host is checked
and logged in to like the last, and can be named when it fails. Not honoured: CanonicalizeHostname.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import asyncssh
import msgspec
from asyncssh.config import SSHConfig

from console.domain.errors import ConnectionFailed
from console.remote.ssh import host_keys
from console.remote.ssh.identities import IdentityRules

CONFIG_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
MOST_HOPS = 8


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller knows better than ssh_config, for the last hop."""

    port: int | None = None
    username: str | None = None
    client_keys: tuple[str, ...] | None = None
    """Only these key files, and no agent."""
    known_hosts: tuple[str, ...] | None = None
    """Only these files of host keys."""


NOTHING = Overrides()


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """One SSH connection of the route, resolved."""

    alias: str
    host: str
    """The HostName, else the alias."""
    port: int
    user: str
    jump: bool = False
    """Whether it only leads to the next hop."""
    proxy_command: str | None = None
    family: int = 0
    bind: tuple[str, int] | None = None
    key_name: str
    """By which its host key is known: the HostKeyAlias, which stands for host and port, else the host."""
    key_port: int
    known_hosts: tuple[str, ...] = host_keys.DEFAULT_FILES
    identities: IdentityRules = IdentityRules()
    settings: dict[str, Any]
    """What asyncssh is given to read the same settings again."""
    own_ciphers: bool = False
    own_host_key_algorithms: bool = False

    def __str__(self) -> str:
        place = self.host if self.port == 22 else f"{self.host}:{self.port}"
        named = self.alias if self.alias == place else f"{self.alias} ({place})"
        return f"jump host {named}" if self.jump else named


class Config:
    """A set of ssh_config files, first value wins."""

    def __init__(self, files: Sequence[str] | None = None) -> None:
        candidates = _expanded(CONFIG_FILES if files is None else files)
        self.files = [file for file in candidates if files is not None or os.access(file, os.R_OK)]

    def route(self, alias: str, overrides: Overrides = NOTHING) -> list[Hop]:
        """Every hop to `alias`, the nearest first. Blocking: reads files, and may run `Match exec` commands.

        Raises ConnectionFailed for a config that cannot be used, a port that is none, and jumps in a circle.
        """
        return self._route(alias, overrides, depth=0)

    def command(self, hop: Hop) -> str:
        """The ssh(1) command that a person would use for this hop."""
        chosen = [file for file in self.files if file not in _expanded(CONFIG_FILES)]
        words = ["ssh", *(f"-F {chosen[0]}" for _ in chosen[:1])]
        if "port" in hop.settings:
            words.append(f"-p {hop.port}")
        return " ".join([*words, f"{hop.user}@{hop.alias}" if "username" in hop.settings else hop.alias])

    def _route(self, alias: str, overrides: Overrides, depth: int) -> list[Hop]:
        if depth > MOST_HOPS:
            raise ConnectionFailed(
                f"ProxyJump of {alias} leads in a circle",
                next_step="give the jump host a Host block with `ProxyJump none` in ~/.ssh/config",
            )
        options = self._read(alias, overrides)
        jumps, command = _proxy(options)
        return [*self._jumps(jumps, depth), self._hop(alias, options, overrides, command, depth > 0)]

    def _jumps(self, jumps: str | None, depth: int) -> list[Hop]:
        """`a,b` goes to a, by a's own ProxyJump if it has one, and from there to b, as in ssh(1)."""
        if not jumps:
            return []
        first, *others = (_parse_jump(jump) for jump in jumps.split(","))
        hops = self._route(first[0], first[1], depth + 1)
        for alias, overrides in others:
            options = self._read(alias, overrides)
            hops.append(self._hop(alias, options, overrides, None, jump=True))
        return hops

    def _read(self, alias: str, overrides: Overrides) -> asyncssh.SSHClientConnectionOptions:
        settings = self._settings(alias, overrides)
        try:
            options = asyncssh.SSHClientConnectionOptions(**settings, client_keys=None)
            if options.config.has_match_final():
                options.update(host=alias, reload=True, canonical=False, final=True)
        except (OSError, ValueError, asyncssh.Error) as error:
            raise ConnectionFailed(
                "the SSH configuration cannot be used",
                where=alias,
                cause=str(error),
                next_step=f"correct it, then try `ssh -G {alias}`",
            ) from error
        if not 0 < options.port < 65536:
            raise ConnectionFailed(
                f"port {options.port} is no port",
                where=alias,
                cause="ports go from 1 to 65535",
                next_step=f"correct Port of {alias} in ~/.ssh/config",
            )
        return options

    def _settings(self, alias: str, overrides: Overrides) -> dict[str, Any]:
        settings: dict[str, Any] = {"host": alias, "config": self.files, "canonicalize_hostname": False}
        if overrides.port is not None:
            settings["port"] = overrides.port
        if overrides.username is not None:
            settings["username"] = overrides.username
        return settings

    def _hop(
        self,
        alias: str,
        options: asyncssh.SSHClientConnectionOptions,
        overrides: Overrides,
        command: str | None,
        jump: bool,
    ) -> Hop:
        config = options.config
        return Hop(
            alias=alias,
            host=options.host,
            port=options.port,
            user=options.username,
            jump=jump,
            proxy_command=command,
            family=options.family,
            bind=options.local_addr,
            key_name=options.host_key_alias or options.host,
            key_port=22 if options.host_key_alias else options.port,
            known_hosts=_known_hosts(config, overrides),
            identities=_identity_rules(config, overrides),
            settings=self._settings(alias, overrides),
            own_ciphers=config.get("Ciphers") is not None,
            own_host_key_algorithms=config.get("HostKeyAlgorithms") is not None,
        )


def _proxy(options: asyncssh.SSHClientConnectionOptions) -> tuple[str | None, str | None]:
    """ProxyJump and ProxyCommand; of the two, the one that comes first in the files holds, be it `none`."""
    config = options.config
    first = next((name for name in config.get_options(False) if name in ("ProxyJump", "ProxyCommand")), None)
    value = _text(config.get(first)) if first else None
    return (value, None) if first == "ProxyJump" else (None, value)


def _parse_jump(jump: str) -> tuple[str, Overrides]:
    """`[user@]host[:port]`, an IPv6 address in brackets, or `ssh://` before it."""
    user, _, place = jump.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or (place.startswith("[") and place.endswith("]")):
        host, port = place, ""
    if port and not port.isdecimal():
        raise ConnectionFailed(
            f"ProxyJump {jump} has no readable port", next_step="correct it in ~/.ssh/config"
        )
    return host.strip("[]"), Overrides(port=int(port) if port else None, username=user or None)


def _known_hosts(config: SSHConfig, overrides: Overrides) -> tuple[str, ...]:
    if overrides.known_hosts is not None:
        return overrides.known_hosts
    user, system = (config.get(name) for name in ("UserKnownHostsFile", "GlobalKnownHostsFile"))
    own, shared = host_keys.DEFAULT_FILES[:2], host_keys.DEFAULT_FILES[2:]
    return (*(own if user is None else _texts(user)), *(shared if system is None else _texts(system)))


def _identity_rules(config: SSHConfig, overrides: Overrides) -> IdentityRules:
    if overrides.client_keys is not None:
        return IdentityRules(files=overrides.client_keys, only_files=True)
    files = config.get("IdentityFile")
    return IdentityRules(
        files=None if files is None else _texts(files),
        certificates=_texts(config.get("CertificateFile")),
        only_files=bool(config.get("IdentitiesOnly")),
        agent=_agent_socket(config),
    )


def _agent_socket(config: SSHConfig) -> str:
    """IdentityAgent: a path, `none`, or the name of a variable, which SSH_AUTH_SOCK is without a `$` too."""
    chosen = config.get("IdentityAgent", "SSH_AUTH_SOCK")
    if chosen is None:
        return ""
    text = str(chosen)
    if text == "SSH_AUTH_SOCK" or text.startswith("$"):
        return os.environ.get(text.removeprefix("$"), "")
    return os.path.expanduser(text)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _texts(values: object) -> tuple[str, ...]:
    return tuple(str(value) for value in values) if isinstance(values, list) else ()


def _expanded(files: Sequence[str]) -> list[str]:
    return [os.path.expanduser(file) for file in files]
