"""The GPU panel: honest values, rows that stay where they are, widths that do not follow the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from console.domain.gpu import NO_GPUS, GpuReport, GpuSample
from console.domain.ownership import FREE, Owner
from console.ui.widgets.gpu_cells import Row, scale_of
from console.ui.widgets.gpu_panel import GpuPanel, gpu_table, power_sum, sm_mean
from console.ui.widgets.lines import plain
from console.ui.widgets.meter import ASCII, UNICODE, Glyphs, bar, duration, gib, glyphs_for, rate, sparkline

PREFILL = Owner(role="prefill", pid=10, port=30000)
DECODE = Owner(role="decode", pid=20, port=30001)
B200_MIB = 183359.0


def gpu(index: int, **fields: object) -> GpuSample:
    """A card that answers everything NVML has."""
    known: dict[str, object] = {
        "busy_pct": 97.0,
        "power_w": 212.0,
        "power_kind": "average",
        "power_limit_w": 600.0,
        "mem_used_mib": 72704.0,
        "mem_total_mib": 97887.0,
        "temp_c": 51.0,
        "clock_mhz": 2310.0,
        "throttle": (),
        "numa_node": 0,
    }
    return msgspec.convert({"index": index, **known, **fields}, GpuSample)


def dark(index: int, **fields: object) -> GpuSample:
    """A card that answers nothing."""
    return msgspec.convert({"index": index, **fields}, GpuSample)


def nvml(*gpus: GpuSample, **fields: object) -> GpuReport:
    return msgspec.structs.replace(GpuReport(source="nvml", gpus=gpus), **fields)


def table(
    report: GpuReport,
    width: int,
    height: int,
    owners: Mapping[int, Owner] = {},
    glyphs: Glyphs = UNICODE,
) -> list[str]:
    scale = scale_of(report, frozenset(), glyphs)
    rows = [Row(card, owners.get(card.index, FREE)) for card in report.gpus]
    return [plain(line) for line in gpu_table(rows, scale, width, height)]


def flat(report: GpuReport, width: int = 200, owners: Mapping[int, Owner] = {}) -> list[str]:
    return table(report, width, len(report.gpus) + 1, owners)


PAIR = {index: PREFILL if index < 4 else DECODE for index in range(8)}
EIGHT = nvml(*(gpu(index, numa_node=index // 4) for index in range(8)))


class PanelApp(App[None]):
    """A bare app: no theme of the console's."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.panel = GpuPanel(glyphs=glyphs)

    def compose(self) -> ComposeResult:
        yield self.panel


def shown(panel: GpuPanel) -> list[str]:
    return [plain(line) for line in panel.shown]


def tones(panel: GpuPanel) -> set[str]:
    return {span.tone for line in panel.shown for span in line}


# What a value shows


def test_cells_that_are_no_numbers_are_na_and_zero_is_zero() -> None:
    """B01: GPU 1 lacks utilisation and power, GPU 2 really is at 0 %, GPU 3 answers nothing."""
    memory = {"mem_total_mib": B200_MIB, "power_limit_w": 1000.0}
    report = nvml(
        gpu(0, power_w=812.44, mem_used_mib=171203.0, temp_c=61.0, **memory),
        gpu(
            1,
            busy_pct=None,
            power_w=None,
            mem_used_mib=171203.0,
            temp_c=58.0,
            note="[Unknown Error]",
            **memory,
        ),
        gpu(2, busy_pct=0.0, power_w=None, mem_used_mib=4.0, temp_c=None, **memory),
        dark(3, state="needs reset", note="[GPU requires reset]"),
    )
    lines = flat(report)
    assert len(lines) == 5
    assert "97%" in lines[1]
    assert "812/1000 W" in lines[1]
    assert "n/a/1000 W" in lines[2]
    assert "[Unknown Error]" in lines[2]
    assert "0%" not in lines[2]
    assert " 0% " in lines[3]
    assert "NEEDS RESET" in lines[4]
    assert "[GPU requires reset]" in lines[4]
    assert power_sum(report.gpus, scale_of(report, frozenset(), UNICODE)) == "812 W (1 of 4 GPUs)"


def test_a_split_card_has_no_utilisation_and_no_part_in_the_mean() -> None:
    """B09."""
    report = nvml(gpu(0, state="mig", busy_pct=None, power_w=287.0), gpu(1, busy_pct=0.0, power_w=31.2))
    lines = flat(report)
    assert "n/a (MIG)" in lines[1]
    assert " 0% " in lines[2]
    assert sm_mean(report.gpus, scale_of(report, frozenset(), UNICODE)) == "busy 0% (1 of 2 GPUs)"


