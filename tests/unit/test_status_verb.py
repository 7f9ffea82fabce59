"""`status`: the deployment as the records and the servers tell it, as JSON and for people."""

from __future__ import annotations

import msgspec

from console.cli.snapshot import Snapshot
from console.cli.status import as_dict, as_text
from console.cli.target import Target
from console.domain.observation import Servers
from console.domain.run_record import HostRecords
from console.domain.server_view import ServerView
from console.remote.local import LocalHost
from console.settings import HostSettings, Settings
from tests.unit.canned import SAMPLE, UP
from tests.unit.deployed import NOON, PLAN, PREFILL_RUN, VIEWS, records, seen

TARGET = Target(
    name="ct200", demo=False, host=HostSettings(), readonly=False, settings=Settings(), open_host=LocalHost
)
AT_NOON = msgspec.structs.replace(SAMPLE, host=msgspec.structs.replace(SAMPLE.host, time=NOON))


def snapshot(views: tuple[ServerView, ...], of: HostRecords) -> Snapshot:
    known = Snapshot()
    for update in (UP, AT_NOON, Servers(views), of):
        known.take(update)
    return known


def test_a_proven_pair() -> None:
    said = as_dict(TARGET, snapshot(VIEWS, records()))
    assert {name: said["deployment"][name] for name in ("profile", "state", "verified", "proven_at")} == {
        "profile": "pd-ll",
        "state": "ready",
        "verified": True,
        "proven_at": NOON - 200.0,
    }
    assert (said["plan"], said["lock"]) == (None, None)
    assert "  pd-ll ready, proven 200 s ago, verified" in as_text(said)


def test_a_broken_pair_is_the_verdict_though_its_dead_role_is_no_server_any_more() -> None:
    dead = msgspec.structs.replace(PREFILL_RUN, alive=False, exit_code=137)
    said = as_dict(TARGET, snapshot(seen(without=["prefill"]), records(dead)))
    assert said["deployment"]["state"] == "broken"
    assert said["verdict"]["text"] == ("pd-ll broken: prefill died (exit 137). Next: restart the pair (R)")
    assert [server["role"] for server in said["servers"]] == ["decode", "router"]
    assert "  pd-ll broken" in as_text(said)


def test_a_plan_under_way_is_told_with_its_owner() -> None:
    said = as_dict(TARGET, snapshot(VIEWS, records(plan=PLAN, held=True)))
    assert (said["plan"]["by"], said["plan"]["step"], said["lock"]["by"]) == ("ops@laptop", 4, "ops@laptop")
    assert "  ops@laptop: switch to pd-ll, step 5/12" in as_text(said)
    left = as_text(as_dict(TARGET, snapshot(VIEWS, records(plan=PLAN))))
    assert "  ops@laptop: switch to pd-ll, step 5/12, interrupted: its console has gone" in left


def test_without_records_the_deployment_is_what_is_seen() -> None:
    known = Snapshot()
    known.take(Servers(VIEWS))
    said = as_dict(TARGET, known)
    assert (said["deployment"]["profile"], said["deployment"]["state"]) == (None, "roles up")
    assert said["deployment"]["verified"] is None
