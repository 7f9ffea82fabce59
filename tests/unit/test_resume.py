"""A plan whose console died: what is said of it, and what is left to do."""

from __future__ import annotations

import msgspec
import pytest

from console.domain.launch import launches
from console.domain.resume import resume_plan, where_it_stands
from console.domain.run_record import HostRecords, PlanRecord
from tests.unit.deployed import DECODE_RUN, PAIR, PLAN, PREFILL_RUN, ROUTER_RUN, records

LAUNCHES = launches(PAIR, "/opt/python", "0.5.23")
DEAD = [msgspec.structs.replace(run, alive=False) for run in (PREFILL_RUN, DECODE_RUN, ROUTER_RUN)]


class TestWhereItStands:
    def test_it_names_who_what_where_and_what_lives(self) -> None:
        assert where_it_stands(records(DEAD[2], plan=PLAN)) == (
            "ops@laptop began to switch to pd-ll and is gone since step 5 of 12 (step 5);"
            " prefill and decode live"
        )

    def test_one_lives(self) -> None:
        said = where_it_stands(records(DEAD[1], DEAD[2], plan=PLAN))
        assert said is not None
        assert said.endswith("; prefill lives")

    @pytest.mark.parametrize(
        ("verb", "profile", "what"),
        [
            ("stop", None, "began to stop and"),
            ("restart", "pd-ll", "began to restart pd-ll and"),
            ("resume", "pd-ll", "began to go on with pd-ll and"),
        ],
    )
    def test_each_verb_has_its_words(self, verb: str, profile: str | None, what: str) -> None:
        plan = msgspec.convert(
            {**msgspec.structs.asdict(PLAN), "verb": verb, "profile": profile, "step": 11}, PlanRecord
        )
        said = where_it_stands(records(*DEAD, plan=plan))
        assert said is not None
        assert what in said
        assert said.endswith("(step 12); nothing of it lives")

    def test_a_plan_under_way_is_not_interrupted(self) -> None:
        assert where_it_stands(records(plan=PLAN, held=True)) is None

    @pytest.mark.parametrize("state", ["done", "failed", "aborted"])
    def test_a_plan_that_ended_is_not_interrupted(self, state: str) -> None:
        ended = msgspec.convert({**msgspec.structs.asdict(PLAN), "state": state}, PlanRecord)
        assert where_it_stands(records(plan=ended)) is None

    def test_there_is_none(self) -> None:
        assert where_it_stands(HostRecords()) is None


class TestResumePlan:
    def test_both_servers_live_and_the_router_is_missing(self) -> None:
        plan = resume_plan(PAIR, LAUNCHES, ["prefill", "decode"])
        assert plan is not None
        assert (plan.verb, plan.title) == ("resume", "go on with pd-ll")
        assert [step.kind for step in plan.steps] == [
            *("ready", "launch", "router", "prove", "verify", "record")
        ]
        assert [launch.name for step in plan.steps if step.kind == "launch" for launch in step.launches] == [
            "router"
        ]

    def test_all_live(self) -> None:
        plan = resume_plan(PAIR, LAUNCHES, ["prefill", "decode", "router"])
        assert plan is not None
        assert [step.kind for step in plan.steps] == ["ready", "router", "prove", "verify", "record"]
        assert plan.targets == ()

    @pytest.mark.parametrize("alive", [[], ["prefill"], ["decode", "router"]])
    def test_half_a_pair_is_not_completed(self, alive: list[str]) -> None:
        assert resume_plan(PAIR, LAUNCHES, alive) is None