@pytest.mark.parametrize(("kind", "title"), [("average", "W avg 1s"), ("instant", "W inst")])
def test_the_header_says_what_power_is(kind: str, title: str) -> None:
    """B05."""
    assert title in flat(nvml(gpu(0, power_kind=kind)))[0]


def test_averages_and_instants_are_told_apart_and_never_summed() -> None:
    report = nvml(gpu(0, power_kind="average"), gpu(1, power_kind="instant"))
    lines = flat(report)
    assert "W avg/inst" in lines[0]
    assert "212/600 W avg" in lines[1]
    assert "212/600 W inst" in lines[2]
    assert "n/a" in power_sum(report.gpus, scale_of(report, frozenset(), UNICODE))


def test_the_header_says_what_the_bar_is() -> None:
    busy = flat(nvml(gpu(0)), width=80)[0]
    both = flat(nvml(gpu(0, activity_pct=34.0)), width=80)
    assert "busy (NVML)" in busy
    assert "SM activity" not in busy
    assert "SM activity busy" in both[0]
    assert "34%  97%" in both[1]


def test_one_column_holds_one_kind_of_utilisation() -> None:
    lines = flat(nvml(gpu(0, activity_pct=34.0), gpu(1, busy_pct=50.0)), width=80)
    assert "n/a" in lines[2]
    assert lines[2].index("50%") == lines[1].index("97%")


def test_gpm_columns_appear_when_a_card_answers_them() -> None:
    gpm = gpu(0, activity_pct=3.0, dram_pct=38.0, tensor_pct=7.0, pcie_tx_mb_s=34600.0, pcie_rx_mb_s=30200.0)
    lines = flat(nvml(gpm, gpu(1)))
    assert "DRAM tensor" in lines[0]
    assert "38%" in lines[1]
    assert "34.6/30.2" in lines[1]
    assert "n/a/n/a" in lines[2]
    assert "DRAM" not in flat(nvml(gpu(0)))[0]


def test_reasons_for_a_low_clock_are_words() -> None:
    throttled = nvml(gpu(0, throttle=("power cap", "thermal")), gpu(1))
    assert flat(throttled)[1].rstrip().endswith("power cap, thermal")
    assert "power cap" in flat(nvml(gpu(0, throttle=("power cap",)), gpu(1)), width=80)[1]


# Rows and their order


def test_a_lost_card_keeps_its_row_and_says_so() -> None:
    """B02."""
    note = "GPU is lost.  Reboot the system to recover this GPU"
    report = nvml(gpu(0), gpu(1), dark(2, state="lost", bus_id="0000:BA:00.0", note=note), gpu(3))
    lines = flat(report)
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "2", "3"]
    assert "LOST  GPU is lost. Reboot the system to recover this GPU  0000:BA:00.0" in lines[3]
    assert "0%" not in lines[3]


async def test_losing_a_card_moves_no_row() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.panel.update_report(EIGHT, PAIR)
        await pilot.pause()
        before = [line[:4] for line in shown(app.panel)]
        broken = list(EIGHT.gpus)
        broken[5] = dark(5, state="lost")
        app.panel.update_report(nvml(*broken), {**PAIR, 5: Owner(role="unknown")})
        await pilot.pause()
        assert [line[:4] for line in shown(app.panel)] == before
        assert "LOST" in shown(app.panel)[before.index("  5 ")]


def test_eight_cards_fit_into_nine_lines_of_eighty() -> None:
    lines = table(EIGHT, 80, 9, PAIR)
    assert len(lines) == 9
    assert {len(line) for line in lines} == {80}
    assert [line.split()[1] for line in lines[1:]] == ["prefill"] * 4 + ["decode"] * 4
    assert all(text in lines[1] for text in ("97%", "212/600 W", "35%", "71/96 G", "51°C", "2.31"))


def test_groups_have_headers_where_there_is_room() -> None:
    lines = table(EIGHT, 120, 20, PAIR)
    assert lines[1].startswith("prefill :30000 · NUMA 0 · 4 GPUs · 848 W · busy 97%")
    assert lines[6].startswith("decode :30001 · NUMA 1 · 4 GPUs")
    assert len(lines) == 11


def test_a_role_is_never_told_by_colour_alone() -> None:
    assert [line.split()[1] for line in table(EIGHT, 44, 9, PAIR)[1:]] == ["P"] * 4 + ["D"] * 4


