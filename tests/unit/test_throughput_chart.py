"""The throughput chart: gaps are gaps, idle is zero, and it costs little."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from console.domain.throughput import Throughput
from console.ui.widgets.lines import plain
from console.ui.widgets.meter import ASCII, UNICODE, Glyphs
from console.ui.widgets.throughput_chart import (
    LABEL_WIDTH,
    ThroughputChart,
    ceiling,
    rows_of,
    time_ticks,
    value_ticks,
)

OFF = "no metrics: the server was started without --enable-metrics"


def at(time: float, gen: float | None = 1048.0, prompt: float | None = 6310.0) -> Throughput:
    return Throughput(time=time, gen_tok_s=gen, prompt_tok_s=prompt, running=16, queued=2)


class ChartApp(App[None]):
    """A bare app: no theme of the console's."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.chart = ThroughputChart(glyphs=glyphs)

    def compose(self) -> ComposeResult:
        yield self.chart


def shown(chart: ThroughputChart) -> list[str]:
    return [plain(line) for line in chart.shown]


def spaced(text: str) -> str:
    """Words one space apart."""
    return " ".join(text.split())


def plotted(lines: list[str]) -> list[str]:
    """Only the area of the curve."""
    return [line[LABEL_WIDTH + 1 :] for line in lines]


async def test_numbers_curves_and_axes() -> None:
    app = ChartApp()
    async with app.run_test(size=(100, 15)) as pilot:
        for second in range(300):
            app.chart.update_throughput(at(second, 1000.0 + second % 50))
        await pilot.pause()
        lines = shown(app.chart)
        assert len(lines) == 15
        assert {len(line) for line in lines} == {100}
        assert spaced(lines[0]) == "gen 1,049 tok/s running 16 queued 2"
        assert lines[1].startswith("  1,200┤")
        assert any(line.split()[:3] == ["prompt", "6,310", "tok/s"] for line in lines)
        assert lines[-1].split() == ["-5m", "-4m", "-3m", "-2m", "-1m", "now"]


async def test_unreachable_is_a_gap_and_idle_is_a_line_at_zero() -> None:
    app = ChartApp()
    async with app.run_test(size=(108, 9)) as pilot:
        for second in range(301):
            gen = None if 100 <= second < 150 else 0.0 if 200 <= second < 250 else 1000.0
            app.chart.update_throughput(at(second, gen))
        await pilot.pause()
        curve = plotted(shown(app.chart)[1:-2])
        columns = ["".join(rows).strip() for rows in zip(*curve, strict=True)]
        assert all(not column for column in columns[36:48])
        assert all(row[70:80].strip() for row in curve[-1:])
        assert all(not row[70:80].strip() for row in curve[:-1])
        assert all(columns[:32])


async def test_a_pause_in_the_recording_is_a_gap_too() -> None:
    app = ChartApp()
    async with app.run_test(size=(108, 9)) as pilot:
        for second in (*range(100), *range(200, 301)):
            app.chart.update_throughput(at(second))
        await pilot.pause()
        assert not "".join(row[38:62] for row in plotted(shown(app.chart)[1:-2])).strip()


async def test_what_is_no_number_is_a_gap_and_na() -> None:
    """F02."""
    app = ChartApp()
    async with app.run_test(size=(100, 15)) as pilot:
        app.chart.update_throughput(at(0.0))
        app.chart.update_throughput(Throughput(time=1.0, gen_tok_s=math.nan))
        app.chart.update_throughput(Throughput(time=2.0))
        await pilot.pause()
        assert spaced(shown(app.chart)[0]) == "gen n/a tok/s running n/a queued n/a"


async def test_without_metrics_the_caller_says_why() -> None:
    app = ChartApp()
    async with app.run_test(size=(100, 15)) as pilot:
        app.chart.update_throughput(Throughput(time=1.0))
        await pilot.pause()
        assert shown(app.chart)[0].startswith("No readings yet.")
        app.chart.note = OFF
        await pilot.pause()
        assert [line.rstrip() for line in shown(app.chart)] == [OFF]


@pytest.mark.parametrize("height", [1, 2])
async def test_one_line_where_there_is_no_room(height: int) -> None:
    app = ChartApp()
    async with app.run_test(size=(80, height)) as pilot:
        for second in range(300):
            app.chart.update_throughput(at(second))
        await pilot.pause()
        (line,) = shown(app.chart)
        assert len(line) == 80
        recent = line.split()[3]
        assert set(recent) <= set(UNICODE.levels)
        assert spaced(line) == f"gen 1,048 tok/s {recent} prompt 6,310 tok/s running 16 queued 2"


