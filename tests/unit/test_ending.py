"""What is said, and when it is given up, while servers are ended: on a host that is scripted look by look."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import msgspec
import pytest

from console.domain.errors import ConnectionLost
from console.domain.host_facts import GpuFact, GpuHolder, Group, Holders, PortFact, ProcessFact
from console.domain.plan import Step, Target, stop_plan
from console.domain.plan_progress import PlanResult
from console.domain.server import LogPlace, ServerProcess
from console.domain.server_view import ServerView
from console.domain.targets import running_targets
from console.services.ending import end, see_free, see_gone
from console.services.execution import PlanExecution
from console.services.host_control import Refusal, Signal, Signalled
from console.services.step_failure import StepFailed
from tests.unit.model_host import ModelControl, ModelHost
from tests.unit.test_execution import PAIR, carried_out, switch

OURS = Target(name="decode :30001", role="decode", run="d1.decode", pids=(41873, 41931, 41932), port=30001)
ALICES = Target(
    name="single :30000", role="single", server=(52010, 7), pids=(52010,), port=30000, owner="alice"
)
PARENT = ProcessFact(pid=41873, start_ticks=1, name="python3 -m sglang.launch_server", run="d1.decode")
TP0, TP1 = (
    ProcessFact(pid=41931 + rank, start_ticks=2, name=f"sglang::scheduler_TP{rank}", run="d1.decode")
    for rank in (0, 1)
)
FREE = Step(kind="free", title="", waits_for="", limit_s=30.0, targets=(OURS,), ports=(30001,), gpus=(0, 1))
GONE = Step(kind="gone", title="", waits_for="", limit_s=15.0, targets=(OURS,))


def in_state(process: ProcessFact, state: str) -> ProcessFact:
    return msgspec.structs.replace(process, state=state)


class ScriptedControl(ModelControl):
    """Each look finds the next of `looks`, the last one for ever; signals are written down."""

    def __init__(
        self,
        *looks: Sequence[ProcessFact],
        holders: Holders | None = None,
        refused: tuple[Refusal, ...] = (),
        servers: Sequence[tuple[float, ServerView]] = (),
    ) -> None:
        super().__init__(ModelHost())
        self.signals: list[Signal] = []
        self._looks = list(looks)
        self._holders = holders or Holders()
        self._refused = refused
        self._servers = servers
        self._begun = self.now()

    async def look(self, targets: Sequence[Target]) -> tuple[Group, ...]:
        found = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        return (Group(members=tuple(found)),)

    async def signal(self, targets: Sequence[Target], signal: Signal) -> Signalled:
        self.signals.append(signal)
        return Signalled(refused=self._refused)

    async def holders(self, ports: Sequence[int]) -> Holders:
        return self._holders

    def servers(self) -> tuple[ServerView, ...]:
        """Those that have come by now."""
        return tuple(view for after, view in self._servers if self.now() >= self._begun + after)


async def said(by: AsyncGenerator[str, None]) -> list[str]:
    return [text async for text in by]


async def failure(by: AsyncGenerator[str, None]) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        await said(by)
    return caught.value


class TestEnd:
    async def test_what_has_ended_is_not_signalled(self) -> None:
        control = ScriptedControl([in_state(TP0, "Z")])
        assert await said(end(control, [OURS], 45.0)) == ["they have ended already"]
        assert control.signals == []

    async def test_sigterm_is_enough(self) -> None:
        control = ScriptedControl([PARENT, TP0, TP1], [PARENT, TP0, TP1], [PARENT], [])
        assert await said(end(control, [OURS], 45.0)) == [
            "3 processes left: pid 41873 (python3 -m sglang.launch_server),"
            " pid 41931 (sglang::scheduler_TP0), pid 41932 (sglang::scheduler_TP1)",
            "1 process left: pid 41873 (python3 -m sglang.launch_server)",
        ]
        assert control.signals == ["TERM"]

    async def test_many_are_counted_and_four_are_named(self) -> None:
        many = [ProcessFact(pid=pid, start_ticks=1, name="x") for pid in range(1, 13)]
        assert await said(end(ScriptedControl(many, many, []), [OURS], 45.0)) == [
            "12 processes left: pid 1 (x), pid 2 (x), pid 3 (x), pid 4 (x) and 8 more"
        ]

    async def test_what_is_left_after_its_time_is_killed(self) -> None:
        class Stubborn(ScriptedControl):
            async def look(self, targets: Sequence[Target]) -> tuple[Group, ...]:
                return (Group(members=() if "KILL" in self.signals else (TP0,)),)

        control = Stubborn([])
        begun = control.now()
        assert (await said(end(control, [OURS], 45.0)))[-1] == (
            "SIGKILL after 45 s for pid 41931 (sglang::scheduler_TP0)"
        )
        assert control.signals == ["TERM", "KILL"]
        assert 45.0 <= control.now() - begun < 46.0

    @pytest.mark.parametrize(
        ("state", "waits_in", "told", "next_step"),
        [
            (*("R", "uvm_spin_loop [nvidia_uvm]"), "state R in uvm_spin_loop [nvidia_uvm]", "a GPU reset"),
            (*("D", None), "state D", "a GPU reset"),
            (*("S", None), "state S", "look at it on the host"),
        ],
    )
    async def test_what_survives_sigkill_is_named(
        self, state: str, waits_in: str | None, told: str, next_step: str
    ) -> None:
        """Case C07."""
        stuck = msgspec.structs.replace(TP0, state=state, waits_in=waits_in)
        control = ScriptedControl([stuck])
        begun = control.now()
        failed = await failure(end(control, [OURS], 45.0))
        assert failed.sentence == f"pid 41931 (sglang::scheduler_TP0) cannot be killed: {told}"
        assert (failed.next_step or "").startswith(next_step)
        assert control.signals == ["TERM", "KILL"], "no kill loop"
        assert control.now() - begun < 61.0

    async def test_a_stopped_process_goes_on_so_that_it_can_end(self) -> None:
        control = ScriptedControl([in_state(PARENT, "T"), TP0], [])
        await said(end(control, [OURS], 45.0))
        assert control.signals == ["TERM", "CONT"]

    async def test_permission_refused_is_named(self) -> None:
        why = "it runs as root, and this login is ops"
        control = ScriptedControl([PARENT], refused=(Refusal(41873, why),))
        failed = await failure(end(control, [OURS], 45.0))
        assert failed.sentence == f"pid 41873 cannot be signalled: {why}"
        assert failed.next_step == "end it as its owner, or give the profile sudo = true"
        assert control.signals == ["TERM"]

    async def test_a_signal_whose_result_is_unknown_is_followed_by_a_fresh_look(self) -> None:
        """Case C04: neither `stopped` nor `connection lost` is concluded from it."""

        class Cut(ModelControl):
            signals = 0

            async def signal(self, targets: Sequence[Target], signal: Signal) -> Signalled:
                done = await super().signal(targets, signal)
                self.signals += 1
                if self.signals == 1:
                    self.host.lose_connection()
                    raise ConnectionLost("the connection was lost")
                return done

        host = ModelHost()
        await switch(host, PAIR)
        control = Cut(host)
        stop = stop_plan(running_targets(control.records(), control.servers()))
        events, result = await carried_out(PlanExecution(control, stop, deployment=host.deployment))
        assert result.sentence == "stopped: no process lives, ports and GPUs are free"
        told = [event.text for event in events if not isinstance(event, PlanResult) and event.index == 0]
        assert [text for text in told if text][:3] == [
            "the connection was lost", "connected again", "they have ended already",
        ]  # fmt: skip
        assert control.signals == 2, "one for the router, one for both servers"


class TestSeeGone:
    async def test_nothing_is_left(self) -> None:
        assert await said(see_gone(ScriptedControl([]), GONE)) == []

    async def test_a_process_that_lives(self) -> None:
        failed = await failure(see_gone(ScriptedControl([TP0]), GONE))
        assert failed.sentence == "still alive: pid 41931 (sglang::scheduler_TP0)"

    async def test_zombies_are_told_as_what_they_are(self) -> None:
        control = ScriptedControl([in_state(TP0, "Z"), in_state(TP1, "Z")])
        assert await said(see_gone(control, GONE)) == [
            "pid 41931 (sglang::scheduler_TP0), pid 41932 (sglang::scheduler_TP1):"
            " ended, and not yet collected by the parent (zombie); nothing is held by them"
        ]

    async def test_one_of_others_that_somebody_starts_again(self) -> None:
        came = ServerProcess(
            pid=60001, start_ticks=9, start_time=0.0, role="single", port=30000, log=LogPlace(kind="file")
        )
        control = ScriptedControl([], servers=[(2.0, ServerView(process=came, state="starting"))])
        failed = await failure(see_gone(control, msgspec.structs.replace(GONE, targets=(ALICES,))))
        assert failed.sentence == (
            "a new server on port 30000 took its place, pid 60001:"
            " a container or unit starts it again by itself"
        )
        assert failed.next_step == "stop that container or unit, then try again"

    async def test_one_of_others_that_stays_away(self) -> None:
        old = ServerProcess(
            pid=52010, start_ticks=7, start_time=0.0, role="single", port=30000, log=LogPlace(kind="file")
        )
        other = msgspec.structs.replace(old, pid=70000, port=31000)
        control = ScriptedControl(
            [], servers=[(0.0, ServerView(process=each, state="ready")) for each in (old, other)]
        )
        begun = control.now()
        told = await said(see_gone(control, msgspec.structs.replace(GONE, targets=(ALICES,))))
        assert told == ["looking for 4 s whether somebody starts it again"]
        assert 4.0 <= control.now() - begun < 5.0


class TestSeeFree:
    async def test_orphans_hold_the_memory(self) -> None:
        """Case C02."""
        held = Holders(
            gpus=tuple(
                GpuFact(
                    index=index, mem_used_mib=mib + 4.0, holders=(GpuHolder(process=orphan, mem_mib=mib),)
                )
                for index, (orphan, mib) in enumerate([(TP0, 100_998.0), (TP1, 101_044.0)])
            )
        )
        control = ScriptedControl([], holders=held)
        begun = control.now()
        failed = await failure(see_free(control, FREE))
        assert failed.sentence == "STOP INCOMPLETE: 2 processes, 202042 MiB still held on GPU 0,1"
        assert 30.0 <= control.now() - begun < 31.0

    async def test_memory_that_the_driver_has_not_given_back(self) -> None:
        gone = GpuHolder(process=in_state(TP1, "X"), mem_mib=101_044.0)
        held = Holders(
            gpus=(
                GpuFact(index=1, mem_used_mib=101_044.0, holders=(gone,)),
                GpuFact(index=2, mem_used_mib=101_044.0),
            )
        )
        failed = await failure(see_free(ScriptedControl([], holders=held), FREE))
        assert failed.sentence == "STOP INCOMPLETE: no process to be seen, 101044 MiB still held on GPU 1"

    @pytest.mark.parametrize(
        ("holder", "who"),
        [(TP0, "pid 41931 (sglang::scheduler_TP0)"), (None, "somebody who may not be seen")],
    )
    async def test_a_port_that_is_held(self, holder: ProcessFact | None, who: str) -> None:
        held = Holders(ports=(PortFact(port=30001, holder=holder),))
        failed = await failure(see_free(ScriptedControl([], holders=held), FREE))
        assert failed.sentence == f"STOP INCOMPLETE: port 30001 is held by {who}"

    async def test_what_others_hold_is_not_waited_for(self) -> None:
        alice = ProcessFact(pid=52010, start_ticks=7, name="python3", user="alice")
        held = Holders(
            ports=(PortFact(port=30001, holder=alice),),
            gpus=(
                GpuFact(
                    index=0, mem_used_mib=90_000.0, holders=(GpuHolder(process=alice, mem_mib=90_000.0),)
                ),
            ),
        )
        assert await said(see_free(ScriptedControl([], holders=held), FREE)) == []

    async def test_nothing_can_be_read_of_a_gpu(self) -> None:
        assert (
            await said(see_free(ScriptedControl([], holders=Holders(gpus=(GpuFact(index=0),))), FREE)) == []
        )