def test_a_planned_owner_is_marked() -> None:
    planned = {0: msgspec.structs.replace(PREFILL, planned=True)}
    assert "prefill?" in flat(nvml(gpu(0)), 80, planned)[1]
    assert "planned" in table(nvml(gpu(0)), 120, 20, planned)[1]


def test_sixteen_cards_stand_in_two_halves_or_scroll() -> None:
    sixteen = nvml(*(gpu(index) for index in range(16)))
    halves = table(sixteen, 160, 9)
    assert len(halves) == 9
    assert halves[1].split().count("free") == 2
    assert len(table(sixteen, 80, 9)) == 17


async def test_a_long_table_scrolls_below_its_titles() -> None:
    app = PanelApp()
    async with app.run_test(size=(80, 9)) as pilot:
        app.panel.update_report(nvml(*(gpu(index) for index in range(16))), {})
        await pilot.pause()
        app.panel.scroll_end(animate=False)
        await pilot.pause()
        assert app.panel.render_line(0).text.startswith("GPU")
        assert app.panel.render_line(8).text.split()[0] == "15"


# Widths


VALUES = st.none() | st.floats(0.0, 100.0)


@given(
    st.lists(st.tuples(VALUES, st.none() | st.floats(0.0, 600.0), VALUES), min_size=8, max_size=8),
    st.integers(20, 220),
    st.booleans(),
)
def test_nothing_moves_with_the_numbers(
    values: Sequence[tuple[float | None, float | None, float | None]], width: int, grouped: bool
) -> None:
    cards = [
        gpu(index, busy_pct=busy, power_w=power, temp_c=temp)
        for index, (busy, power, temp) in enumerate(values)
    ]
    height = 20 if grouped else 9
    lines = table(nvml(*cards), width, height, PAIR)
    assert {cell_len(line) for line in lines} == {width}
    if any(power is not None for _, power, _ in values):
        assert lines[0] == table(EIGHT, width, height, PAIR)[0]


@pytest.mark.parametrize("width", [79, 80, 81])
def test_wide_names_do_not_shift_columns(width: int) -> None:
    """G05."""
    guest = {0: Owner(role="other", pid=1, foreign=("本番-デコード🚀 日本語テキスト",)), 1: FREE}
    lines = flat(nvml(gpu(0), gpu(1)), width, guest)
    assert {cell_len(line) for line in lines} == {width}
    assert "本番" in lines[1]
    assert "…" in lines[1]


def test_a_name_cannot_steer_the_terminal() -> None:
    hostile = {0: Owner(role="other", pid=1, foreign=("\x1b[2Jevil\u202e",))}
    line = flat(nvml(gpu(0)), 200, hostile)[1]
    assert line.isprintable()
    assert "?[2Jevil?" in line


# Age


async def test_old_values_turn_grey_and_say_their_age() -> None:
    """B06: grey after two missed intervals, a sentence after ten seconds."""
    app = PanelApp()
    async with app.run_test(size=(100, 9)) as pilot:
        app.panel.update_report(msgspec.structs.replace(EIGHT, age_s=2.0), PAIR)
        await pilot.pause()
        assert "bar-high" in tones(app.panel)
        app.panel.update_report(msgspec.structs.replace(EIGHT, age_s=4.0), PAIR)
        await pilot.pause()
        assert app.panel.is_stale
        assert shown(app.panel)[0].endswith("4 s old")
        assert tones(app.panel) == {"stale", "spark-stale", "bar-track", "notice"}
        stalled = msgspec.structs.replace(EIGHT, age_s=34.0, reason="nvidia-smi not answering")
        app.panel.update_report(stalled, PAIR)
        await pilot.pause()
        assert shown(app.panel)[0].startswith("GPU telemetry stalled 34 s (nvidia-smi not answering)")
        assert len(shown(app.panel)) == 9


async def test_a_reading_that_does_not_come_is_a_gap_in_the_history() -> None:
    app = PanelApp()
    async with app.run_test(size=(80, 9)) as pilot:
        app.panel.update_report(EIGHT, PAIR)
        app.panel.update_report(msgspec.structs.replace(EIGHT, age_s=30.0), PAIR)
        app.panel.update_report(EIGHT, PAIR)
        await pilot.pause()
        assert "▇ ▇" in shown(app.panel)[1]