async def test_sparklines_below_eight_rows() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 5)) as pilot:
        for second in range(300):
            app.chart.update_throughput(at(second, None if 100 <= second < 200 else 1048.0))
        await pilot.pause()
        lines = shown(app.chart)
        assert [line.split()[0] for line in lines] == ["gen", "prompt", "running"]
        assert len(lines[0].split()) == 5


async def test_the_curves_are_drawn_at_most_once_a_second() -> None:
    app = ChartApp()
    async with app.run_test(size=(100, 15)) as pilot:
        app.chart.update_throughput(at(0.0, 100.0))
        await pilot.pause()
        first = shown(app.chart)
        app.chart.update_throughput(at(0.5, 9000.0))
        await pilot.pause()
        assert "9,000 tok/s" in shown(app.chart)[0]
        assert plotted(shown(app.chart))[1:8] == plotted(first)[1:8]
        app.chart.update_throughput(at(1.0, 9000.0))
        await pilot.pause()
        assert shown(app.chart)[1] != first[1]


async def test_nothing_is_drawn_while_it_cannot_be_seen() -> None:
    app = ChartApp()
    async with app.run_test(size=(100, 15)) as pilot:
        app.chart.update_throughput(at(0.0, 100.0))
        await pilot.pause()
        app.chart.display = False
        await pilot.pause()
        before = app.chart.shown
        for second in range(1, 60):
            app.chart.update_throughput(at(second, 5000.0))
        await pilot.pause()
        assert app.chart.shown is before
        app.chart.display = True
        await pilot.pause()
        assert "5,000 tok/s" in shown(app.chart)[0]


async def test_the_window_can_be_chosen() -> None:
    app = ChartApp()
    async with app.run_test(size=(100, 15)) as pilot:
        for second in range(900):
            app.chart.update_throughput(at(second))
        app.chart.window_s = 900.0
        await pilot.pause()
        assert shown(app.chart)[-1].split() == ["-15m", "-12m", "-9m", "-6m", "-3m", "now"]
        assert plotted(shown(app.chart))[1:8] != []


async def test_ascii_terminals_get_ascii() -> None:
    app = ChartApp(ASCII)
    async with app.run_test(size=(100, 15)) as pilot:
        for second in range(300):
            app.chart.update_throughput(at(second))
        await pilot.pause()
        assert all(line.isascii() for line in shown(app.chart))
        assert "***" in "".join(shown(app.chart))


async def test_a_chart_larger_than_the_terminal_of_stdout_keeps_its_size() -> None:
    app = ChartApp()
    async with app.run_test(size=(300, 70)) as pilot:
        for second in range(300):
            app.chart.update_throughput(at(second))
        await pilot.pause()
        lines = shown(app.chart)
        assert len(lines) == 70
        assert "-5m" in lines[-1]
        assert lines[-1].rstrip().endswith("now")
        assert lines[-1].index("now") > 280


