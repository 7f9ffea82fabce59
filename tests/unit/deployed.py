"""A pair as a console launched it, as values: what the host's records say, and the servers that are seen."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from console.domain.profile import Profile, RouterSpec, ServerSpec
from console.domain.run_record import (
    DeploymentRecord,
    HostRecords,
    LockHolder,
    PlanRecord,
    Proof,
    RunRecord,
    Verification,
)
from console.domain.server import LogPlace, Role, ServerProcess
from console.domain.server_view import ServerView

NOON = 1_793_620_800.0  # 2026-11-02 12:00:00 UTC
LAUNCHED = NOON - 300.0
PROVEN = NOON - 200.0

PAIR = Profile(
    name="pd-ll",
    file="pd-ll.toml",
    title="a pair",
    why="for tests",
    source="nowhere",
    kind="pd",
    model="/models/m",
    servers=(
        ServerSpec(name="prefill", gpus=(0, 1), port=30000, nccl_port=40000, bootstrap_port=8998),
        ServerSpec(name="decode", gpus=(2, 3), port=30001, nccl_port=40001),
    ),
    router=RouterSpec(port=8000, metrics_port=8001),
)
PROOF = Proof(passed=True, at=PROVEN, seconds=0.8, sentence="16 tokens for 70, KV moved")
VERIFIED = Verification(at=PROVEN + 1.0, checked=24)

RECORD = DeploymentRecord(
    id="d1",
    profile=PAIR,
    runs=("d1.prefill", "d1.decode", "d1.router"),
    by="ops@laptop",
    begun_at=LAUNCHED,
    stage="up",
    proof=PROOF,
    verification=VERIFIED,
)
PLAN = PlanRecord(
    id="p1",
    verb="switch",
    profile="pd-ll",
    by="ops@laptop",
    begun_at=LAUNCHED,
    steps=tuple(f"step {number}" for number in range(1, 13)),
    step=4,
)
LOCK = LockHolder(by="ops@laptop", what="switch to pd-ll", since=LAUNCHED, pid=77)


def run(role: Role, port: int, pid: int, gpus: tuple[int, ...] = (), **fields: object) -> RunRecord:
    """One run of the pair, alive unless said otherwise."""
    known: dict[str, object] = {
        "id": f"d1.{role}",
        "deployment": "d1",
        "profile": "pd-ll",
        "name": role,
        "role": role,
        "pid": pid,
        "start_ticks": pid,
        "launched_at": LAUNCHED,
        "by": "ops@laptop",
        "argv": ("python3",),
        "gpus": gpus,
        "port": port,
        "log": f"/runs/{role}.log",
    }
    return msgspec.convert({**known, **fields}, RunRecord)


PREFILL_RUN = run("prefill", 30000, 5857, (0, 1))
DECODE_RUN = run("decode", 30001, 5858, (2, 3))
ROUTER_RUN = run("router", 8000, 5859)


def view(of: RunRecord, state: str = "ready", **fields: object) -> ServerView:
    """The server of a run as it is seen; ready since three minutes before noon."""
    process = ServerProcess(
        pid=of.pid,
        start_ticks=of.start_ticks,
        start_time=of.launched_at,
        role=of.role,
        port=of.port,
        gpus=of.gpus,
        log=LogPlace(kind="file", path=of.log),
    )
    return msgspec.convert(
        {"process": process, "state": state, "since": NOON - 180.0} | fields, ServerView, from_attributes=True
    )


VIEWS = (view(PREFILL_RUN), view(DECODE_RUN), view(ROUTER_RUN))


def records(
    *runs: RunRecord,
    deployment: DeploymentRecord = RECORD,
    plan: PlanRecord | None = None,
    held: bool = False,
) -> HostRecords:
    """The host's records: the pair's own runs, with these in place of those of the same name."""
    by_name = {each.name: each for each in (PREFILL_RUN, DECODE_RUN, ROUTER_RUN, *runs)}
    return HostRecords(
        runs=tuple(by_name.values()), deployment=deployment, plan=plan, lock=LOCK if held else None
    )


def seen(*changed: ServerView, without: Sequence[Role] = ()) -> tuple[ServerView, ...]:
    """The pair's servers, with these in place of those of the same role."""
    by_role = {each.process.role: each for each in (*VIEWS, *changed)}
    return tuple(each for role, each in by_role.items() if role not in without)
