"""The status bar: the connection first, and the rest as far as there is room."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult

from console.domain.deployment import NO_DEPLOYMENT, NO_RECORDS, Deployment, observed
from console.domain.gpu import HostSample
from console.domain.host_view import HostView
from console.domain.run_record import HostRecords
from console.ui.widgets.lines import plain
from console.ui.widgets.meter import ASCII, UNICODE, Glyphs
from console.ui.widgets.status_bar import StatusBar, deployment_parts, status_line
from tests.unit.deployed import NOON, PLAN, RECORD, VIEWS, records

MACHINE = HostSample(
    hostname="ct200.example",
    time=1_764_433_493.0,
    cpus=256,
    load1=38.24,
    mem_total_mib=1536 * 1024.0,
    mem_available_mib=1224 * 1024.0,
)


def host(**fields: object) -> HostView:
    known: dict[str, object] = {
        "name": "ct200",
        "address": "root@10.0.0.20",
        "connection": "up",
        "detail": "ssh",
        "rtt_ms": 12.3,
        "host": MACHINE,
        "age_s": 0.4,
    }
    return HostView(**{**known, **fields})  # type: ignore[arg-type]


def line(view: HostView, width: int = 160, glyphs: Glyphs = UNICODE) -> str:
    return plain(status_line(view, 1.0, width, glyphs))


def spaced(text: str) -> str:
    """Words one space apart."""
    return " ".join(text.split())


def test_a_healthy_host() -> None:
    assert (
        spaced(line(host())) == "ct200 root@10.0.0.20 ● ssh 12 ms load 38.2/256 mem 312/1536 G 16:24:53 UTC"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"connection": "connecting", "host": None}, "◐ connecting…"),
        (
            {"connection": "lost", "since_s": 14.0, "retry_in_s": 3.0},
            "✗ connection lost 14 s ago, retrying in 3 s",
        ),
        ({"connection": "failed", "detail": "no route to host"}, "✗ cannot connect  no route to host"),
        ({"detail": "local", "rtt_ms": None}, "● local "),
        ({"demo": True}, " DEMO "),
        ({"readonly": True}, " READ-ONLY "),
        ({"protected": True}, " PROTECTED "),
        ({"skew_s": -2.44}, "clock -2.4 s"),
        ({"age_s": 4.0}, "shown: 4 s old"),
    ],
)
def test_what_is_out_of_the_ordinary_is_said(fields: dict[str, object], said: str) -> None:
    assert said in line(host(**fields))
    assert said not in line(host())


def test_a_small_skew_and_a_fresh_sample_are_not_worth_a_word() -> None:
    text = line(host(skew_s=0.9, age_s=2.0))
    assert "clock" not in text
    assert "old" not in text


def test_unreadable_is_na() -> None:
    blind = HostSample(hostname="x", time=0.0)
    text = line(host(host=blind))
    assert "load   n/a" in text
    assert "mem n/a/n/a G" in text


@pytest.mark.parametrize(
    ("width", "gone"),
    [
        (120, set()),
        (96, {"root@"}),
        (72, {"root@", "UTC"}),
        (60, {"root@", "UTC", "load"}),
        (40, {"root@", "UTC", "load", "mem"}),
    ],
)
def test_what_matters_least_goes_first(width: int, gone: set[str]) -> None:
    text = line(host(readonly=True), width)
    optional = {"root@", "UTC", "load", "mem"}
    assert {word for word in optional if word not in text} == gone
    assert all(word in text for word in ("ct200", "READ-ONLY", "ssh 12 ms"))
    assert len(text) == width


def test_badges_and_the_connection_never_go() -> None:
    text = line(host(demo=True, readonly=True, connection="lost", since_s=14.0, age_s=14.0), 60)
    assert all(word in text for word in ("ct200", "DEMO", "READ-ONLY", "connection lost 14 s ago"))
    assert "mem" not in text


@pytest.mark.parametrize("width", [20, 79, 80, 81])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_any_name_keeps_the_width(width: int, glyphs: Glyphs) -> None:
    """G05."""
    text = line(host(name="本番-デコード🚀", detail="\x1b[31m\u202e"), width, glyphs)
    assert cell_len(text) == width
    assert text.isprintable()
    assert glyphs is UNICODE or text.isascii()


# What is deployed


READY = Deployment(
    profile="pd-nvfp4", state="ready", verified=True, since=NOON - 8040.0, proven_at=NOON - 200.0
)


def deployed(
    deployment: Deployment,
    records: HostRecords = NO_RECORDS,
    width: int = 160,
    glyphs: Glyphs = UNICODE,
    **fields: object,
) -> str:
    machine = msgspec.structs.replace(MACHINE, time=NOON)
    view = host(**{"host": machine, **fields})
    parts = deployment_parts(deployment, records, view, glyphs)
    return plain(status_line(view, 1.0, width, glyphs, parts))


@pytest.mark.parametrize("width", [120, 140, 200])
def test_a_ready_deployment_is_told_with_its_proof(width: int) -> None:
    assert " pd-nvfp4 · READY 2h14m · proven 3m ago · verified " in deployed(READY, width=width)


def test_at_80_columns_there_are_profile_and_state() -> None:
    text = deployed(READY, width=80)
    assert " pd-nvfp4 · READY 2h14m " in text
    assert "proven" not in text
    assert " READ-ONLY " in deployed(READY, width=80, readonly=True)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "starting", "since": NOON - 14.0, "proven_at": None}, "pd-nvfp4 · STARTING 14 s "),
        ({"state": "roles up", "proven_at": None}, "ROLES UP 2h14m · not proven · verified "),
        ({"verified": False}, "proven 3m ago · not verified "),
        ({"verified": None, "since": None}, "pd-nvfp4 · READY · proven 3m ago "),
        ({"state": "degraded"}, "DEGRADED 2h14m · proven 3m ago "),
        ({"state": "broken"}, "pd-nvfp4 · BROKEN 2h14m  "),
        ({"state": "failed"}, "pd-nvfp4 · FAILED 2h14m  "),
    ],
)
def test_every_state_is_a_word(fields: dict[str, object], said: str) -> None:
    assert said in deployed(msgspec.structs.replace(READY, **fields))


def test_what_was_not_launched_from_a_profile_has_a_state_alone() -> None:
    assert "● ssh 12 ms  ROLES UP  " in deployed(Deployment(state="roles up"))
    assert deployed(NO_DEPLOYMENT) == line(host(host=msgspec.structs.replace(MACHINE, time=NOON)))


@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_under_way_is_told_with_its_owner(width: int) -> None:
    under_way = records(plan=PLAN, held=True, deployment=msgspec.structs.replace(RECORD, stage="starting"))
    text = deployed(observed(VIEWS, under_way), under_way, width=width, utc_offset_s=15600.0)
    assert " ops@laptop: switch to pd-ll, step 5/12, since 16:15 " in text


def test_a_plan_without_its_console_is_interrupted() -> None:
    left = records(plan=PLAN)
    text = deployed(observed(VIEWS, left), left, width=120)
    assert "pd-ll · READY 3m  ops@laptop: switch to pd-ll, step 5/12, interrupted " in text
    over = records(plan=msgspec.structs.replace(PLAN, state="done"))
    assert "step" not in deployed(observed(VIEWS, over), over)


@pytest.mark.parametrize("width", [20, 60, 80, 120])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_names_from_a_host_keep_the_width_too(width: int, glyphs: Glyphs) -> None:
    """G05."""
    hostile = msgspec.structs.replace(READY, profile="本番\x1b[31m\u202e")
    by = records(plan=msgspec.structs.replace(PLAN, by="\x1b]0;x\x07@本番"), held=True)
    text = deployed(hostile, by, width, glyphs)
    assert cell_len(text) == width
    assert text.isprintable()
    assert glyphs is UNICODE or text.isascii()


async def test_the_bar_is_one_line() -> None:
    class BarApp(App[None]):
        def compose(self) -> ComposeResult:
            yield StatusBar()

    app = BarApp()
    async with app.run_test(size=(120, 5)) as pilot:
        bar = app.query_one(StatusBar)
        assert bar.size.height == 1
        bar.update_host(host())
        await pilot.pause()
        assert "ssh 12 ms" in bar.render_line(0).text
        bar.update_host(host(connection="lost", since_s=3.0))
        await pilot.pause()
        assert "connection lost 3 s ago" in bar.render_line(0).text
        bar.update_deployment(READY, NO_RECORDS)
        await pilot.pause()
        assert "pd-nvfp4 · READY" in bar.render_line(0).text
