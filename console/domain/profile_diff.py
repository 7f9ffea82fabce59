"""What differs between two profiles: settings that change what runs.

Names, titles, comments, limits and expectations are none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, get_args

import msgspec

from .profile import Profile, RouterSpec, ServerSpec, router_environment, server_environment, server_flags
from .profile_problems import OWN_VARIABLES
from .sglang_flags import FlagValue, current_name, spell

SettingKind = Literal[
    "kind", "model", "python", "sudo", "server", "gpus", "numa", "host", "port", "environment", "flag"
]
_KINDS = get_args(SettingKind)
Sign = Literal["-", "+", " "]
ALL = "all servers"
ON = "true"
"""The value of a bare flag."""

_Setting = tuple[SettingKind, str]
"""Its kind and its name."""
_Settings = dict[_Setting, str]


class SettingChange(msgspec.Struct, frozen=True, kw_only=True):
    """One setting that differs."""

    server: str
    """The server's name in the profile, `router`, or `all servers`."""
    kind: SettingKind
    """`server`: all of it comes or goes."""
    name: str
    """Of a flag its current name, without dashes; where there is one of a kind, the kind again."""
    before: str | None
    """None: not set."""
    after: str | None
    """None: not set any more."""


def differences(old: Profile, new: Profile, version: str | None = None) -> tuple[SettingChange, ...]:
    """What changes from one to the other: first what is true of all servers, then server by server.

    Flags that this version of SGLang does not have are left off its command line, and do not count.
    """
    before, after = _tunings(old, version), _tunings(new, version)
    common = _common(before, after)
    changes = [*_compared(ALL, _of_profile(old), _of_profile(new))]
    changes += _compared(ALL, _agreed(before), _agreed(after), only=common)
    here, there = _places(old), _places(new)
    for name in dict.fromkeys([*here, *there]):
        changes += _moved(name, here.get(name), there.get(name))
        if name in after:
            changes += _compared(name, before.get(name, _agreed(before)), after[name], without=common)
    return tuple(changes)


def changed_settings(old: Profile, new: Profile, version: str | None = None) -> int:
    """How many settings differ; one that changes alike in all servers counts once."""
    return len(differences(old, new, version))


def as_lines(changes: Sequence[SettingChange]) -> list[tuple[Sign, str]]:
    """A diff: each server as a heading with ` `, below it what goes with `-` and what comes with `+`."""
    lines: list[tuple[Sign, str]] = []
    for server, group in groupby(changes, key=lambda change: change.server):
        lines.append((" ", server))
        for change in group:
            lines += [("-", _text(change, change.before))] if change.before is not None else []
            lines += [("+", _text(change, change.after))] if change.after is not None else []
    return lines


def _text(change: SettingChange, value: str) -> str:
    if change.kind == "flag":
        return f"--{change.name}" if value == ON else f"--{change.name} {value}"
    return f"{change.name}={value}" if change.kind == "environment" else f"{change.name} {value}"


def _compared(
    server: str,
    before: _Settings,
    after: _Settings,
    *,
    only: Collection[_Setting] | None = None,
    without: Collection[_Setting] = (),
) -> Iterator[SettingChange]:
    for setting in sorted(dict.fromkeys([*before, *after]), key=lambda setting: _KINDS.index(setting[0])):
        old, new = before.get(setting), after.get(setting)
        if old != new and setting not in without and (only is None or setting in only):
            kind, name = setting
            yield SettingChange(server=server, kind=kind, name=name, before=old, after=new)


def _common(before: Mapping[str, _Settings], after: Mapping[str, _Settings]) -> set[_Setting]:
    """The settings in which all servers are alike, before and after."""
    named = {setting for servers in (before, after) for each in servers.values() for setting in each}
    return {setting for setting in named if _alike(before, setting) and _alike(after, setting)}


def _alike(servers: Mapping[str, _Settings], setting: _Setting) -> bool:
    return len({each.get(setting) for each in servers.values()}) <= 1


def _agreed(servers: Mapping[str, _Settings]) -> _Settings:
    """What every server has, with the same value."""
    first, *_ = (*servers.values(), {})
    return {setting: value for setting, value in first.items() if _alike(servers, setting)}


def _moved(name: str, before: _Settings | None, after: _Settings | None) -> Iterator[SettingChange]:
    """How a server's place changes, or that it goes or comes."""
    if before is not None and after is not None:
        yield from _compared(name, before, after)
        return
    yield SettingChange(
        server=name,
        kind="server",
        name="server",
        before=None if before is None else _place_in_words(before),
        after=None if after is None else _place_in_words(after),
    )


def _place_in_words(place: _Settings) -> str:
    gpus = place.get(("gpus", "gpus"))
    return (f"on GPUs {gpus}, " if gpus else "") + f"port {place['port', 'port']}"


def _of_profile(profile: Profile) -> _Settings:
    found: _Settings = {("kind", "kind"): profile.kind, ("model", "model"): profile.model}
    found |= {("python", "python"): profile.python} if profile.python else {}
    return found | ({("sudo", "sudo"): ON} if profile.sudo else {})


def _places(profile: Profile) -> dict[str, _Settings]:
    """Where each server and the router are; of the router everything."""
    found = {server.name: _place(server) for server in profile.servers}
    return found | ({"router": _of_router(profile.router)} if profile.router else {})


def _place(server: ServerSpec) -> _Settings:
    found: _Settings = {("host", "host"): server.host, ("port", "port"): str(server.port)}
    found[("port", "nccl_port")] = str(server.nccl_port)
    if server.bootstrap_port is not None:
        found[("port", "bootstrap_port")] = str(server.bootstrap_port)
    if server.gpus:
        found[("gpus", "gpus")] = " ".join(map(str, server.gpus))
    if server.numa is not None:
        nodes = server.numa if isinstance(server.numa, tuple) else (server.numa,) * len(server.gpus)
        found[("numa", "numa")] = " ".join(map(str, nodes))
    return found


def _of_router(router: RouterSpec) -> _Settings:
    ports: _Settings = {
        ("port", "port"): str(router.port),
        ("port", "metrics_port"): str(router.metrics_port),
    }
    environment = _variables(router_environment(router))
    return {("host", "host"): router.host, **ports, **environment, **_flags(router.flags)}


def _tunings(profile: Profile, version: str | None) -> dict[str, _Settings]:
    """The environment and the flags of each server."""
    return {server.name: _tuning(profile, server, version) for server in profile.servers}


def _tuning(profile: Profile, server: ServerSpec, version: str | None) -> _Settings:
    environment = _variables(server_environment(profile, server))
    flags = server_flags(profile, server)
    if version is not None:
        flags = {flag: value for flag, value in flags.items() if spell({flag: value}, version)[0]}
    return {**environment, **_flags(flags)}


def _variables(environment: Mapping[str, str]) -> _Settings:
    """All but those that follow from `gpus`."""
    return {("environment", name): text for name, text in environment.items() if name not in OWN_VARIABLES}


def _flags(flags: Mapping[str, FlagValue]) -> _Settings:
    return {
        ("flag", current_name(flag)): _value(value) for flag, value in flags.items() if value is not False
    }


def _value(value: FlagValue) -> str:
    if value is True:
        return ON
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
