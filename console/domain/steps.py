"""The steps of plans: what each does, the commands it stands for, what it waits for and how long at most."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from .launch import Launch, all_ports, in_shell
from .profile import Limits, Profile, server_flags
from .run_record import Process

StepKind = Literal[
    "preflight", "drain", "stop", "gone", "free", "launch", "ready", "router", "prove", "verify", "record"
]
PREFLIGHT_S = 90.0
"""SGLang's parser takes 6 s to import, most of a minute on a cold disk."""
GONE_S = 15.0
"""From SIGKILL until the kernel has taken a process apart."""
FREE_S = 30.0
"""Until the driver has given the memory back."""
LAUNCH_S = 10.0
ROUTER_S = 90.0
"""The router looks for its workers every 30 s while they start."""
PROOF_S = 60.0
VERIFY_S = 30.0
PREFILL_AHEAD_S = 1.0
RUNS = "~/.local/state/dsv4-console/runs/NEW"
"""Where the commands to be read by people put logs; the agent gives each run a folder of its own."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One server that a plan ends: a run of the console's, or the server of somebody else."""

    name: str
    """Its role and port, as `decode :30001`."""
    role: str
    run: str | None = None
    """Id of the run."""
    server: Process | None = None
    """The identity of its first process, where it is no run."""
    pids: tuple[int, ...]
    """Its processes when the plan was made. More are found when it runs."""
    port: int | None = None
    ports: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    owner: str | None = None
    """The user that it runs as, where it is no run."""
    sudo: bool = False

    @property
    def is_foreign(self) -> bool:
        """Not launched by a console: ended only after a confirmation of its own."""
        return self.run is None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step."""

    kind: StepKind
    title: str
    waits_for: str
    """What must be true at its end."""
    limit_s: float
    commands: tuple[str, ...] = ()
    """The commands that would do the same by hand, on the host."""
    targets: tuple[Target, ...] = ()
    """What it ends."""
    launches: tuple[Launch, ...] = ()
    """What it starts or waits for."""
    ports: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()


def preflight_step(profile: Profile, launches: Sequence[Launch]) -> Step:
    """Look before anything is touched."""
    return Step(
        kind="preflight",
        title="look before anything is touched",
        waits_for="paths, Python, flags, GPUs, ports, memory and disk to be as the profile needs them",
        limit_s=PREFLIGHT_S,
        launches=tuple(launches),
        ports=all_ports(launches),
        gpus=profile.gpus,
    )


def ending_steps(running: Sequence[Target], limits: Limits) -> list[Step]:
    """Router first, then all servers together, then look whether they are gone."""
    routers = tuple(target for target in running if target.role == "router")
    servers = tuple(target for target in running if target.role != "router")
    steps = []
    if routers and servers:
        steps.append(
            Step(
                kind="drain",
                title="drain the router",
                waits_for=f"it to finish its requests and end; SIGKILL after {limits.drain_s:.0f} s",
                limit_s=limits.drain_s + GONE_S,
                commands=_kills("TERM", routers),
                targets=routers,
            )
        )
    together = servers or routers
    if together:
        steps += [
            Step(
                kind="stop",
                title=f"stop {_names(together)}" + (" together" if len(together) > 1 else ""),
                waits_for=f"every process to end; SIGKILL for what is left after {limits.stop_s:.0f} s",
                limit_s=limits.stop_s + GONE_S,
                commands=_kills("TERM", together),
                targets=together,
            ),
            Step(
                kind="gone",
                title="see that they are gone",
                waits_for="no process of them to live, and none to come back",
                limit_s=GONE_S,
                commands=(f"ps -o pid,stat,args -p {','.join(map(str, _pids(running)))}",),
                targets=tuple(running),
            ),
            Step(
                kind="free",
                title="see that ports and GPUs are free",
                waits_for="nobody to listen on their ports and their memory to be released",
                limit_s=FREE_S,
                commands=("ss -ltnp", *(["nvidia-smi"] if any(target.gpus for target in running) else [])),
                targets=tuple(running),
                ports=tuple(sorted({port for target in running for port in target.ports})),
                gpus=tuple(sorted({gpu for target in running for gpu in target.gpus})),
            ),
        ]
    return steps


def starting_steps(profile: Profile, launches: Sequence[Launch]) -> list[Step]:
    """Launch, wait, prove, compare, record."""
    servers = tuple(launch for launch in launches if launch.role != "router")
    routers = tuple(launch for launch in launches if launch.role == "router")
    ahead = ", prefill a second ahead" if any(launch.role == "prefill" for launch in servers) else ""
    steps = [
        Step(
            kind="launch",
            title=f"launch {_launched(servers)}{ahead}",
            waits_for="each to be a process of its own",
            limit_s=LAUNCH_S,
            commands=(f"mkdir -p {RUNS}", *_by_hand(servers)),
            launches=servers,
        ),
        Step(
            kind="ready",
            title=f"wait until {_launched(servers)} {'are' if len(servers) > 1 else 'is'} ready",
            waits_for="every process to live, its ready line, no failure before that, and green health",
            limit_s=profile.limits.ceiling_s,
            commands=tuple(f"curl -f {server.url}/health" for server in profile.servers),
            launches=servers,
        ),
    ]
    if routers and profile.router:
        steps += [
            Step(
                kind="launch",
                title="launch the router",
                waits_for="it to be a process of its own",
                limit_s=LAUNCH_S,
                commands=tuple(_by_hand(routers)),
                launches=routers,
            ),
            Step(
                kind="router",
                title="wait until the router has its workers",
                waits_for="/readiness 200 and every worker healthy in /workers",
                limit_s=ROUTER_S,
                commands=tuple(f"curl -f {profile.router.url}/{path}" for path in ("readiness", "workers")),
                launches=routers,
            ),
        ]
    return [
        *steps,
        Step(
            kind="prove",
            title="prove it with a real request",
            waits_for="tokens for a prompt of more than one page"
            + (", KV moved and no transfer failed" if profile.kind == "pd" else ""),
            limit_s=PROOF_S,
            commands=(_request(profile),),
            launches=tuple(launches),
        ),
        Step(
            kind="verify",
            title="compare what runs with the profile",
            waits_for="/server_info, environment and log of each server to say what the profile asks for",
            limit_s=VERIFY_S,
            commands=tuple(f"curl -f {server.url}/server_info" for server in profile.servers),
            launches=servers,
        ),
        record_step("the deployment is recorded as up"),
    ]


def record_step(waits_for: str) -> Step:
    """The last step of each plan."""
    return Step(kind="record", title="record it", waits_for=waits_for, limit_s=10.0)


def log_of(launch: Launch) -> str:
    """Where its log will be, before the run has an id."""
    return f"{RUNS}/{launch.name}.log"


def _by_hand(launches: Sequence[Launch]) -> Iterator[str]:
    for launch in launches:
        yield in_shell(launch, log_of(launch))
        if launch.role == "prefill":
            yield f"sleep {PREFILL_AHEAD_S:.0f}"


def _request(profile: Profile) -> str:
    model = server_flags(profile, profile.servers[0]).get("served-model-name", profile.model)
    body = f'{{"model": "{model}", "prompt": "…", "max_tokens": 16}}'
    header = "-H 'Content-Type: application/json'"
    return f"curl -f {profile.entry_url}/v1/completions {header} -d {shlex.quote(body)}"


def _kills(signal: str, targets: Iterable[Target]) -> tuple[str, ...]:
    return tuple(
        f"{'sudo -n ' if target.sudo else ''}kill -{signal} {shlex.join(map(str, target.pids))}"
        for target in targets
    )


def _pids(targets: Iterable[Target]) -> list[int]:
    return sorted(pid for target in targets for pid in target.pids)


def ended_names(targets: Sequence[Target]) -> str:
    """The targets in words, those of others marked."""
    foreign = [target.name for target in targets if target.is_foreign]
    if not foreign:
        return _names(targets)
    which = "" if len(foreign) == len(targets) else f"{_listed(foreign)} "
    return f"{_names(targets)} ({which}not launched by the console)"


def _names(targets: Sequence[Target]) -> str:
    return _listed([target.name for target in targets])


def _launched(launches: Sequence[Launch]) -> str:
    return _listed([f"{launch.name} :{launch.port}" for launch in launches])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)