async def test_a_report_enters_the_history_once_however_often_its_owners_change() -> None:
    app = PanelApp()
    async with app.run_test(size=(80, 9)) as pilot:
        app.panel.update_report(EIGHT, {})
        app.panel.update_report(EIGHT, PAIR)
        await pilot.pause()
        assert shown(app.panel)[1].count("▇") == 1
        assert "prefill" in shown(app.panel)[1]


async def test_a_silent_connection_greys_the_panel_too() -> None:
    app = PanelApp()
    async with app.run_test(size=(100, 9)) as pilot:
        app.panel.update_report(EIGHT, PAIR)
        app.panel.age_s = 14.0
        await pilot.pause()
        assert app.panel.is_stale
        assert "stalled 14 s" in shown(app.panel)[0]


async def test_no_telemetry_is_one_calm_sentence() -> None:
    app = PanelApp()
    async with app.run_test(size=(100, 9)) as pilot:
        why = "driver 580.95.05 loaded, library 580.126 installed: reboot before the next launch"
        app.panel.update_report(GpuReport(source="none", reason=why), {})
        await pilot.pause()
        assert [line.rstrip() for line in shown(app.panel)] == [f"No GPU telemetry: {why}"]
        app.panel.update_report(NO_GPUS, {})
        await pilot.pause()
        assert "no reading yet" in shown(app.panel)[0]


async def test_the_panel_asks_for_the_height_of_its_groups() -> None:
    class AutoApp(PanelApp):
        CSS = "GpuPanel { height: auto; }"

    app = AutoApp()
    async with app.run_test(size=(100, 40)) as pilot:
        app.panel.update_report(EIGHT, PAIR)
        await pilot.pause()
        await pilot.pause()
        assert app.panel.size.height == 13
        assert shown(app.panel)[1].startswith("prefill :30000")


# Colour and glyphs


async def test_the_panel_follows_the_theme() -> None:
    app = PanelApp()
    async with app.run_test(size=(100, 9)) as pilot:
        app.panel.update_report(EIGHT, PAIR)
        await pilot.pause()
        dark_colours = {segment.style for segment in app.panel.render_line(0)}
        app.theme = "textual-light"
        await pilot.pause()
        assert {segment.style for segment in app.panel.render_line(0)} != dark_colours


async def test_ascii_terminals_get_ascii() -> None:
    app = PanelApp(ASCII)
    async with app.run_test(size=(100, 20)) as pilot:
        guests = {**PAIR, 7: Owner(role="other", pid=1, foreign=("価格",))}
        app.panel.update_report(EIGHT, guests)
        await pilot.pause()
        assert all(line.isascii() for line in shown(app.panel))
        assert any("##" in line for line in shown(app.panel))


# Meters


@pytest.mark.parametrize(
    ("pct", "drawn"),
    [
        (0.0, "──────"),
        (0.1, "╾─────"),
        (50.0, "━━━───"),
        (98.0, "━━━━━━"),
        (100.0, "━━━━━━"),
        (250.0, "━━━━━━"),
    ],
)
def test_bars(pct: float, drawn: str) -> None:
    full, empty = bar(pct, 6)
    assert full + empty == drawn


@given(st.floats(0.0, 200.0), st.integers(0, 40), st.sampled_from([UNICODE, ASCII]))
def test_bars_are_as_wide_as_asked(pct: float, width: int, glyphs: Glyphs) -> None:
    full, empty = bar(pct, width, glyphs)
    assert len(full + empty) == width


def test_sparklines_tell_zero_from_unreadable() -> None:
    assert sparkline([0.0, None, 100.0], 5) == "  ▁ ▇"


def test_numbers() -> None:
    assert [rate(value) for value in (None, 0.0, 9.44, 1048.2)] == ["n/a", "0", "9.4", "1,048"]
    assert [gib(value) for value in (None, 4.0, 512.0, 72704.0)] == ["n/a", "0", "0.5", "71"]
    assert [duration(value) for value in (None, 0.2, 14.0, 59.9, 200.0, 8043.0, 360000.0)] == [
        "n/a",
        "0 s",
        "14 s",
        "59 s",
        "3m",
        "2h14m",
        "4d4h",
    ]


@pytest.mark.parametrize(
    ("encoding", "glyphs"),
    [
        ("utf-8", UNICODE),
        ("UTF8", UNICODE),
        ("ANSI_X3.4-1968", ASCII),
        ("latin-1", ASCII),
        (None, ASCII),
        ("?", ASCII),
    ],
)
def test_glyphs_follow_the_encoding(encoding: str | None, glyphs: Glyphs) -> None:
    assert glyphs_for(encoding) is glyphs