def test_plotext_is_imported_on_first_use_only() -> None:
    program = (
        "import sys, console.ui.widgets.throughput_chart\n"
        "print(sorted(name for name in sys.modules if 'plotext' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


# Marks


async def marked(
    size: tuple[int, int], *marks: tuple[float, str], glyphs: Glyphs = UNICODE, gen: float = 100.0
) -> list[str]:
    """The chart over 300 s of a steady rate, with these marks."""
    app = ChartApp(glyphs)
    async with app.run_test(size=size) as pilot:
        for second in range(301):
            app.chart.update_throughput(at(second, gen, gen))
        for time, text in marks:
            app.chart.add_mark(time, text)
        await pilot.pause()
        return shown(app.chart)


def column_of(time: float, width: int) -> int:
    return int(time / 300.0 * (width - LABEL_WIDTH - 1))


async def test_a_mark_is_a_line_behind_both_curves_and_its_text_beside_it() -> None:
    lines = await marked((108, 15), (60.0, "switch pd-ll"), gen=600.0)
    curves = plotted(lines[1:9])
    column = column_of(60.0, 108)
    assert column == 20
    assert [row[column] for row in curves].count("┊") == len(curves) - 1
    (row,) = [row for row in curves if "switch pd-ll" in row]
    assert row.index("switch pd-ll") == column + 1
    prompts = plotted(lines[10:-2])
    assert "┊" in {row[column] for row in prompts}
    assert "switch" not in "".join(prompts)
    assert "┊" not in lines[-1] + lines[-2]
    assert lines == await marked((108, 15), (60.0, "switch pd-ll"), gen=600.0)


async def test_a_text_stands_left_of_its_line_where_the_right_has_no_room() -> None:
    lines = await marked((108, 9), (299.0, "verified"))
    assert any("verified┊" in row for row in lines)


async def test_texts_never_run_into_each_other_and_every_line_stands() -> None:
    times = [float(time) for time in range(100, 160, 3)]
    lines = await marked((108, 9), *((time, f"bench C={index}") for index, time in enumerate(times)))
    rows = plotted(lines[1:-2])
    for column in {column_of(time, 108) for time in times}:
        assert "┊" in "".join(row[column] for row in rows)
    words = [word for row in rows for word in row.replace("bench C", "bench_C").split("┊") if "bench" in word]
    assert words
    assert all(word.count("bench") == 1 for word in words)


async def test_a_text_never_covers_the_curve() -> None:
    flat = await marked((108, 9), gen=100.0)
    with_text = await marked((108, 9), (60.0, "switch"), (120.0, "x" * 200), gen=100.0)
    for before, after in zip(plotted(flat[1:-2]), plotted(with_text[1:-2]), strict=True):
        assert all(old in (" ", "\u2800", new) for old, new in zip(before, after, strict=True))
    assert "xxx" not in "".join(with_text)


async def test_a_mark_out_of_the_window_is_gone_and_one_of_now_is_at_the_edge() -> None:
    lines = await marked((108, 9), (-1.0, "before"), (301.0, "after"))
    rows = plotted(lines[1:-2])
    assert "before" not in "".join(lines)
    assert [row for row in rows if row.rstrip().endswith("after┊")]


@pytest.mark.parametrize("size", [(80, 1), (80, 5)])
async def test_in_a_sparkline_a_mark_is_a_tick(size: tuple[int, int]) -> None:
    lines = await marked(size, (150.0, "switch pd-ll"))
    assert lines[0].count("┊") == 1
    recent = lines[0].split()[3]
    assert recent.index("┊") == len(recent) // 2
    assert "switch" not in "".join(lines)
    assert [len(line) for line in lines] == [80] * len(lines)


@pytest.mark.parametrize("size", [(100, 15), (80, 9), (80, 5), (80, 1)])
async def test_marks_in_ascii_and_from_hosts(size: tuple[int, int]) -> None:
    """G05: a text may hold anything."""
    marks = ((30.0, "本番-switch"), (150.0, "\x1b[31m\u202e"), (200.0, "ok"))
    for glyphs in (ASCII, UNICODE):
        lines = await marked(size, *marks, glyphs=glyphs)
        assert all(line.isprintable() and cell_len(line) == size[0] for line in lines)
        assert glyphs is UNICODE or all(line.isascii() for line in lines)
        assert (":" if glyphs is ASCII else "┊") in "".join(lines)


async def test_a_mark_is_drawn_at_once() -> None:
    app = ChartApp()
    async with app.run_test(size=(100, 15)) as pilot:
        for second in range(100):
            app.chart.update_throughput(at(second))
        await pilot.pause()
        assert "failed" not in "".join(shown(app.chart))
        app.chart.add_mark(50.0, "failed")
        app.chart.add_mark(50.0, "failed")
        await pilot.pause()
        assert "".join(shown(app.chart)).count("failed") == 1


# Scales


@pytest.mark.parametrize(
    ("high", "rows", "ticks"),
    [
        (0.0, 4, [0, 10]),
        (1048.0, 4, [0, 1500]),
        (1048.0, 8, [0, 600, 1200]),
        (1048.0, 12, [0, 300, 600, 900, 1200]),
        (1200.0, 12, [0, 300, 600, 900, 1200]),
        (9100.0, 4, [0, 10000]),
    ],
)
def test_ticks_are_round(high: float, rows: int, ticks: list[float]) -> None:
    assert value_ticks(high, rows) == ticks


@given(st.floats(0.0, 1e7), st.sampled_from([1, 2, 4]))
def test_the_scale_holds_the_highest_value_without_wasting_half(high: float, intervals: int) -> None:
    top = ceiling(high, intervals)
    assert top >= high
    assert top <= 1.5 * max(high, 10.0)


@given(st.integers(8, 100))
def test_the_rows_add_up(height: int) -> None:
    gen, prompt = rows_of(height)
    assert gen + prompt + (2 if prompt else 1) == height
    assert gen >= 4


def test_time_ticks_end_now() -> None:
    assert time_ticks(300.0) == {
        -300.0: "-5m",
        -240.0: "-4m",
        -180.0: "-3m",
        -120.0: "-2m",
        -60.0: "-1m",
        0.0: "now",
    }
