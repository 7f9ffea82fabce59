"""The operator's service over a watch that is made up, and the journal's part in carrying out a plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from console.domain.errors import ConnectionLost, NotRunning, ProfileError, ReadOnly, UsageError
from console.domain.host_facts import Group, HostFacts, ProcessFact, PythonFact
from console.domain.plan_progress import PlanResult
from console.domain.preflight.check import refusal, warning
from console.domain.profile import Profile
from console.domain.run_record import HostRecords, RunRecord
from console.domain.server import LogPlace, ServerProcess
from console.domain.server_view import ServerView
from console.profiles import Profiles
from console.services.execution import PlanExecution
from console.services.journal import Journal
from console.services.operating import HostOperator
from console.services.recorded_execution import RecordedExecution
from console.services.telemetry import HostWatch
from tests.unit.deployed import LOCK, PAIR, PLAN, RECORD, VIEWS, records
from tests.unit.model_host import ModelControl, ModelHost
from tests.unit.test_execution import PAIR as MODEL_PAIR
from tests.unit.test_execution import SINGLE, plan_to

PYTHON = "/opt/sglang/bin/python"
OTHER = msgspec.structs.replace(PAIR, name="pd-simple")
BROKEN = ProfileError("GPU 4 is used twice", where="/home/ops/profiles/pd-broken.toml")
ALICES = ServerProcess(
    pid=52010,
    start_ticks=7,
    start_time=0.0,
    role="single",
    port=8000,
    user="alice",
    log=LogPlace(kind="file"),
)


class FakeLink:
    """Answers what plans ask for: what is installed, and the processes of runs and servers."""

    def __init__(self, watch: FakeWatch) -> None:
        self._watch = watch
        self.sglang = "0.5.23"

    async def value(self, kind: type[Any], order: str, **fields: Any) -> Any:
        if order == "inspect":
            (path,) = fields["pythons"]
            python = PythonFact(path=path, usable=True, packages={"sglang": self.sglang})
            return HostFacts(user="ops", state_folder="/state", pythons={path: python})
        assert order == "look"
        runs = {run.id: run for run in self._watch.records.runs}
        groups = [_group(runs[run]) for run in fields["runs"]]
        groups += [
            Group(members=(ProcessFact(pid=server[0], start_ticks=7, name="x"),))
            for server in fields["servers"]
        ]
        return msgspec.convert({"groups": groups}, kind, from_attributes=True)


def _group(run: RunRecord) -> Group:
    member = ProcessFact(pid=run.pid, start_ticks=run.start_ticks, name="x", run=run.id)
    return Group(members=(member,) if run.alive else ())


class FakeWatch:
    """A host as last heard of."""

    def __init__(self, found: HostRecords | None = None, views: tuple[ServerView, ...] = ()) -> None:
        self.records = found or HostRecords()
        self.views = views
        self.told_readonly: list[bool] = []
        self.agent: FakeLink | None = FakeLink(self)

    @property
    def link(self) -> FakeLink:
        if self.agent is None:
            raise ConnectionLost("the host is not connected", cause="gpu-box: timed out")
        return self.agent

    def server_views(self) -> tuple[ServerView, ...]:
        return self.views

    def set_readonly(self, on: bool) -> None:
        self.told_readonly.append(on)


Make = Callable[..., HostOperator]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


@pytest.fixture
def make(journal: Journal) -> Make:
    """An operator on a watch."""

    def made(
        watch: FakeWatch, *, readonly: str | None = None, profiles: tuple[Profile, ...] = (PAIR, OTHER)
    ) -> HostOperator:
        return HostOperator(
            cast(HostWatch, watch),
            host="gpu-box",
            by="ops@laptop",
            python=PYTHON,
            profiles=lambda: Profiles({profile.name: profile for profile in profiles}, (BROKEN,)),
            journal=journal,
            readonly=readonly,
        )

    return made


def running() -> FakeWatch:
    return FakeWatch(records(), VIEWS)


class TestRefusal:
    def test_nothing_speaks_against_it(self, make: Make) -> None:
        assert make(running()).refusal() is None

    def test_the_command_line_says_read_only(self, make: Make) -> None:
        operator = make(running(), readonly="--readonly was given")
        assert operator.refusal() == "read-only: --readonly was given"
        with pytest.raises(ReadOnly, match="leave that out to change this host"):
            operator.set_readonly(False)

    def test_the_user_says_read_only_and_takes_it_back(self, make: Make) -> None:
        watch = running()
        operator = make(watch)
        operator.set_readonly(True)
        assert operator.refusal() == "read-only: switched on in this console"
        operator.set_readonly(False)
        assert operator.refusal() is None
        assert watch.told_readonly == [True, False], "the agent is told as well"

    def test_no_connection(self, make: Make) -> None:
        watch = running()
        watch.agent = None
        assert make(watch).refusal() == "the host is not connected: gpu-box: timed out"

    def test_somebody_else_is_at_it(self, make: Make) -> None:
        said = make(FakeWatch(records(plan=PLAN, held=True))).refusal()
        assert said is not None
        assert said.startswith("ops@laptop is changing this host since ")
        assert said.endswith(f": {LOCK.what}. Next: try again when it is done.")


class TestProfiles:
    def test_the_one_that_runs_comes_first_and_errors_have_their_names(self, make: Make) -> None:
        entries = make(running()).profiles()
        assert [(entry.name, entry.running, entry.error) for entry in entries] == [
            ("pd-ll", True, None),
            ("pd-broken", False, str(BROKEN)),
            ("pd-simple", False, None),
        ]

    def test_none_runs_when_all_its_processes_are_gone(self, make: Make) -> None:
        dead = [msgspec.structs.replace(run, alive=False) for run in records().runs]
        assert not any(entry.running for entry in make(FakeWatch(records(*dead))).profiles())

    async def test_the_last_result_is_known_after_a_refresh(self, make: Make, journal: Journal) -> None:
        operator = make(FakeWatch(), profiles=(PAIR, MODEL_PAIR))
        await result_of(recorded(journal, ModelHost()))
        assert [entry.last for entry in operator.profiles()] == [None, None, None]
        await operator.refresh()
        last = {entry.name: entry.last.verified for entry in operator.profiles() if entry.last}
        assert last == {"pd-untuned": True}


class TestPlans:
    async def test_a_switch_ends_every_run(self, make: Make) -> None:
        plan = await make(running()).switch_plan("pd-simple")
        assert [target.pids for target in plan.targets] == [(5859,), (5857,), (5858,)]
        assert plan.launches[0].argv[0] == PYTHON

    async def test_flags_are_spelled_as_the_hosts_version_wants_them(self, make: Make) -> None:
        graphs = msgspec.structs.replace(OTHER, flags={"cuda-graph-max-bs-decode": 32})
        spelled = {}
        for version in ("0.5.5", "0.5.23"):
            watch = running()
            assert watch.agent is not None
            watch.agent.sglang = version
            argv = (await make(watch, profiles=(graphs,)).switch_plan(graphs.name)).launches[0].argv
            spelled[version] = [word for word in argv if word.startswith("--cuda-graph-max-bs")]
        assert spelled == {"0.5.5": ["--cuda-graph-max-bs"], "0.5.23": ["--cuda-graph-max-bs-decode"]}

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("pd-simpel", "no profile 'pd-simpel' for this host. Next: write pd-simple."),
            ("zzz", "no profile 'zzz' for this host. Next: use one of pd-ll, pd-simple."),
            ("pd-broken", str(BROKEN)),
        ],
    )
    async def test_a_profile_that_cannot_be_used(self, make: Make, name: str, said: str) -> None:
        with pytest.raises(ProfileError) as caught:
            await make(running()).switch_plan(name)
        assert (str(caught.value), caught.value.exit_code) == (said, 2)

    async def test_a_restart_finishes_what_was_interrupted(self, make: Make) -> None:
        watch = FakeWatch(
            records(deployment=msgspec.structs.replace(RECORD, stage="starting"), plan=PLAN), VIEWS
        )
        operator = make(watch)
        said = operator.interrupted()
        assert said is not None
        assert said.startswith("ops@laptop began to switch to pd-ll and is gone since step 5 of 12")
        assert (await operator.restart_plan()).verb == "resume"

    async def test_a_restart_needs_a_deployment(self, make: Make) -> None:
        assert make(FakeWatch()).interrupted() is None
        with pytest.raises(NotRunning):
            await make(FakeWatch()).restart_plan()

    async def test_nothing_to_stop(self, make: Make) -> None:
        with pytest.raises(NotRunning):
            await make(FakeWatch()).stop_plan()


class TestExecute:
    async def test_a_server_of_others_is_ended_only_with_consent(self, make: Make) -> None:
        operator = make(FakeWatch(views=(ServerView(process=ALICES, state="ready"),)))
        plan = await operator.switch_plan("pd-ll")
        with pytest.raises(UsageError) as caught:
            operator.execute(plan)
        assert str(caught.value) == (
            "single :8000, pid 52010 of alice, was not launched from here."
            " Next: confirm that it may be ended."
        )
        with pytest.raises(UsageError):
            operator.execute(plan, [(52010, 8)])
        assert operator.execute(plan, [(52010, 7)]).title == "switch to pd-ll"

    async def test_what_a_preflight_refused_is_in_the_journal(self, make: Make, journal: Journal) -> None:
        operator = make(running())
        plan = await operator.switch_plan("pd-simple")
        checks = [
            warning("memory", "is scarce"),
            refusal("GPU 4", "GPU 4 is held by pid 7", "end it"),
            refusal("port 8000", "is held by pid 8", "end it"),
        ]
        await operator.note_refusal(plan, checks)
        (entry,) = await journal.entries("gpu-box")
        assert (entry.state, entry.profile, entry.by) == ("failed", "pd-simple", "ops@laptop")
        assert entry.sentence == "GPU 4 is held by pid 7 (and 1 more); nothing was changed"
        assert entry.verified is False
        await operator.refresh()
        (last,) = [entry.last for entry in operator.profiles() if entry.last]
        assert last.sentence == f"failed: {entry.sentence}"

    async def test_nothing_is_begun_where_it_is_refused(self, make: Make) -> None:
        operator = make(running(), readonly="config.toml says so of gpu-box")
        plan = await operator.stop_plan()
        with pytest.raises(ReadOnly, match="says so of gpu-box"):
            operator.execute(plan)


def recorded(
    journal: Journal, host: ModelHost, profile: Profile = MODEL_PAIR, begun: list[str | None] | None = None
) -> RecordedExecution:
    """A switch on a model of a host; what it may go back to is noted in `begun`."""
    plan = plan_to(host, profile)

    def begin(fallback: str | None) -> PlanExecution:
        if begun is not None:
            begun.append(fallback)
        return PlanExecution(ModelControl(host), plan, deployment=host.deployment, fallback=fallback)

    return RecordedExecution(begin, plan, journal, "gpu-box", "ops@laptop")


async def result_of(execution: RecordedExecution) -> PlanResult:
    last = [event async for event in execution.events()][-1]
    assert isinstance(last, PlanResult)
    return last


class TestRecorded:
    async def test_every_step_and_the_result_are_written_down(self, journal: Journal) -> None:
        execution = recorded(journal, ModelHost())
        assert not execution.under_way
        async for _ in execution.events():
            assert execution.under_way
        assert not execution.under_way
        (entry,) = await journal.entries("gpu-box")
        assert (entry.verb, entry.profile, entry.state, entry.by) == (
            *("switch", "pd-untuned", "done"),
            "ops@laptop",
        )
        assert entry.verified
        assert {step.state for step in entry.steps} == {"done"}
        assert len(entry.steps) == 8

    async def test_what_was_verified_last_is_gone_back_to(self, journal: Journal) -> None:
        begun: list[str | None] = []
        host = ModelHost()
        assert (await result_of(recorded(journal, host, begun=begun))).state == "done"
        host.fails_to_start = {"single"}
        failed = await result_of(recorded(journal, host, SINGLE, begun))
        assert begun == [None, "pd-untuned"]
        assert (failed.state, failed.rollback) == ("failed", "pd-untuned")

    async def test_a_profile_is_no_way_back_from_itself(self, journal: Journal) -> None:
        begun: list[str | None] = []
        host = ModelHost()
        for _ in range(2):
            await result_of(recorded(journal, host, begun=begun))
        assert begun == [None, None]

    async def test_an_abort_before_it_began(self, journal: Journal) -> None:
        host = ModelHost()
        execution = recorded(journal, host)
        assert execution.abort() == "nothing was changed"
        result = await result_of(execution)
        assert (result.state, result.sentence) == ("aborted", "aborted; nothing was changed")
        assert not host.processes

    async def test_a_host_that_stays_away_leaves_nothing_running_in_the_journal(
        self, journal: Journal
    ) -> None:
        class Away(ModelControl):
            async def reconnected(self) -> None:
                raise ConnectionLost("the host has not come back")

        host = ModelHost()
        plan = plan_to(host, MODEL_PAIR)
        host.faults[12] = ModelHost.lose_connection
        execution = RecordedExecution(
            lambda fallback: PlanExecution(Away(host), plan), plan, journal, "gpu-box", "ops@laptop"
        )
        with pytest.raises(ConnectionLost):
            await result_of(execution)
        (entry,) = await journal.entries("gpu-box")
        assert (entry.state, entry.sentence) == ("failed", "broke off: the host has not come back")
        assert entry.ended_at is not None
        assert not execution.under_way

    async def test_one_that_breaks_off_is_told_of(self, journal: Journal) -> None:
        host = ModelHost()
        host.lock = LOCK
        with pytest.raises(Exception, match="holds the lock"):
            await result_of(recorded(journal, host))
        (entry,) = await journal.entries("gpu-box")
        assert (entry.state, entry.sentence) == ("failed", "broke off: ops@laptop holds the lock")
