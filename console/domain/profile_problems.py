"""What is wrong with a profile that is well-formed: the parts of it that contradict each other.

Each problem is one line, `key: reason`, with the key as the file has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TypeVar

from .profile import (
    EnvironmentValue,
    Profile,
    ServerSpec,
    ports,
    server_environment,
    server_flags,
)
from .sglang_flags import FlagValue, current_name

_T = TypeVar("_T")

OWN_KEYS = {
    "model-path": "model",
    "host": "host",
    "port": "port",
    "nccl-port": "nccl_port",
    "base-gpu-id": "gpus",
    "gpu-id-step": "gpus",
    "tensor-parallel-size": "gpus",
    "numa-node": "numa",
    "disaggregation-mode": "kind",
    "disaggregation-bootstrap-port": "bootstrap_port",
}
"""Server flags that the console writes itself, each from a key of the profile."""

ROUTER_KEYS = {
    "host": "router.host",
    "port": "router.port",
    "prometheus-host": "router.host",
    "prometheus-port": "router.metrics_port",
    "pd-disaggregation": "kind",
    "prefill": "servers",
    "decode": "servers",
    "worker-urls": "servers",
}
"""The same of the router."""

OWN_VARIABLES = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")
"""Variables that would make `gpus` mean other cards."""

PAIR_FLAGS: dict[str, FlagValue] = {
    "disaggregation-decode-allocation-policy": "early",
    "disaggregation-transfer-backend": "mooncake",
    "dsv4-attn-backend": "auto",
    "dtype": "auto",
    "kv-cache-dtype": "auto",
    "page-size": "the model's own",
    "quantization": "the model's own",
    "revision": "the newest",
    "speculative-algorithm": "none",
}
"""Flags in which both roles of a pair must agree, with their defaults.

