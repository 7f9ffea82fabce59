"""What a plan must end: our own runs that live, and servers of others that are in the way.

Nothing is found here by a name: a run is told by what was recorded when it was launched, a server of somebody
else by the process that was seen (case C01).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .host_facts import Group, ProcessFact
from .launch import Launch, all_ports
from .plan import Target
from .run_record import HostRecords, Process, RunRecord
from .server import ServerProcess
from .server_view import ServerView

Groups = Mapping[str | Process, Group]
"""What a look found: by the id of a run, or by the identity of a server that is none."""
_ORDER = ("router", "prefill", "decode", "single")


def running_targets(
    records: HostRecords, views: Sequence[ServerView], groups: Groups | None = None
) -> tuple[Target, ...]:
    """The runs that live, and the servers present that are no run of the console's: routers first.

    Without `groups` a target has its first process only. A run of which a look found nothing is none.
    """
    looked = groups or {}
    strangers = [view.process for view in views if _is_foreign(view, records.runs, looked)]
    found = [_of_run(run, looked.get(run.id)) for run in records.runs if run.alive]
    found += [_of_server(server, looked.get(server.key)) for server in strangers]
    return tuple(sorted((target for target in found if target.pids), key=_place))


def conflicting(targets: Iterable[Target], launches: Sequence[Launch]) -> tuple[Target, ...]:
    """The targets of others that hold a port or a GPU which the launches need."""
    ports = set(all_ports(launches))
    gpus = {gpu for launch in launches for gpu in launch.gpus}
    return tuple(
        target
        for target in targets
        if target.is_foreign and (ports & {target.port, *target.ports} or gpus & set(target.gpus))
    )


def ended_by(targets: Sequence[Target], launches: Sequence[Launch]) -> tuple[Target, ...]:
    """What a switch to the launches ends, in its order: all of ours, of others what is in the way."""
    in_the_way = conflicting(targets, launches)
    return tuple(target for target in targets if not target.is_foreign or target in in_the_way)


def target_of(process: ProcessFact, targets: Iterable[Target]) -> Target | None:
    """The target that the process belongs to."""
    return next((target for target in targets if _holds(target, process)), None)


def _holds(target: Target, process: ProcessFact) -> bool:
    if process.run is not None and target.run is not None:
        return process.run == target.run
    return process.pid in target.pids


def _is_foreign(view: ServerView, runs: Iterable[RunRecord], groups: Groups) -> bool:
    server = view.process
    if not view.is_present or server.state in "ZX":
        return False
    return not any(_is_of_run(server, run, groups.get(run.id, Group())) for run in runs)


def _is_of_run(server: ServerProcess, run: RunRecord, group: Group) -> bool:
    if server.key == run.process or any(member.process == server.key for member in group.members):
        return True
    # A run is a session of its own, whose number is not given away while any process of it lives.
    return run.alive and server.sid == run.pid


def _of_run(run: RunRecord, group: Group | None) -> Target:
    return Target(
        name=f"{run.name} :{run.port}",
        role=run.role,
        run=run.id,
        pids=_pids(group, run.pid),
        port=run.port,
        ports=run.ports or (run.port,),
        gpus=run.gpus,
        sudo=run.sudo,
    )


def _of_server(server: ServerProcess, group: Group | None) -> Target:
    ports = {server.port, server.metrics_port, server.bootstrap_port, *(server.listening or ())}
    place = f":{server.port}" if server.port else f"pid {server.pid}"
    return Target(
        name=f"{server.role} {place}",
        role=server.role,
        server=server.key,
        pids=_pids(group, server.pid),
        port=server.port,
        ports=tuple(sorted(port for port in ports if port is not None)),
        gpus=server.gpus or (),
        owner=server.user,
    )


def _pids(group: Group | None, first: int) -> tuple[int, ...]:
    return (first,) if group is None else tuple(sorted(member.pid for member in group.living))


def _place(target: Target) -> tuple[int, int, str]:
    return (_ORDER.index(target.role), target.port or 0, target.name)
