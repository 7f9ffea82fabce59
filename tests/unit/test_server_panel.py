"""The server panel: state in words, and what gives way where it is narrow."""

from __future__ import annotations

from typing import get_args

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult

from console.domain.server import LogPlace, Role, ServerProcess
from console.domain.server_view import ServerState, ServerView
from console.ui.widgets.lines import plain
from console.ui.widgets.meter import ASCII, UNICODE, Glyphs
from console.ui.widgets.server_panel import NONE_FOUND, ServerPanel, server_lines

START = 1_000_000.0
NOW = START + 8043.0


def view(role: Role, state: ServerState = "ready", port: int | None = 30000, **fields: object) -> ServerView:
    process = ServerProcess(
        pid=5857,
        start_ticks=1,
        start_time=START,
        role=role,
        port=port,
        version="0.5.15",
        log=LogPlace(kind="file", path="/tmp/log"),
    )
    return ServerView(process=process, state=state, **fields)  # type: ignore[arg-type]


PAIR = [
    view("prefill", running=0, queued=0, kv_pct=12.4, prompt_tok_s=6310.0),
    view("decode", port=30001, running=16, queued=2, kv_pct=71.0, gen_tok_s=1048.2),
    view("router", port=8000, workers="1+1"),
]


def lines(views: list[ServerView], width: int, glyphs: Glyphs = UNICODE) -> list[str]:
    return [plain(line) for line in server_lines(views, NOW, width, glyphs)]


def spaced(text: str) -> str:
    """Words one space apart."""
    return " ".join(text.split())


def test_a_wide_line_says_everything() -> None:
    drawn = lines(PAIR, 110)
    assert spaced(drawn[1]) == (
        "● READY decode :30001 run 16 queue 2 kv 71% gen 1,048 tok/s 2h14m pid 5857 0.5.15"
    )
    assert "1+1 workers" in drawn[2]
    assert {len(line) for line in drawn} == {110}


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (110, {"2h14m", "pid 5857", "tok/s", "0.5.15"}),
        (100, {"2h14m", "pid 5857", "tok/s"}),
        (80, {"2h14m", "pid 5857"}),
        (64, {"2h14m"}),
        (55, set()),
    ],
)
def test_what_matters_least_goes_first(width: int, kept: set[str]) -> None:
    line = lines(PAIR, width)[1]
    optional = {"2h14m", "pid 5857", "tok/s", "0.5.15"}
    assert {text for text in optional if text in line} == kept
    assert line.startswith("● READY    decode  :30001")
    assert "run  16  queue  2" in line


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_states_differ_by_word_and_sign(glyphs: Glyphs) -> None:
    """G07: never by colour alone."""
    drawn = [lines([view("single", state)], 80, glyphs)[0] for state in get_args(ServerState)]
    assert len({line[0] for line in drawn}) == len({line.split()[1] for line in drawn}) == 4
    assert glyphs is UNICODE or all(line.isascii() for line in drawn)


def test_a_reason_is_worth_more_than_a_pid() -> None:
    reason = "torch.OutOfMemoryError: CUDA out of memory on TP2"
    line = lines([view("prefill", "failed", reason=reason)], 80)[0]
    assert line.startswith("✗ FAILED")
    assert reason in line
    assert "pid" not in line


def test_unreadable_load_is_na_and_never_zero() -> None:
    line = lines([view("decode")], 110)[0]
    assert "run n/a  queue n/a  kv  n/a" in line


def test_metrics_that_are_off_are_said_once() -> None:
    """F02: no metrics, state untouched."""
    line = lines([view("decode", metrics_note="metrics are off (start with --enable-metrics)")], 130)[0]
    assert line.startswith("● READY")
    assert "metrics are off (start with --enable-metrics)" in line
    assert "n/a" not in line


def test_notes_follow_the_load() -> None:
    noted = view(
        "decode", running=1, queued=0, kv_pct=3.0, health_note="health: 503", log_note="log is a pipe"
    )
    assert "kv   3%  health: 503  log is a pipe" in lines([noted], 130)[0]


def test_a_server_without_a_port_or_version_keeps_its_columns() -> None:
    drawn = lines([view("router", port=None, workers="1+1"), PAIR[1]], 110)
    assert drawn[0].index("1+1") == drawn[1].index("run")


@pytest.mark.parametrize("width", [79, 80, 81])
def test_wide_and_hostile_reasons_keep_the_width(width: int) -> None:
    """G05."""
    hostile = view("single", "failed", reason="日本語テキスト | \x1b]52;c;x\x07 モデル | 价格 " * 3)
    line = lines([hostile], width)[0]
    assert cell_len(line) == width
    assert line.isprintable()


async def test_the_panel_is_as_high_as_its_servers() -> None:
    class ServersApp(App[None]):
        def compose(self) -> ComposeResult:
            yield ServerPanel()

    app = ServersApp()
    async with app.run_test(size=(110, 20)) as pilot:
        panel = app.query_one(ServerPanel)
        panel.update_servers([], None)
        await pilot.pause()
        assert [plain(line).rstrip() for line in panel.shown] == [NONE_FOUND]
        panel.update_servers(PAIR, NOW)
        await pilot.pause()
        await pilot.pause()
        assert panel.size.height == 3
        assert "READY" in panel.render_line(2).text


async def test_the_age_of_a_server_is_unknown_without_the_hosts_clock() -> None:
    drawn = [plain(line) for line in server_lines(PAIR[:1], None, 110, UNICODE)]
    assert "n/a  pid 5857" in drawn[0]


@pytest.mark.parametrize(
    ("phase", "state", "words"),
    [
        ("capturing graphs", "starting", "capturing"),
        ("stalled", "starting", "! STALLED"),
        ("degraded", "ready", "! DEGRADED"),
        ("crashed", "failed", "CRASHED"),
        ("stopping", "gone", "stopping"),
    ],
)
def test_the_phase_is_said_in_full(phase: str, state: ServerState, words: str) -> None:
    (line,) = server_lines([view("decode", state, phase=phase)], None, 100, UNICODE)
    assert words in plain(line)