Page size, KV dtype and KV layout are compared when the first request comes (sglang 0.5.23
srt/disaggregation/common/conn.py), long after both roles have said that they are ready; the rest goes wrong
later or without a word.
"""

PAIR_VARIABLES = {"SGLANG_DSV4_KV_LAYOUT": "v4", "SGLANG_DISAGGREGATION_NIXL_BACKEND": "UCX"}
"""The same for the environment."""


def problems(profile: Profile) -> list[str]:
    """Every contradiction in the profile; none when it may be tried."""
    found = [*_shape(profile), *_ports(profile), *_gpus(profile), *_limits(profile)]
    found += _environment("environment", profile.environment)
    found += _flags("flags", profile.flags, OWN_KEYS)
    for server in profile.servers:
        where = f"servers.{server.name}"
        found += _environment(f"{where}.environment", server.environment)
        found += _flags(f"{where}.flags", server.flags, OWN_KEYS)
        found += _doubles(f"{where}.flags", {**profile.flags, **server.flags})
    if profile.router:
        found += _environment("router.environment", profile.router.environment)
        found += _flags("router.flags", profile.router.flags, ROUTER_KEYS)
    return found if found else [*_pair(profile)]


def tensor_parallel_size(profile: Profile, server: ServerSpec) -> int:
    """Ranks of one stage of one replica within a server: its GPUs, over the stages and the replicas."""
    return len(server.gpus) // _groups(_named(profile, server))


def _groups(flags: Mapping[str, FlagValue]) -> int:
    # With data-parallel attention the replicas share their GPUs (sglang srt/entrypoints/engine.py).
    replicas = 1 if "enable-dp-attention" in flags else _size(flags, "data-parallel-size")
    return replicas * _size(flags, "pipeline-parallel-size")


def _size(flags: Mapping[str, FlagValue], name: str) -> int:
    size = flags.get(name, 1)
    return size if isinstance(size, int) and size > 1 else 1


def _shape(profile: Profile) -> Iterator[str]:
    names = [server.name for server in profile.servers]
    pair = {"prefill", "decode"}
    if profile.kind == "pd" and set(names) != pair:
        yield f"servers: a pd profile has prefill and decode, not {', '.join(names) or 'none'}"
    if profile.kind != "pd" and pair & set(names):
        yield f"servers: only a pd profile has servers named {' or '.join(sorted(pair & set(names)))}"
    if profile.kind == "single" and len(names) != 1:
        yield f"servers: a single profile has one, not {len(names)}"
    if profile.kind == "replicas" and len(names) < 2:
        yield f"servers: a replicas profile has two or more, not {len(names)}"
    for name in names:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            yield f"servers.{name}: a server is named in lower-case words and numbers, parted by dashes"
    yield from _router_and_bootstrap(profile)


def _router_and_bootstrap(profile: Profile) -> Iterator[str]:
    if profile.kind == "single" and profile.router:
        yield "router: a single profile has none"
    if profile.kind != "single" and not profile.router:
        yield f"router: missing; a {profile.kind} profile is reached through one"
    for server in profile.servers:
        if server.role == "prefill" and server.bootstrap_port is None:
            yield f"servers.{server.name}.bootstrap_port: missing; decode asks there for its prefill"
        if server.role != "prefill" and server.bootstrap_port is not None:
            yield f"servers.{server.name}.bootstrap_port: only a prefill server has one"


def _ports(profile: Profile) -> Iterator[str]:
    for key, port, first in _repeated(ports(profile)):
        yield f"{key}: {port} is used twice, by {first} as well"


def _gpus(profile: Profile) -> Iterator[str]:
    taken = [(f"servers.{server.name}.gpus", gpu) for server in profile.servers for gpu in server.gpus]
    for key, gpu, first in _repeated(taken):
        yield f"{key}: GPU {gpu} is used twice, by {first} as well"
    for server in profile.servers:
        yield from (f"servers.{server.name}.{problem}" for problem in _placement(profile, server))


def _placement(profile: Profile, server: ServerSpec) -> Iterator[str]:
    gpus = server.gpus
    steps = {after - before for before, after in pairwise(gpus)}
    if len(steps) > 1 or any(step < 1 for step in steps):
        yield "gpus: must ascend in even steps, for SGLang counts them by --gpu-id-step"
    groups = _groups(_named(profile, server))
    if gpus and len(gpus) % groups:
        yield f"gpus: {len(gpus)} do not divide into the {groups} stages and replicas that the flags ask for"
    if server.numa is not None and not gpus:
        yield "numa: SGLang binds to a node by GPU, and gpus is empty"
    if isinstance(server.numa, tuple) and gpus and len(server.numa) != len(gpus):
        yield f"numa: one node for each of the {len(gpus)} gpus, not {len(server.numa)}"


def _limits(profile: Profile) -> Iterator[str]:
    if profile.limits.stall_s > profile.limits.ceiling_s:
        yield "limits.stall_s: longer than limits.ceiling_s"


def _environment(where: str, environment: Mapping[str, EnvironmentValue]) -> Iterator[str]:
    for name, value in environment.items():
        if not name.isascii() or not name.isidentifier():
            yield f"{where}.{name}: not the name of an environment variable"
        elif name in OWN_VARIABLES:
            yield f"{where}.{name}: would make gpus mean other cards; leave it out"
        elif value is True:
            yield f'{where}.{name}: expected a string or a whole number; write 1, "true" or what it wants'


def _flags(where: str, flags: Mapping[str, FlagValue], own: Mapping[str, str]) -> Iterator[str]:
    for flag in flags:
        if not flag.isascii() or not flag.replace("-", "").isalnum() or flag.startswith("-"):
            yield f"{where}.{flag}: a flag is written as in mem-fraction-static, with no dashes before it"
        elif flag == "config":
            yield f"{where}.{flag}: a settings file would hide flags from the console; write them here"
        elif owner := _owner(flag, own):
            yield f"{where}.{flag}: follows from {owner}; leave it out"


def _doubles(where: str, flags: Iterable[str]) -> Iterator[str]:
    for name, times in Counter(map(current_name, flags)).items():
        if times > 1:
            yield f"{where}.{name}: given twice, under two of its names"


def _owner(flag: str, own: Mapping[str, str]) -> str | None:
    """The key that says what this flag would; argparse takes the beginning of a name for the name."""
    name = current_name(flag)
    return next((key for owned, key in own.items() if owned.startswith(name)), None)


def _pair(profile: Profile) -> Iterator[str]:
    if profile.kind != "pd":
        return
    prefill, decode = (
        next(server for server in profile.servers if server.name == name) for name in ("prefill", "decode")
    )
    yield from _disagreements("flags", PAIR_FLAGS, _named(profile, prefill), _named(profile, decode))
    yield from _disagreements(
        "environment",
        PAIR_VARIABLES,
        server_environment(profile, prefill),
        server_environment(profile, decode),
    )
    ranks = sorted(tensor_parallel_size(profile, server) or 1 for server in (prefill, decode))
    if ranks[1] % ranks[0]:
        yield f"servers.decode.gpus: {ranks[1]} ranks of one role do not divide among {ranks[0]} of the other"


def _named(profile: Profile, server: ServerSpec) -> dict[str, FlagValue]:
    return {current_name(flag): value for flag, value in server_flags(profile, server).items()}


def _disagreements(
    table: str, defaults: Mapping[str, object], prefill: Mapping[str, object], decode: Mapping[str, object]
) -> Iterator[str]:
    for key, default in defaults.items():
        one, other = prefill.get(key, default), decode.get(key, default)
        if one != other:
            yield f"servers.decode.{table}.{key}: {other}, but prefill has {one}; a pair must agree"


def _repeated(holders: Iterable[tuple[str, _T]]) -> Iterator[tuple[str, _T, str]]:
    """Each later holder of a thing, the thing, and its first holder."""
    first: dict[_T, str] = {}
    for key, thing in holders:
        if thing in first:
            yield key, thing, first[thing]
        else:
            first[thing] = key
