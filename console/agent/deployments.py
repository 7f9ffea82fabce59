"""The orders that change the host, and those that look at what was launched on it."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Protocol

from . import procfs, signals, statefolder, sudo
from .frames import FrameWriter
from .groups import ProcessTable, RunIdentity, RunMembers, members_of_server, server_of, stats
from .hostlock import HostLock
from .launching import Launcher
from .records import KEPT, Records
from .refusal import Refused
from .runs import RunFolders, identity
from .statefolder import StateFolder

READ_ONLY = "this session is read-only"
NO_LOCK = "this session does not hold the lock of the host"

NOTHING: dict[str, Any] = {"runs": [], "deployment": None, "plan": None, "lock": None}

Order = Dict[str, Any]


class FactReader(Protocol):
    """Tells the fields of console.domain.host_facts.ProcessFact; see processfacts.fact."""

    def __call__(self, proc: str, pid: int, run: str | None = None) -> dict[str, Any] | None: ...


class Deployments:
    """Carries out each order at once, and tells of every change in the state folder."""

    def __init__(
        self,
        writer: FrameWriter,
        fact: FactReader,
        boot_id: str | None,
        *,
        readonly: bool = False,
        environment: Mapping[str, str] = os.environ,
        proc: str = "/proc",
    ) -> None:
        self._writer = writer
        self._fact = fact
        self._proc = proc
        self._always_readonly = readonly
        self._told_readonly = False
        self._state = StateFolder(statefolder.location(environment))
        self._lock = HostLock(self._state)
        self._folders = RunFolders(self._state)
        self._launcher = Launcher(self._folders, boot_id, environment, proc)
        self._records = Records(self._state, self._folders, self._lock, boot_id, proc)
        self._told: dict[str, Any] | None = None
        self.orders: dict[str, Callable[[Order], object]] = {
            "readonly": self._set_readonly,
            "lock": self._take_lock,
            "unlock": self._release_lock,
            "launch": self._launch,
            "signal": self._signal,
            "look": self._look,
            "environment": self._environment,
            "write": self._write,
        }

    def answer(self, order: Order) -> None:
        """Carry out one of the `orders`. What it changed is told before it is answered."""
        reply: dict[str, object] = {"kind": "reply", "id": order.get("id"), "more": False}
        try:
            value = self.orders[order["op"]](order)
            if value is not None:
                reply.update(kind="value", value=value)
        except Refused as refusal:
            reply["error"] = str(refusal)
        except OSError as error:
            reply["error"] = in_words(error, self._state.path)
        self.look_for_changes()
        self._writer.put(reply)

    def look_for_changes(self) -> None:
        """Send the records when they differ from those sent last."""
        self._launcher.collect()
        try:
            found = self._records.look()
        except OSError as error:
            # As on a network disk whose server forgot the file: what was told holds until it is seen anew.
            found = dict(self._told or NOTHING, note=in_words(error, self._state.path))
        if found != self._told:
            self._told = found
            self._writer.put({"kind": "records", **found})

    def run_of(self, pid: int) -> str | None:
        """The id of the living run that a process belongs to."""
        return run_among(self._living(ProcessTable(self._proc)), pid)

    def ports_of_root(self) -> dict[int, int]:
        """The ports that the living runs under sudo were launched with, each with the pid of its server."""
        table = ProcessTable(self._proc)
        runs = [run.record for run in self._records.living() if run.record.get("sudo")]
        servers = [(record["ports"], server_of(table, identity(record)) or record["pid"]) for record in runs]
        return {port: pid for ports, pid in servers for port in ports}

    def _living(self, table: ProcessTable) -> dict[str, RunMembers]:
        return {run.record["id"]: RunMembers(table, identity(run.record)) for run in self._records.living()}

    def _set_readonly(self, order: Order) -> None:
        self._told_readonly = bool(order["on"])

    def refuse_when_readonly(self) -> None:
        """Raise Refused when this session changes nothing."""
        if self._always_readonly or self._told_readonly:
            raise Refused(READ_ONLY)

    def _refuse_to_change(self) -> None:
        self.refuse_when_readonly()
        if not self._lock.held:
            raise Refused(NO_LOCK)

    def _take_lock(self, order: Order) -> object:
        self.refuse_when_readonly()
        other = self._lock.take(str(order["by"]), str(order["what"]))
        return {"held": other is None, "holder": other or self._lock.holder()}

    def _release_lock(self, order: Order) -> None:
        self._lock.release()

    def _launch(self, order: Order) -> object:
        self._refuse_to_change()
        asked = order["run"]
        self._records.look()
        known = self._records.of(str(asked.get("id")))
        if known is not None:
            return known
        record = self._launcher.launch(asked)
        living = [run.record["id"] for run in self._records.living()]
        self._folders.prune({record["id"], *living, *self._records.of_deployment()})
        return dict(record, alive=True, exit_code=None)

    def _signal(self, order: Order) -> object:
        self._refuse_to_change()
        name = order["signal"]
        if name not in signals.NUMBERS:
            raise Refused(f"{name!r} is not a signal that is sent")
        self._records.look()
        table = ProcessTable(self._proc)
        targets = {target.pid: target for run in order["runs"] for target in self._targets(table, run)}
        for pid, start_ticks in order["processes"]:
            targets.setdefault(pid, signals.Target(pid, start_ticks))
        return signals.deliver(self._proc, list(targets.values()), name)

    def _targets(self, table: ProcessTable, run: str) -> list[signals.Target]:
        as_root = self._folders.identity(run).sudo
        found = stats(table, self._records.members(table, run))
        return [signals.Target(pid, stat.start_ticks, as_root) for pid, stat in found]

    def _look(self, order: Order) -> object:
        self._launcher.collect()
        self._records.look()
        table = ProcessTable(self._proc)
        runs = [self._group_of_run(table, run) for run in order["runs"]]
        servers = [self._group_of_server(table, *process) for process in order["servers"]]
        return {"groups": runs + servers}

    def _group_of_run(self, table: ProcessTable, run: str) -> dict[str, Any]:
        members = self._records.members(table, run)
        facts = [self._fact(self._proc, pid, run) for pid in members]
        return {"members": [fact for fact in facts if fact], "exit_code": self._folders.exit_code(run)}

    def _group_of_server(self, table: ProcessTable, pid: int, start_ticks: int) -> dict[str, Any]:
        runs = self._living(table)
        members = members_of_server(table, pid, start_ticks)
        facts = [self._fact(self._proc, member, run_among(runs, member)) for member in members]
        return {"members": [fact for fact in facts if fact], "exit_code": None}

    def _environment(self, order: Order) -> object:
        found = self._first_environment(self._folders.identity(order["run"]))
        chosen = found and {name: found[name] for name in order["names"] if name in found}
        return {"environment": chosen}

    def _first_environment(self, run: RunIdentity) -> dict[str, str] | None:
        """That of the server of a run, if it lives and may be read."""
        pid = server_of(ProcessTable(self._proc), run)
        if pid is None:
            return None
        found = procfs.environment(self._proc, pid)
        return found or (procfs.variables(sudo.environ(pid)) if run.sudo else None) or None

    def _write(self, order: Order) -> None:
        self._refuse_to_change()
        name, content = order["name"], order["content"]
        if name not in KEPT:
            raise Refused(f"{name!r} is not a record that is kept")
        if content is None:
            self._state.remove(name + ".json")
        else:
            self._state.write(content, name + ".json")


def run_among(runs: Mapping[str, RunMembers], pid: int) -> str | None:
    """Which of the runs a process belongs to."""
    return next((run for run, members in runs.items() if pid in members), None)


def in_words(error: OSError, folder: str) -> str:
    """What the host's files or processes refused, in one sentence."""
    said = error.strerror or str(error)
    return f"{error.filename or folder}: {said}"
