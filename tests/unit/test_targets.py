"""What a plan ends, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from console.domain.host_facts import Group, ProcessFact
from console.domain.launch import Launch
from console.domain.plan import Target, stop_plan
from console.domain.run_record import HostRecords, RunRecord
from console.domain.server import LogPlace, Role, ServerProcess
from console.domain.server_view import ServerView
from console.domain.targets import Groups, conflicting, ended_by, running_targets, target_of

LOG = LogPlace(kind="null")


def run(name: str, role: Role, pid: int, port: int, **changes: Any) -> RunRecord:
    record = RunRecord(
        id=f"r1-{name}",
        deployment="d1",
        profile="pd-ll",
        name=name,
        role=role,
        pid=pid,
        start_ticks=pid * 10,
        launched_at=0.0,
        by="ops@laptop",
        argv=("python3",),
        port=port,
        ports=(port, port + 1000),
        log=f"/runs/{name}.log",
    )
    return msgspec.structs.replace(record, **changes)


def view(role: Role, pid: int, port: int | None, **changes: Any) -> ServerView:
    process = ServerProcess(
        pid=pid, start_ticks=pid * 10, start_time=0.0, role=role, port=port, user="ops", sid=pid, log=LOG
    )
    return ServerView(process=msgspec.structs.replace(process, **changes), state="ready")


def group(*pids: int, state: str = "S") -> Group:
    return Group(
        members=tuple(ProcessFact(pid=pid, start_ticks=pid * 10, name="sglang", state=state) for pid in pids)
    )


def launch(port: int, gpus: tuple[int, ...] = (), *others: int) -> Launch:
    return Launch(name="new", role="single", argv=("python3",), gpus=gpus, port=port, ports=(port, *others))


def targets(
    runs: tuple[RunRecord, ...] = (), views: tuple[ServerView, ...] = (), groups: Groups | None = None
) -> tuple[Target, ...]:
    return running_targets(HostRecords(runs=runs), views, groups)


PAIR = (
    run("prefill", "prefill", 100, 30000, gpus=(0, 1), sudo=True),
    run("decode", "decode", 200, 30001, gpus=(2, 3)),
    run("router", "router", 300, 8000),
)


class TestOurs:
    def test_in_the_order_in_which_they_end(self) -> None:
        assert [target.name for target in targets(PAIR)] == [
            "router :8000",
            "prefill :30000",
            "decode :30001",
        ]

    def test_replicas_by_their_names(self) -> None:
        runs = (run("b", "single", 2, 30001), run("a", "single", 1, 30000))
        assert [target.name for target in targets(runs)] == ["a :30000", "b :30001"]

    def test_what_was_recorded_goes_with_it(self) -> None:
        prefill = targets(PAIR)[1]
        assert (prefill.run, prefill.server, prefill.owner) == ("r1-prefill", None, None)
        assert (prefill.pids, prefill.port, prefill.ports) == ((100,), 30000, (30000, 31000))
        assert (prefill.gpus, prefill.sudo, prefill.is_foreign) == ((0, 1), True, False)

    def test_every_process_of_a_look(self) -> None:
        found = targets(PAIR[:1], groups={"r1-prefill": group(103, 101, 100)})
        assert found[0].pids == (100, 101, 103)

    def test_orphans_are_reached_when_the_first_process_is_gone(self) -> None:
        """Case C02: the group recorded at launch, not a walk from parent to child."""
        assert targets(PAIR[:1], groups={"r1-prefill": group(101, 102)})[0].pids == (101, 102)

    def test_a_run_that_ended_is_none(self) -> None:
        assert targets((run("decode", "decode", 200, 30001, alive=False),)) == ()

    @pytest.mark.parametrize("looked", [Group(), group(100, 101, state="Z")])
    def test_a_run_of_which_a_look_found_nothing_alive_is_none(self, looked: Group) -> None:
        assert targets(PAIR[:1], groups={"r1-prefill": looked}) == ()


class TestThoseOfOthers:
    def test_are_named_with_their_owner(self) -> None:
        stranger = view(
            "router", 900, 8000, metrics_port=29000, listening=(8000, 29000, 4711), user="alice", gpus=None
        )
        (target,) = targets(views=(stranger,))
        assert target.is_foreign
        assert (target.name, target.server, target.owner) == ("router :8000", (900, 9000), "alice")
        assert (target.pids, target.ports, target.gpus) == ((900,), (4711, 8000, 29000), ())

    def test_have_the_processes_of_a_look(self) -> None:
        stranger = view("decode", 900, 31000)
        (target,) = targets(views=(stranger,), groups={stranger.process.key: group(901, 900)})
        assert target.pids == (900, 901)

    def test_with_no_known_port_are_named_by_pid(self) -> None:
        assert targets(views=(view("router", 900, None),))[0].name == "router pid 900"

    @pytest.mark.parametrize(
        "gone",
        [
            msgspec.structs.replace(view("single", 900, 30000), state="gone"),
            msgspec.structs.replace(view("single", 900, 30000), phase="gone"),
            view("single", 900, 30000, state="Z"),
        ],
    )
    def test_that_are_gone_are_none(self, gone: ServerView) -> None:
        assert targets(views=(gone,)) == ()

    def test_one_that_is_stopping_still_is_one(self) -> None:
        leaving = msgspec.structs.replace(view("single", 900, 30000), state="gone", phase="stopping")
        assert len(targets(views=(leaving,))) == 1

    def test_stand_after_ours_of_their_role_by_port(self) -> None:
        views = (view("router", 900, 9000), view("decode", 901, 29999))
        assert [target.name for target in targets(PAIR, views)] == [
            "router :8000",
            "router :9000",
            "prefill :30000",
            "decode :29999",
            "decode :30001",
        ]


class TestAProcessOfARun:
    """It is never a server of somebody else as well."""

    def test_by_its_identity(self) -> None:
        assert len(targets(PAIR[:1], (view("prefill", 100, 30000, sid=1),))) == 1

    def test_by_its_session(self) -> None:
        """Under sudo the first process of the run is sudo; the server is its child."""
        assert len(targets(PAIR[:1], (view("prefill", 105, 30000, sid=100),))) == 1

    def test_by_a_look_when_sudo_gave_it_a_session_of_its_own(self) -> None:
        server = view("prefill", 105, 30000, sid=105)
        found = targets(PAIR[:1], (server,), {"r1-prefill": group(100, 105)})
        assert [target.run for target in found] == ["r1-prefill"]

    def test_a_pid_that_was_used_again_is_another_process(self) -> None:
        again = view("prefill", 100, 30000, start_ticks=77, sid=1)
        assert [target.is_foreign for target in targets(PAIR[:1], (again,))] == [False, True]

    def test_the_session_of_a_run_that_ended_tells_nothing(self) -> None:
        ended = run("prefill", "prefill", 100, 30000, alive=False)
        assert targets((ended,), (view("prefill", 105, 30000, sid=100),))[0].is_foreign

    def test_nor_is_its_port_a_proof(self) -> None:
        """Case C03: a left-over server may hold the port that was recorded."""
        assert len(targets(PAIR[:1], (view("prefill", 900, 30000),))) == 2


class TestWhatIsInTheWay:
    NEIGHBOUR = view("single", 52010, 31500, gpus=(4, 5))
    SAME_PORT = view("single", 900, 30000, gpus=(7,))
    BOOTSTRAP = view("prefill", 901, 39000, bootstrap_port=8998, gpus=())

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            (launch(30000, (0, 1)), ["single :30000"]),
            (launch(1, (5, 6)), ["single :31500"]),
            (launch(1, (0, 1), 2, 8998), ["prefill :39000"]),
            (launch(1, (0, 1)), []),
        ],
    )
    def test_holds_a_port_or_a_gpu(self, wanted: Launch, found: list[str]) -> None:
        running = targets(PAIR, (self.NEIGHBOUR, self.SAME_PORT, self.BOOTSTRAP))
        assert [target.name for target in conflicting(running, (wanted,))] == found

    def test_a_switch_ends_all_of_ours_and_no_neighbour(self) -> None:
        running = targets(PAIR, (self.NEIGHBOUR, self.SAME_PORT))
        ended = ended_by(running, (launch(30000, (0, 1)),))
        assert [target.name for target in ended] == [
            "router :8000",
            "prefill :30000",
            "decode :30001",
            "single :30000",
        ]

    def test_with_nothing_in_the_way_ours_alone(self) -> None:
        running = targets(PAIR, (self.NEIGHBOUR,))
        assert [target.is_foreign for target in ended_by(running, (launch(1),))] == [False] * 3


class TestWhoseProcess:
    OURS = targets(PAIR, groups={record.id: group(record.pid, record.pid + 1) for record in PAIR})

    @pytest.mark.parametrize(
        ("process", "name"),
        [
            (ProcessFact(pid=201, start_ticks=1, name="x"), "decode :30001"),
            (ProcessFact(pid=999, start_ticks=1, name="x", run="r1-router"), "router :8000"),
            (ProcessFact(pid=999, start_ticks=1, name="x"), None),
            # Its own token says more than a number, which may have been used again.
            (ProcessFact(pid=201, start_ticks=1, name="x", run="r0-decode"), None),
        ],
    )
    def test_is_told_by_run_and_pid(self, process: ProcessFact, name: str | None) -> None:
        found = target_of(process, self.OURS)
        assert (found.name if found else None) == name


def test_a_stop_names_its_server_and_its_children_and_nothing_else() -> None:
    """Case C01: the root is `sglang serve`, its children have renamed themselves, and a neighbour's server,
    an editor and a test runner have `sglang` in their command lines."""
    ours = run("single", "single", 41873, 30000, gpus=(0, 1))
    neighbour = view("single", 52010, 31000, gpus=(4,))
    looked: Groups = {
        ours.id: group(41873, 41931, 41932, 41935),
        neighbour.process.key: group(52010, 52044),
    }
    found = targets((ours,), (view("single", 41873, 30000), neighbour), looked)
    plan = stop_plan([target for target in found if not target.is_foreign])
    commands = [command for step in plan.steps for command in step.commands if "kill" in command]
    assert commands == ["kill -TERM 41873 41931 41932 41935"]
    assert plan.targets[0].port == 30000
    (stop,) = (step for step in plan.steps if step.kind == "stop")
    assert "SIGKILL for what is left after 45 s" in stop.waits_for
