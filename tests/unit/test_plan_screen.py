"""A plan on the screen: shown, refused, confirmed, watched, aborted, and what came of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from console.domain.errors import ConnectionLost, ReadOnly
from console.domain.plan import Plan
from console.domain.plan_progress import PlanResult, StepEvent
from console.domain.run_record import DeploymentRecord, Difference, HostRecords, Verification
from console.ui.app import ConsoleApp
from console.ui.screens.confirm import ConfirmScreen
from console.ui.screens.plan import PlanScreen
from console.ui.widgets.choices import Choices
from console.ui.widgets.lines import plain
from console.ui.widgets.meter import ASCII
from console.ui.widgets.paragraphs import ParagraphView
from console.ui.widgets.plan_line import PlanLine
from console.ui.widgets.progress import stretch
from tests.unit.canned import EVERYTHING, NOW, UP, Feed
from tests.unit.canned_operator import (
    ABORTED,
    CHECKS,
    FOREIGN,
    PAIR,
    REFUSED,
    CannedOperator,
    Seat,
    console,
    profile,
    seat,
)

DONE = PlanResult(state="done", sentence="pd-ll serves, proven and verified.", seconds=131.0, overhead_s=1.4)


async def planned(it: Seat, key: str = "R") -> None:
    """Ask for a plan and wait for its preflight."""
    await it.press(key)
    await it.until(lambda: isinstance(it.app.screen, PlanScreen), "no plan is shown")
    await it.shows("Preflight: 5 ok, 1 warning")


async def begun(it: Seat, key: str = "R") -> None:
    """Ask for a plan and begin it."""
    await planned(it, key)
    await it.press("right", "enter")
    await it.until(lambda: it.operator.executed, "it has not begun")
    await it.shows("Leave it running")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_plan_shows_host_consequence_steps_and_every_command(size: tuple[int, int]) -> None:
    async with seat(size=size) as it:
        await planned(it)
        plan = await it.operator.restart_plan()
        await it.shows("Restart pd-ll on ct200 (ops@ct200)", plan.consequence)
        said = re.sub("at most [0-9ms]+( s)?", "", it.said()).replace(" ", "")
        for step in plan.steps:
            assert step.title.replace(" ", "") in said
            assert step.waits_for.replace(" ", "") in said
            for command in step.commands:
                assert command.replace(" ", "") in said
        assert f"at most {stretch(1800.0)}" in it.said()
        steps = it.app.screen.query_one("#plan-steps", ParagraphView)
        assert all(len(plain(line)) < steps.size.width for line in steps.shown), "nothing is cut off"
        for view in it.app.screen.query(ParagraphView):
            assert view.size.height > 0 or not view.shown, view.id


@pytest.mark.parametrize(("key", "verb"), [("R", "Restart"), ("S", "Stop")])
async def test_cancel_has_the_focus_and_enter_changes_nothing(key: str, verb: str) -> None:
    async with seat() as it:
        await planned(it, key)
        assert it.buttons() == ["[Cancel]", verb]
        await it.press("enter")
        assert it.app.screen is it.app.dashboard
        assert it.operator.executed == []


async def test_keys_act_in_the_order_in_which_they_are_pressed_however_fast() -> None:
    async with seat() as it:
        await planned(it)
        for key in ("right", "left", "enter"):
            it.app.post_message(events.Key(key, None))
        await it.until(lambda: it.app.screen is it.app.dashboard, "cancel was not pressed")
        await planned(it)
        for key in ("tab", "enter"):
            it.app.post_message(events.Key(key, None))
        await it.until(lambda: it.operator.executed, "it has not begun")
        assert len(it.operator.executed) == 1


async def test_a_click_gives_an_answer_that_can_be_given() -> None:
    operator = CannedOperator()
    operator.readonly = True
    async with seat(operator) as it:
        await planned(it)
        await it.pilot.click(Choices, offset=(18, 0))
        assert isinstance(it.app.screen, PlanScreen)
        operator.readonly = False
        await it.until(lambda: it.buttons() == ["[Cancel]", "Restart"], "the button is not back")
        await it.pilot.click(Choices, offset=(18, 0))
        await it.until(lambda: operator.executed, "it has not begun")


async def test_a_cancelled_switch_comes_back_to_the_picker() -> None:
    async with seat() as it:
        await it.press("p", "down", "enter")
        await it.shows("Switch to cpu-single on ct200")
        await it.press("escape")
        await it.shows("never launched here")


async def test_the_keys_scroll_the_commands_while_cancel_has_the_focus() -> None:
    async with seat(size=(80, 24)) as it:
        await planned(it)
        steps = it.app.screen.query_one("#plan-steps")
        await it.press("pagedown", "down")
        assert steps.scroll_offset.y > 1
        await it.press("home")
        assert steps.scroll_offset.y == 0
        assert it.buttons()[0] == "[Cancel]"


async def test_it_cannot_begin_before_the_preflight_has_answered() -> None:
    operator = CannedOperator()
    operator.checking.clear()
    async with seat(operator) as it:
        await it.press("R")
        await it.shows("Restart is not possible: the preflight is still looking", "looking at the host")
        assert it.buttons() == ["[Cancel]"]
        operator.checking.set()
        await it.shows("! warning disk: 3.1 GiB free")
        assert it.buttons() == ["[Cancel]", "Restart"]


async def test_a_refused_check_comes_first_and_forbids_the_plan() -> None:
    operator = CannedOperator()
    operator.checks = (*CHECKS, REFUSED)
    async with seat(operator) as it:
        await it.press("R")
        await it.shows(
            "Preflight: 5 ok, 1 warning, 1 refused",
            "✗ refused port 30000: pid 4711 (nginx) of root listens on it",
            "Next: end it, or give the profile another port",
            "Restart is not possible: the preflight refuses port 30000",
        )
        said = it.said()
        assert said.index("✗ refused") < said.index("! warning") < said.index("● ok")
        await it.press("right", "enter")
        assert operator.executed == []


async def test_a_preflight_that_fails_is_a_sentence_and_forbids_the_plan() -> None:
    operator = CannedOperator()
    operator.checks = ConnectionLost("no answer for 10 s", where="ct200")
    async with seat(operator) as it:
        await it.press("R")
        await it.shows("the preflight could not be made: ct200: no answer for 10 s")
        assert it.buttons() == ["[Cancel]"]


async def test_a_read_only_console_shows_the_plan_and_says_why_it_cannot_begin() -> None:
    operator = CannedOperator()
    operator.held = "read-only: --readonly was given"
    async with seat(operator) as it:
        await it.press("R")
        await it.shows("$ kill -TERM 5859", "Restart is not possible: read-only: --readonly was given")
        assert it.buttons() == ["[Cancel]"]
        await it.press("ctrl+o")
        assert "read-only: --readonly was given" in it.told()
        assert it.app.is_running


async def test_the_key_for_read_only_takes_the_button_away_and_gives_it_back() -> None:
    async with seat() as it:
        await planned(it)
        await it.press("ctrl+o")
        await it.shows("Restart is not possible: read-only by your own switch", "READ-ONLY")
        await it.press("ctrl+o")
        await it.until(lambda: it.buttons() == ["[Cancel]", "Restart"], "the button is not back")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("R", "nothing runs that was launched from a profile. Next: choose one with p."),
        ("S", "nothing runs that could be stopped"),
    ],
)
async def test_a_key_that_cannot_act_says_why(key: str, reason: str) -> None:
    operator = CannedOperator()
    operator.entries, operator.running = operator.entries[1:], ()
    async with seat(operator) as it:
        await it.press(key)
        await it.until(lambda: reason in it.told(), "the reason is not told")
        assert it.app.screen is it.app.dashboard


async def test_servers_of_others_have_a_confirmation_of_their_own() -> None:
    operator = CannedOperator()
    operator.running = (*PAIR, FOREIGN)
    async with seat(operator) as it:
        await planned(it, "S")
        await it.shows("! No console launched single :31000")
        await it.press("right", "enter")
        assert isinstance(it.app.screen, ConfirmScreen)
        await it.shows("! single :31000: pid 41873 41931, port 31000, GPUs 0-3, of mallory")
        assert it.buttons() == ["[Cancel]", "End them too"]
        await it.press("enter")
        assert isinstance(it.app.screen, PlanScreen)
        assert operator.executed == []
        await it.press("enter", "right", "enter")
        await it.until(lambda: operator.executed, "it has not begun")
        assert operator.executed[0][1] == ((41873, 991),)


async def test_a_plan_whose_console_died_is_told_once_and_on_each_screen() -> None:
    operator = CannedOperator()
    operator.left_over = "ann@laptop began to switch to pd-ll and is gone since step 7 of 12"
    async with seat(operator) as it:
        it.feed.more(HostRecords(), HostRecords(plan=None))
        told = f"{operator.left_over}. R finishes it, S undoes it."
        await it.until(lambda: it.told() == [told], "it is not told once")
        await it.press("p")
        await it.shows(f"! {told}")
        await planned(it)
        await it.shows(f"! {operator.left_over}")


async def test_without_servers_of_others_nothing_of_theirs_is_agreed_to() -> None:
    async with seat() as it:
        await begun(it)
        assert it.operator.executed[0][1] == ()


async def test_on_a_protected_host_its_name_is_typed() -> None:
    async with seat(host=msgspec.structs.replace(UP, protected=True)) as it:
        await planned(it)
        await it.press("right", "enter")
        assert isinstance(it.app.screen, ConfirmScreen)
        await it.press("enter")
        assert isinstance(it.app.screen, PlanScreen), "an empty line cancels"
        await it.press("enter", *"ct20q", "enter")
        assert isinstance(it.app.screen, ConfirmScreen), "another name is none"
        assert it.operator.executed == []
        await it.press("backspace", "0", "enter")
        await it.until(lambda: it.operator.executed, "it has not begun")


async def test_the_steps_are_seen_while_they_run() -> None:
    async with seat() as it:
        await begun(it)
        it.operator.execution.feed(
            StepEvent(index=0, kind="began"),
            StepEvent(index=0, kind="done", seconds=6.2, text="6 checks"),
            StepEvent(index=1, kind="began"),
            StepEvent(index=1, kind="said", text="\x1b[31m[red]2 requests[/] are left", seconds=3.0),
        )
        await it.shows("● 1 look before anything is touched done in 6.2 s", "6 checks")
        await it.shows("◐ 2 drain the router running ", "[red]2 requests[/] are left", "waiting")
        await it.shows("1 of 12 steps done")
        assert it.buttons() == ["[Leave it running]", "Abort"]


async def test_the_step_under_way_is_in_view() -> None:
    async with seat(size=(80, 24)) as it:
        await begun(it)
        for index in range(10):
            it.operator.execution.feed(
                StepEvent(index=index, kind="began"), StepEvent(index=index, kind="done", text="well")
            )
        it.operator.execution.feed(StepEvent(index=10, kind="began"))
        await it.until(lambda: "compare what runs" in it.screen(), "the step is not in view")


async def test_a_plan_goes_on_without_its_screen_and_p_and_r_come_back_to_it() -> None:
    async with seat() as it:
        await begun(it)
        it.operator.execution.feed(StepEvent(index=0, kind="began"))
        await it.press("q")
        assert it.app.screen is it.app.dashboard
        await it.shows("restart pd-ll: step 1 of 12, look before anything is touched, running")
        it.operator.execution.feed(StepEvent(index=0, kind="done"), StepEvent(index=1, kind="began"))
        for key in ("p", "R", "S"):
            await it.press(key)
            assert isinstance(it.app.screen, PlanScreen)
            await it.shows("◐ 2 drain the router")
            assert not it.app.dashboard.query(PlanLine)
            await it.press("enter")
            assert it.app.screen is it.app.dashboard
        assert len(it.operator.executed) == 1


async def test_an_end_that_nobody_saw_is_told_and_shown_once() -> None:
    async with seat() as it:
        await begun(it)
        await it.press("q")
        it.operator.execution.feed(DONE, None)
        await it.until(lambda: any(DONE.sentence in said for said in it.told()), "the end is not told")
        assert not it.app.dashboard.query(PlanLine)
        await it.press("p")
        await it.shows("● DONE pd-ll serves, proven and verified.")
        await it.press("q", "p")
        await it.shows("never launched here")


async def test_escape_asks_before_it_aborts() -> None:
    async with seat() as it:
        await begun(it)
        it.operator.execution.feed(StepEvent(index=0, kind="began"))
        await it.press("escape")
        await it.shows("What this plan has launched is stopped; what it has stopped stays stopped.")
        assert it.buttons() == ["[Go on]", "Abort"]
        await it.press("enter")
        assert it.operator.execution.aborts == 0
        await it.press("escape", "right", "enter")
        assert it.operator.execution.aborts == 1
        await it.shows(f"Aborting: {ABORTED}")
        await it.press("escape")
        assert isinstance(it.app.screen, PlanScreen), "once is enough"
        it.operator.execution.feed(PlanResult(state="aborted", sentence=ABORTED), None)
        await it.shows(f"! ABORTED {ABORTED}")


async def test_the_result_names_differences_and_time() -> None:
    differences = (
        Difference(server="decode", setting="flag --page-size", wanted="1", actual="64", kind="rewritten"),
        Difference(server="prefill", setting="graphs", wanted="32", actual=None, kind="missing"),
    )
    verification = Verification(at=NOW, checked=74, differences=differences)
    deployment = DeploymentRecord(
        id="d", profile=profile("pd-ll"), by="me@laptop", begun_at=NOW, verification=verification
    )
    async with seat() as it:
        await begun(it)
        result = msgspec.structs.replace(DONE, deployment=deployment, next="look at page-size")
        it.operator.execution.feed(result, None)
        await it.shows(
            "2 of 74 settings are not as the profile asks:",
            "rewritten decode, flag --page-size: wanted 1, is 64",
            "missing prefill, graphs: wanted 32, is n/a",
            "Next: look at page-size",
            "It took 2m11s, of which 1.4 s the console's own.",
        )
        assert it.buttons() == ["[Close]"]


async def test_a_failure_offers_the_way_back_as_a_plan_to_be_confirmed() -> None:
    async with seat() as it:
        await it.press("p", "down", "enter")
        await it.shows("Switch to cpu-single", "Preflight: 5 ok")
        await it.press("right", "enter")
        await it.until(lambda: it.operator.executed, "it has not begun")
        it.operator.execution.feed(
            StepEvent(index=6, kind="failed", seconds=40.0, text="CUDA out of memory"),
            StepEvent(index=20, kind="began", title="stop what was launched"),
            PlanResult(state="failed", sentence="nothing serves now.", rollback="pd-ll"),
            None,
        )
        await it.shows("✗ FAILED nothing serves now.", "failed after 40 s", "CUDA out of memory", "not begun")
        assert it.buttons() == ["[Close]", "Roll back to pd-ll"]
        await it.press("right", "enter")
        await it.shows("Switch to pd-ll on ct200")
        await it.until(lambda: it.buttons() == ["[Cancel]", "Switch"], "the plan cannot be begun")
        assert len(it.operator.executed) == 1


async def test_after_the_end_the_keys_begin_something_new() -> None:
    async with seat() as it:
        await begun(it)
        it.operator.execution.feed(DONE, None)
        await it.shows("DONE")
        await it.press("escape")
        await it.shows("DONE")
        await it.press("R")
        await it.until(lambda: it.buttons() == ["[Cancel]", "Restart"], "no new plan is shown")


async def test_a_host_that_stays_away_is_told_and_no_crash() -> None:
    async with seat() as it:
        await begun(it)
        it.operator.execution.feed(
            StepEvent(index=0, kind="began"), ConnectionLost("no answer for 60 s", where="ct200")
        )
        await it.shows("✗ LOST ct200: no answer for 60 s", "Whether it went on is not known")
        assert it.buttons() == ["[Close]"]


async def test_without_a_result_nobody_knows_how_it_ended() -> None:
    async with seat() as it:
        await begun(it)
        it.operator.execution.feed(StepEvent(index=0, kind="began"), None)
        await it.shows("✗ LOST it ended without a result", "Whether it went on is not known")
        assert it.buttons() == ["[Close]"]


async def test_a_plan_that_is_made_late_does_not_hide_the_one_that_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator, late = CannedOperator(), asyncio.Event()
    made = operator.restart_plan

    async def restart_plan() -> Plan:
        await late.wait()
        return await made()

    async with seat(operator) as it:
        await planned(it)
        monkeypatch.setattr(operator, "restart_plan", restart_plan)
        await it.press("R")
        await it.press("right", "enter")
        await it.until(lambda: operator.executed, "it has not begun")
        late.set()
        await it.press("down")
        screens = [screen for screen in it.app.screen_stack if isinstance(screen, PlanScreen)]
        assert [screen.begun for screen in screens] == [True]
        assert "[Leave it running]" in it.buttons()


async def test_a_host_that_is_lost_after_the_result_leaves_it() -> None:
    async with seat() as it:
        await begun(it)
        await it.press("q")
        it.operator.execution.feed(DONE, ConnectionLost("no answer for 60 s", where="ct200"))
        await it.until(lambda: any(DONE.sentence in said for said in it.told()), "the end is not told")
        assert not any("no answer" in said for said in it.told())
        await it.press("p")
        await it.shows("● DONE pd-ll serves, proven and verified.")


async def test_a_refusal_of_the_last_moment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = CannedOperator()
    async with seat(operator) as it:
        await planned(it)

        def refuse(*_: object) -> None:
            raise ReadOnly("read-only: the host's settings say so")

        monkeypatch.setattr(operator, "execute", refuse)
        await it.press("right", "enter")
        await it.until(lambda: any("settings say so" in said for said in it.told()), "it is not told")
        assert isinstance(it.app.screen, PlanScreen)


async def test_q_on_the_dashboard_asks_before_it_leaves_a_plan() -> None:
    async with seat() as it:
        await begun(it)
        await it.press("q", "q")
        await it.shows("The plan ends where it stands")
        assert it.buttons() == ["[Stay]", "Leave"]
        await it.press("enter")
        assert it.app.screen is it.app.dashboard
        await it.press("q", "right", "enter")
        await it.until(lambda: it.app.return_code == 0, "it does not leave")


async def test_the_keys_are_in_the_palette_and_their_actions_work_from_there() -> None:
    async with seat() as it:
        commands = {command.title: command for command in it.app.get_system_commands(it.app.screen)}
        assert {"Profiles", "Restart", "Stop", "Read-only"} <= commands.keys()
        commands["Stop"].callback()
        await it.shows("Stop prefill :30000, decode :30001, router :8000 on ct200")


async def test_on_a_screen_of_its_own_keys_of_the_dashboard_do_nothing() -> None:
    async with seat() as it:
        await planned(it)
        await it.press("z", "5", "t")
        assert it.app.dashboard.maximized is None
        await it.press("escape", "5", "z")
        assert it.app.screen.maximized is not None


async def test_in_ascii_every_view_is_ascii() -> None:
    async with seat(glyphs=ASCII, size=(80, 24)) as it:
        await begun(it)
        it.operator.execution.feed(
            StepEvent(index=0, kind="began"), StepEvent(index=0, kind="said", text="50 % … ✓")
        )
        await it.shows("50 % ~ ?")
        assert it.said().isascii()


def test_a_refused_plan_looks_as_it_did(snap_compare: Callable[..., bool]) -> None:
    operator = CannedOperator()
    operator.checks, operator.running = (*CHECKS, REFUSED), (*PAIR, FOREIGN)
    feed = Feed(EVERYTHING)

    async def until_shown(pilot: Pilot[BaseException]) -> None:
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        it = Seat(app, pilot, feed, operator)
        await it.until(lambda: feed.drained, "updates were not taken")
        await it.press("R")
        await it.shows("the preflight refuses port 30000")

    assert snap_compare(console(feed, operator), terminal_size=(80, 24), run_before=until_shown)


def test_a_stretch_of_time_is_said_to_the_second() -> None:
    said = [stretch(seconds) for seconds in (0.42, 9.96, 59.4, 59.6, 90.0, 1800.0, 3900.0)]
    assert said == ["0.4 s", "10 s", "59 s", "1m", "1m30s", "30m", "1h05m"]
