"""A profile: everything that is needed to launch one deployment, and what must be true once it runs.

The string under each field is its manual; console/profiles.py says how files become these values. Flags are
written without dashes, by their names of SGLang 0.5.23 (see sglang_flags.py); `false` takes back what stands
further up: in a profile that is extended, or in the profile's own [flags] or [environment].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from .server import Role
from .sglang_flags import FlagValue
from .version import parse_range

Kind = Literal["single", "pd", "replicas"]
"""`single`: one server. `pd`: one prefill and one decode server behind a router. `replicas`: several like
servers behind a router."""

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Index = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
EnvironmentValue = str | int | bool
"""`false`: not set; `true` says nothing (1? yes?) and is refused."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[expect]`: what must be true of a running server, beside that it got the flags and the environment."""

    server_info: dict[str, FlagValue] = {}
    """Fields of its /server_info and their values."""
    log: tuple[str, ...] = ()
    """Texts, each of which must stand in the log of this start."""
    log_never: tuple[str, ...] = ()
    """Texts, none of which may."""
    largest_graph: Count | None = None
    """The largest batch for which it must have captured a decode graph. Not asked of a prefill server."""


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[servers.NAME]`: one server. A pd profile's are `prefill` and `decode`; others are named at will."""

    name: str
    """The name of its table; not written in the file."""
    gpus: tuple[Index, ...] = ()
    """GPUs in PCI order (as nvidia-smi counts), ascending and evenly spaced; without any it runs on the CPU.
    Their number, over the pipeline- and data-parallel sizes among the flags, is the tensor-parallel size."""
    numa: Index | tuple[Index, ...] | None = None
    """NUMA node to bind to, by numactl: one for all GPUs, or one for each. Default: SGLang decides."""
    host: str = "127.0.0.1"
    """Address to listen on. On loopback nothing is exposed; the console reaches it through its tunnel."""
    port: Port
    nccl_port: Port
    """Where the ranks meet. Fixed: two servers that draw a port in the same second may draw the same one."""
    bootstrap_port: Port | None = None
    """A prefill server's, on which decode servers ask for it."""
    environment: dict[str, EnvironmentValue] = {}
    """Goes before the profile's own."""
    flags: dict[str, FlagValue] = {}
    """Goes before the profile's own."""
    expect: Expectation = Expectation()
    """In addition to the profile's own."""

    @property
    def role(self) -> Role:
        """What it does in the deployment."""
        if self.name == "prefill":
            return "prefill"
        return "decode" if self.name == "decode" else "single"

    @property
    def url(self) -> str:
        """Where the router on the same host finds it."""
        return _url(self.host, self.port)


class RouterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[router]`: the way in to a deployment of several servers, whose addresses it is given."""

    host: str = "127.0.0.1"
    port: Port
    metrics_port: Port
    environment: dict[str, EnvironmentValue] = {}
    """The profile's own environment is the servers' alone."""
    flags: dict[str, FlagValue] = {}
    """As those of a server, of sglang_router 0.3.2."""

    @property
    def url(self) -> str:
        """Where requests go."""
        return _url(self.host, self.port)


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[limits]`: how long a start may take."""

    ceiling_s: Positive = 1800.0
    """Seconds after which a server that is not ready has failed."""
    stall_s: Positive = 300.0
    """Seconds without any progress in the log after which the start is called stalled."""
    drain_s: Positive = 30.0
    """Seconds that a router gets to finish the requests it has."""
    stop_s: Positive = 45.0
    """Seconds from SIGTERM to SIGKILL. An idle SGLang 0.5.15 takes 16 to end."""


class BenchShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[bench]`: the benchmark that this profile is judged by."""

    input_tokens: Count = 1024
    output_tokens: Count = 256
    concurrency: tuple[Count, ...] = (1, 16)
    """Numbers of requests in flight, one run for each."""
    targets: dict[int, Positive] = {}
    """Output tokens per second that are wanted, by concurrency."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of a profile's file."""

    name: str
    """The name of its file without .toml; not written in it."""
    file: str
    """Where it was read from; not written in it."""
    title: str
    """One line for lists."""
    why: str
    """What it is for, and what is different about it."""
    source: str
    """Where its settings and the figures told of it come from."""
    kind: Kind
    model: str
    """Path of the model's folder on the host, or a name for SGLang to fetch."""
    python: str | None = None
    """Path of the Python on the host whose SGLang runs. Default: the host's own, as its settings name it."""
    sudo: bool = False
    """true: the servers run as root, by `sudo -n`, which must not ask for a password."""
    requires: str = ""
    """Versions of SGLang that it is for, such as ">=0.5.12,<0.5.24". Default: any."""
    known_failure: str | None = None
    """How it is known to fail. A profile that has this is experimental, and is announced as such."""
    environment: dict[str, EnvironmentValue] = {}
    """Environment of every server. Where there are GPUs the console adds CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    flags: dict[str, FlagValue] = {}
    """Flags of every server."""
    servers: tuple[ServerSpec, ...]
    """In the file: tables [servers.NAME]."""
    router: RouterSpec | None = None
    limits: Limits = Limits()
    expect: Expectation = Expectation()
    """Of every server."""
    bench: BenchShape = BenchShape()

    def __post_init__(self) -> None:
        try:
            parse_range(self.requires)
        except ValueError as error:
            raise ValueError(f"requires: {error}") from error

    @property
    def gpus(self) -> tuple[int, ...]:
        """All GPUs it needs, ascending."""
        return tuple(sorted({gpu for server in self.servers for gpu in server.gpus}))

    @property
    def entry_url(self) -> str:
        """Where requests of users go: to the router, else to the server."""
        return self.router.url if self.router else self.servers[0].url

    @property
    def api_key(self) -> str | None:
        """What those requests must carry."""
        flags = self.router.flags if self.router else server_flags(self, self.servers[0])
        key = flags.get("api-key")
        return key if isinstance(key, str) else None


def server_flags(profile: Profile, server: ServerSpec) -> dict[str, FlagValue]:
    """All flags of a server, as the profile writes them."""
    flags = {**profile.flags, **server.flags}
    return {flag: value for flag, value in flags.items() if value is not False}


def server_environment(profile: Profile, server: ServerSpec) -> dict[str, str]:
    """What a server's environment has beside what the host gives every process."""
    # CUDA counts the fastest first unless told; base-gpu-id would then mean another card than `gpus` does.
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if server.gpus else {}
    return {**order, **_set({**profile.environment, **server.environment})}


def router_environment(router: RouterSpec) -> dict[str, str]:
    """The same for the router."""
    return _set(router.environment)


def expectation(profile: Profile, server: ServerSpec) -> Expectation:
    """What must be true of a server: the profile's own, and its."""
    common, own = profile.expect, server.expect
    return Expectation(
        server_info={**common.server_info, **own.server_info},
        log=common.log + own.log,
        log_never=common.log_never + own.log_never,
        largest_graph=None if server.role == "prefill" else own.largest_graph or common.largest_graph,
    )


def ports(profile: Profile) -> list[tuple[str, int]]:
    """Every port that the deployment listens on, each with its key in the file."""
    found = []
    for server in profile.servers:
        where = f"servers.{server.name}"
        found += [(f"{where}.port", server.port), (f"{where}.nccl_port", server.nccl_port)]
        found += [(f"{where}.bootstrap_port", server.bootstrap_port)] if server.bootstrap_port else []
    if profile.router:
        found += [("router.port", profile.router.port), ("router.metrics_port", profile.router.metrics_port)]
    return found


def _set(environment: Mapping[str, EnvironmentValue]) -> dict[str, str]:
    return {name: str(value) for name, value in environment.items() if value is not False}


def _url(host: str, port: int) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"
