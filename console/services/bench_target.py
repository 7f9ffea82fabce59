"""What a benchmark is sent to: the deployment's entry, and the servers behind it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from console.domain.errors import NotRunning
from console.domain.profile import BenchShape, Profile, server_environment, server_flags
from console.domain.run_record import HostRecords
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
    def url(self) -> str:
        """Of completions."""
        return f"http://127.0.0.1:{self.port}/v1/completions"


def find_target(views: Sequence[ServerView], records: HostRecords) -> BenchTarget:
    """The router that is ready, else the single server. Raises NotRunning, also for half a pair."""
    present = [view for view in views if view.is_present]
    entries = sorted(present, key=lambda view: view.process.role not in ("router", "single"))
    entry = next((view for view in entries if view.process.role == "router"), entries[0] if entries else None)
    if entry is None:
        raise NotRunning("no server runs on this host", next_step="launch a profile first")
    if entry.process.role in ("prefill", "decode"):
        raise NotRunning("a pair without its router cannot be measured", next_step="restart the pair")
    unready = [view for view in present if view.state != "ready"]
    if unready or entry.process.port is None:
        what = unready[0] if unready else entry
        raise NotRunning(
            f"{what.process.role} is not ready: {what.reason or what.state}", next_step="wait until it is"
        )
    return _target(entry, present, records)


def _target(entry: ServerView, present: Sequence[ServerView], records: HostRecords) -> BenchTarget:
    workers = [view for view in present if view.process.role != "router"]
    deployment = records.deployment if any(run.alive for run in records.of_deployment()) else None
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
    """Everything that a profile sets, flat: as `decode flag kv-cache-dtype` to `fp8_e4m3`."""
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
