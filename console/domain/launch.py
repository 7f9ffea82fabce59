"""What is launched for a profile: one process for each server, and one for the router."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

import msgspec

from .command_line import command_line, router_command_line
from .profile import Profile, RouterSpec, ServerSpec, router_environment, server_environment
from .secrets import BLOT, is_secret
from .server import Role
from .sglang_flags import FlagNote


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One process to be launched."""

    name: str
    """The server's name in the profile, or `router`."""
    role: Role
    argv: tuple[str, ...]
    """From the path of the Python on; without sudo."""
    environment: dict[str, str] = {}
    """Beside what the host gives every process."""
    gpus: tuple[int, ...] = ()
    port: int
    ports: tuple[int, ...]
    """Every port that it listens on, the HTTP port first."""
    sudo: bool = False
    notes: tuple[FlagNote, ...] = ()
    """Flags that this version of SGLang does not plainly take."""


def launches(profile: Profile, python: str, version: str | None) -> tuple[Launch, ...]:
    """Every launch of the profile, in the order of a start: prefill first, the router last.

    `python` is used where the profile names none; `version` is that of its SGLang, None when not known.
    """
    used = profile.python or python
    servers = sorted(profile.servers, key=lambda server: server.role != "prefill")
    found = [_server(profile, server, used, version) for server in servers]
    return (*found, *([_router(profile, profile.router, used)] if profile.router else []))


def _server(profile: Profile, server: ServerSpec, python: str, version: str | None) -> Launch:
    arguments, notes = command_line(server, profile, version)
    bootstrap = () if server.bootstrap_port is None else (server.bootstrap_port,)
    return Launch(
        name=server.name,
        role=server.role,
        argv=(python, *arguments),
        environment=_tools_first(server_environment(profile, server), python),
        gpus=server.gpus,
        port=server.port,
        ports=(server.port, server.nccl_port, *bootstrap),
        sudo=profile.sudo,
        notes=tuple(notes),
    )


def _router(profile: Profile, router: RouterSpec, python: str) -> Launch:
    return Launch(
        name="router",
        role="router",
        argv=(python, *router_command_line(router, profile).arguments),
        environment=router_environment(router),
        port=router.port,
        ports=(router.port, router.metrics_port),
    )


def _tools_first(environment: dict[str, str], python: str) -> dict[str, str]:
    """A PATH of the profile's own begins with the Python's folder as well: SGLang runs tools by name."""
    folder = python.rpartition("/")[0]
    if folder and "PATH" in environment:
        return {**environment, "PATH": f"{folder}:{environment['PATH']}"}
    return environment


def in_shell(launch: Launch, log: str) -> str:
    """The command that does by hand what the agent does: its own session, its own log, no stdin.

    It is shown, so keys and passwords in it are blotted out.
    """
    python = launch.argv[0]
    folder = python.rpartition("/")[0]
    path = [f"PATH={shlex.quote(folder)}:$PATH"] if folder and "PATH" not in launch.environment else []
    variables = [
        f"{name}={BLOT if is_secret(name) else shlex.quote(value)}"
        for name, value in launch.environment.items()
    ]
    sudo = ["sudo", "-n"] if launch.sudo else []
    words = [*sudo, "env", *path, *variables, *_shown(launch.argv)]
    return f"setsid {' '.join(words)} </dev/null >{_in_home(log)} 2>&1 &"


def _shown(words: Iterable[str]) -> Iterator[str]:
    """Quoted; what follows on a flag that names a secret is blotted out."""
    secret = False
    for word in words:
        yield BLOT if secret else shlex.quote(word)
        secret = word.startswith("--") and is_secret(word)


def _in_home(path: str) -> str:
    """Quoted, but for the `~/` that a shell would leave as it is within quotes."""
    home, rest = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    return home + shlex.quote(rest)


def all_ports(found: Iterable[Launch]) -> tuple[int, ...]:
    """Every port of these launches, ascending."""
    return tuple(sorted({port for launch in found for port in launch.ports}))
