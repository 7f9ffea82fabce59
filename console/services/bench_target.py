"""What a benchmark is sent to: the deployment's entry, and the servers behind it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from console.domain.errors import NotReady, NotRunning
from console.domain.profile import BenchShape, Profile, server_environment, server_flags
from console.domain.run_record import DeploymentRecord, HostRecords
from console.domain.secrets import blotted
from console.domain.server_view import ServerView


class BenchTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests go."""

    name: str
    """As `router :8000 of pd-ll`."""
    port: int
    servers: dict[str, int]
    """The servers that compute, by role and port, to their ports."""
    shape: BenchShape
    profile: Profile | None = None
    verified: bool | None = None
    runs: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()
    """Empty: not known, or none."""
    serving: int | None = None
    """Requests at this moment; None where no server tells."""
    version: str | None = None
    """Of SGLang."""
    python: str | None = None
    """SGLang's own, which has httpx."""

    @property
    def api_key(self) -> str | None:
        """What its requests must carry."""
        return self.profile.api_key if self.profile else None

    @property
    def url(self) -> str:
        """Of completions."""
        return f"http://127.0.0.1:{self.port}/v1/completions"


def find_target(views: Sequence[ServerView], records: HostRecords) -> BenchTarget:
    """The router, else the single server: of the deployment, where one runs.

    Raises NotReady while one of its servers is on its way up, NotRunning when there is nothing to wait for.
    """
    present = [view for view in views if view.is_present]
    own = [view for view in present if _is_launched(view, records)]
    entry = _entry(own or present)
    is_router = entry.process.role == "router"
    workers = [view for view in own or present if view.process.role != "router"] if is_router else [entry]
    _refuse_unready([*workers, entry])
    return _target(entry, workers, records.deployment if own else None)


def _is_launched(view: ServerView, records: HostRecords) -> bool:
    """It is a server of the deployment; with sudo, one in the session of its run."""
    process = view.process
    runs = [run for run in records.of_deployment() if run.alive]
    return any(process.key == run.process or process.sid == run.pid for run in runs)


def _entry(views: Sequence[ServerView]) -> ServerView:
    for role in ("router", "single"):
        for view in views:
            if view.process.role == role:
                return view
    if views:
        raise NotRunning("a pair without its router cannot be measured", next_step="restart the pair")
    raise NotRunning("no server runs on this host", next_step="launch a profile first")


def _refuse_unready(views: Sequence[ServerView]) -> None:
    """What has failed comes first: waiting for the others would be in vain."""
    for view in sorted(views, key=lambda view: view.state == "starting"):
        role, why = view.process.role, view.reason or view.phase or view.state
        if view.state in ("failed", "gone"):
            raise NotRunning(f"{role} does not serve: {why}", next_step=view.next or "launch it anew")
        if view.state == "starting" or view.process.port is None:
            raise NotReady(f"{role} is not ready: {why}", next_step="wait until it is")


def _target(
    entry: ServerView, workers: Sequence[ServerView], deployment: DeploymentRecord | None
) -> BenchTarget:
    profile = deployment.profile if deployment else None
    of = f" of {profile.name}" if profile else ""
    loads = [view.running + (view.queued or 0) for view in workers if view.running is not None]
    assert entry.process.port is not None
    return BenchTarget(
        name=f"{entry.process.role} :{entry.process.port}{of}",
        port=entry.process.port,
        servers={f"{view.process.role} :{view.process.port}": view.process.port or 0 for view in workers},
        shape=profile.bench if profile else BenchShape(),
        profile=profile,
        verified=deployment.verification.verified if deployment and deployment.verification else None,
        runs=deployment.runs if deployment else (),
        gpus=tuple(sorted({gpu for view in workers for gpu in view.process.gpus or ()})),
        serving=sum(loads) if loads else None,
        version=next((view.process.version for view in workers if view.process.version), None),
        python=next((view.process.python for view in workers if view.process.python), None),
    )


def settings_of(profile: Profile) -> dict[str, str]:
    """Everything that a profile sets but secrets, flat: as `decode flag kv-cache-dtype` to `fp8_e4m3`."""
    profile = blotted(profile)
    found = {"model": profile.model, "kind": profile.kind, "python": profile.python or "the host's own"}
    for server in profile.servers:
        found |= {
            f"{server.name} flag {flag}": str(value) for flag, value in server_flags(profile, server).items()
        }
        found |= {
            f"{server.name} {name}": value for name, value in server_environment(profile, server).items()
        }
        found[f"{server.name} gpus"] = ",".join(map(str, server.gpus)) or "none"
        found[f"{server.name} numa"] = str(server.numa)
    if profile.router:
        found |= {f"router flag {flag}": str(value) for flag, value in profile.router.flags.items()}
    return found


def drawn_seed() -> int:
    """One that nobody has used yet, and short enough to be typed again."""
    return secrets.randbelow(1_000_000_000)
