"""The orders that ask about the host and change nothing: `inspect`, `check_flags`, `holders`."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Mapping, NamedTuple

from . import flagcheck, hostchecks, hostinfo, launchenv, logout, procfs, pythons, sudo
from .children import Children
from .frames import FrameWriter
from .holders import holders, processes_in
from .job import Job
from .statefolder import StateFolder, location

MOST_AT_ONCE = 8
MORE_S = 3.0
"""Who asked hears this often that the answer is still being looked for."""
LIMIT_S = 30.0
FLAGS_LIMIT_S = flagcheck.LIMIT_S + pythons.PROBE_LIMIT_S + LIMIT_S
HANGS = "the host does not answer: a network disk or a process hangs in its kernel"
FIRST_READING_S = 5.0
NOT_READ_YET = "no reading yet"
"""What the sampler gives as its reason until the driver has answered for the first time."""

Order = Dict[str, Any]
Report = Dict[str, Any]
Clock = Callable[[], float]


class Asked(NamedTuple):
    """A question under way."""

    job: Job
    finish: Callable[[Any], Any]
    """Applied to the value by the agent's own thread."""
    gives_up_at: float
    more_at: float


class Inspections:
    """Each question is a thread's, so that neither a hanging disk nor SGLang's import holds up the agent.

    `gpus` gives the latest report of the sampler, `run_of` the run that a process belongs to, `ports_of_root`
    what holders.port_facts wants.
    """

    def __init__(
        self,
        writer: FrameWriter,
        proc: str,
        gpus: Callable[[], Report],
        run_of: Callable[[int], str | None],
        clock: Clock = time.monotonic,
        ports_of_root: Callable[[], Mapping[int, int]] = dict,
    ) -> None:
        self._writer = writer
        self._proc = proc
        self._gpus = gpus
        self._run_of = run_of
        self._ports_of_root = ports_of_root
        self._clock = clock
        self._asked: dict[int, Asked] = {}

    @property
    def due(self) -> bool:
        """Whether `pump` has something to do at once."""
        now = self._clock()
        return any(
            each.job.over or now >= min(each.more_at, each.gives_up_at) for each in self._asked.values()
        )

    def readable(self) -> list[int]:
        """Descriptors that tell when `pump` has something to do."""
        return [each.job.fd for each in self._asked.values()]

    def inspect(self, order: Order) -> None:
        """Begin to look at the host."""
        self._begin(order, lambda children: host_facts(order, self._proc, self._gpus, children))

    def check_flags(self, order: Order) -> None:
        """Begin to ask SGLang's parsers."""
        question = flagcheck.Question(
            str(order["python"]), dict(order["environment"]), [list(line) for line in order["lines"]]
        )
        state = StateFolder(location(os.environ))
        self._begin(order, lambda children: flagcheck.flag_checks(question, children, state), FLAGS_LIMIT_S)

    def holders(self, order: Order) -> None:
        """Begin to look for who holds ports and GPUs."""
        ports = [int(port) for port in order["ports"]]
        of_root = self._ports_of_root()
        self._begin(
            order,
            lambda _: holders(self._proc, ports, first_report(self._gpus), of_root),
            finish=self._name_runs,
        )

    def cancel(self, number: int) -> None:
        """Leave an answer unfinished."""
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.job.close()

    def close(self) -> None:
        """Leave everything unfinished."""
        for number in list(self._asked):
            self.cancel(number)

    def pump(self) -> None:
        """Give what answers there are, and say of the others that they are being looked for."""
        now = self._clock()
        for number, asked in list(self._asked.items()):
            if asked.job.over:
                self._answer(number, asked)
            elif now >= asked.gives_up_at:
                self._refuse(number, HANGS)
            elif now >= asked.more_at:
                self._writer.put({"kind": "value", "id": number, "more": True})
                self._asked[number] = asked._replace(more_at=now + MORE_S)

    def _begin(
        self,
        order: Order,
        work: Callable[[Children], Any],
        limit_s: float = LIMIT_S,
        finish: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        number, now = int(order["id"]), self._clock()
        if len(self._asked) >= MOST_AT_ONCE:
            self._refuse(number, "too many questions at once")
        else:
            self._asked[number] = Asked(Job(work), finish, now + limit_s, now + MORE_S)

    def _answer(self, number: int, asked: Asked) -> None:
        if asked.job.error is not None:
            self._refuse(number, asked.job.error)
            return
        value = asked.finish(asked.job.value)
        self._writer.put({"kind": "value", "id": number, "value": value, "more": False})
        self.cancel(number)

    def _refuse(self, number: int, why: str) -> None:
        self._writer.put({"kind": "reply", "id": number, "error": why, "more": False})
        self.cancel(number)

    def _name_runs(self, found: dict[str, Any]) -> dict[str, Any]:
        for process in processes_in(found):
            process["run"] = self._run_of(process["pid"])
        return found


def first_report(gpus: Callable[[], Report], limit_s: float = FIRST_READING_S) -> Report:
    """The latest report; of an agent that has just begun, the first in which the driver was asked."""
    deadline = time.monotonic() + limit_s
    report = gpus()
    while report["reason"] == NOT_READ_YET and time.monotonic() < deadline:
        time.sleep(0.02)
        report = gpus()
    return report


def host_facts(
    order: Order, proc: str, gpus: Callable[[], Report], children: Children, root: str = ""
) -> dict[str, Any]:
    """The fields of console.domain.host_facts.HostFacts. `root` leads to the files of the host."""
    user = procfs.user_name(os.getuid())
    state = location(os.environ)
    return {
        "user": user,
        "state_folder": state,
        "paths": {path: hostchecks.kind_of(path) for path in order["paths"]},
        "pythons": {
            path: pythons.python_fact(path, children, flagcheck.asking_environment(path, {}))
            for path in order["pythons"]
        },
        "driver": first_report(gpus)["driver"],
        "mem_available_mib": hostinfo.meminfo_mib(proc).get("MemAvailable"),
        "shm_free_mib": hostchecks.free_mib(root + "/dev/shm"),
        "disk_free_mib": hostchecks.disks([*order["disks"], state]),
        "sudo": sudo.refusal(children) if order.get("sudo") else None,
        "kills_on_logout": logout.kills(user, proc, root),
        "inherited": launchenv.tuning_names(os.environ),
    }
