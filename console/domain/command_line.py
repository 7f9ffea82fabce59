"""The command lines that a profile stands for, on one version of SGLang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .profile import Profile, RouterSpec, ServerSpec, server_flags
from .profile_problems import tensor_parallel_size
from .sglang_flags import FlagNote, spell, words_of

SERVER_MODULE = "sglang.launch_server"
ROUTER_MODULE = "sglang_router.launch_router"


class CommandLine(NamedTuple):
    """The words after the Python's path, and what became of flags that the version does not plainly take."""

    arguments: list[str]
    notes: list[FlagNote]


def command_line(server: ServerSpec, profile: Profile, version: str | None) -> CommandLine:
    """`-m sglang.launch_server …` for a profile without problems; None is a version that is not known."""
    words, notes = spell(server_flags(profile, server), version)
    own = [*_address(server, profile), *_place(server, profile), *_part(server)]
    return CommandLine(["-m", SERVER_MODULE, *own, *words], notes)


def router_command_line(router: RouterSpec, profile: Profile) -> CommandLine:
    """`-m sglang_router.launch_router …`, with the addresses of the profile's servers."""
    words = [word for flag, value in router.flags.items() for word in words_of(flag, value)]
    own = ["--host", router.host, "--port", str(router.port)]
    own += ["--prometheus-host", router.host, "--prometheus-port", str(router.metrics_port)]
    return CommandLine(["-m", ROUTER_MODULE, *_workers(profile), *own, *words], [])


def _address(server: ServerSpec, profile: Profile) -> Iterator[str]:
    yield from ("--model-path", profile.model, "--host", server.host)
    yield from ("--port", str(server.port), "--nccl-port", str(server.nccl_port))


def _place(server: ServerSpec, profile: Profile) -> Iterator[str]:
    if not server.gpus:
        return
    yield from ("--tensor-parallel-size", str(tensor_parallel_size(profile, server)))
    yield from ("--base-gpu-id", str(server.gpus[0]))
    if len(server.gpus) > 1 and server.gpus[1] - server.gpus[0] > 1:
        yield from ("--gpu-id-step", str(server.gpus[1] - server.gpus[0]))
    if server.numa is not None:
        yield from ("--numa-node", *map(str, _numa_nodes(server, server.numa)))


def _numa_nodes(server: ServerSpec, numa: int | tuple[int, ...]) -> list[int]:
    """One entry for each GPU of the host up to the server's last, for SGLang looks a node up by GPU id."""
    nodes = numa if isinstance(numa, tuple) else (numa,) * len(server.gpus)
    by_gpu = dict(zip(server.gpus, nodes, strict=True))
    return [by_gpu.get(gpu, nodes[0]) for gpu in range(server.gpus[-1] + 1)]


def _part(server: ServerSpec) -> Iterator[str]:
    if server.role != "single":
        yield from ("--disaggregation-mode", server.role)
    if server.bootstrap_port is not None:
        yield from ("--disaggregation-bootstrap-port", str(server.bootstrap_port))


def _workers(profile: Profile) -> Iterator[str]:
    if profile.kind != "pd":
        yield from ("--worker-urls", *(server.url for server in profile.servers))
        return
    yield "--pd-disaggregation"
    for server in profile.servers:
        bootstrap = [str(server.bootstrap_port)] if server.bootstrap_port else []
        yield from (f"--{server.role}", server.url, *bootstrap)
