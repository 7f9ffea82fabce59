"""All logs as one, by time: every line once, in the order of time, each behind the line it belongs to."""

from __future__ import annotations

import re
import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.logline import LineClass, LogLine
from console.domain.observation import LogUpdate, ServerKey
from console.ui.widgets.log_buffer import LogBuffer
from console.ui.widgets.log_rows import Mark, Source
from console.ui.widgets.merged_log import MergedLog, Tributary
from console.ui.widgets.merged_pane import MergedPane
from tests.unit.log_app import ReaderApp, numbered, until

PREFILL, DECODE, ROUTER = (1, 1), (2, 2), (3, 3)
NEVER = time.monotonic() + 3600


def stamped(second: int, text: str, number: int = 1, line_class: LineClass = "plain") -> LogLine:
    return LogLine(number, f"[2026-06-17 16:24:{second:02} TP0] {text}", line_class)


class Logs:
    """Three logs and what they make together."""

    def __init__(self, limit: int = 1000) -> None:
        self.merged = MergedLog(limit)
        self.buffers = {PREFILL: LogBuffer(), DECODE: LogBuffer(), ROUTER: LogBuffer()}
        self.merged.join(
            {
                PREFILL: Tributary(self.buffers[PREFILL], Source("prefill", "prefill")),
                DECODE: Tributary(self.buffers[DECODE], Source("decode", "decode")),
                ROUTER: Tributary(self.buffers[ROUTER], Source("router", "router")),
            }
        )
        self.numbers = dict.fromkeys(self.buffers, 0)

    def add(self, server: ServerKey, *texts: str, line_class: LineClass = "plain") -> None:
        """Lines with `ss text`, or just text for a line without a time; taken at once."""
        for text in texts:
            self.numbers[server] += 1
            line = LogLine(self.numbers[server], text, line_class)
            if re.match(r"\d\d ", text):
                line = stamped(int(text[:2]), text[3:], self.numbers[server], line_class)
            self.buffers[server].extend([line])
        self.merged.catch_up(NEVER)

    @property
    def texts(self) -> list[str]:
        """Whose, and the last word of each row."""
        rows = range(len(self.merged))
        words = [self.merged.source(index) for index in rows]
        return [
            f"{word.word[0] if word else '-'} {self.merged.row(index).text.split('] ')[-1]}"
            for index, word in zip(rows, words, strict=True)
        ]


def test_lines_stand_in_the_order_of_their_time_whenever_they_came() -> None:
    logs = Logs()
    logs.add(DECODE, "10 a", "12 b", "14 c")
    logs.add(PREFILL, "09 A", "11 B", "12 C", "15 D")
    assert logs.texts == ["p A", "d a", "p B", "d b", "p C", "d c", "p D"]


def test_a_line_without_a_time_stays_behind_its_own_line() -> None:
    logs = Logs()
    logs.add(DECODE, "10 Traceback")
    logs.add(PREFILL, "10 A", "  of A")
    logs.add(DECODE, "  frame 1", "  frame 2")
    logs.add(PREFILL, "11 B")
    logs.add(DECODE, "  frame 3", "11 b")
    assert logs.texts == [
        "d Traceback", "d   frame 1", "d   frame 2", "d   frame 3", "p A", "p   of A", "p B", "d b"
    ]  # fmt: skip


def test_a_log_that_begins_without_a_time_has_the_time_of_its_first_line_with_one() -> None:
    logs = Logs()
    logs.add(PREFILL, "05 A", "20 B")
    for number, text in enumerate(("  frame", "RuntimeError", "[2026-06-17 16:24:10] a"), 1):
        logs.buffers[DECODE].extend([LogLine(number, text)])
    logs.merged.catch_up(NEVER)
    assert logs.texts == ["p A", "d   frame", "d RuntimeError", "d a", "p B"]


def test_a_log_without_any_time_goes_by_when_it_came() -> None:
    logs = Logs()
    logs.add(PREFILL, "05 A")
    logs.add(DECODE, "NCCL INFO x")
    logs.add(PREFILL, "06 B")
    assert logs.texts == ["p A", "d NCCL INFO x", "p B"]


@pytest.mark.parametrize(("offset_h", "expected"), [(0, ["d a", "r r"]), (-7, ["r r", "d a"])])
def test_a_router_writes_utc_where_the_others_write_local_time(offset_h: int, expected: list[str]) -> None:
    logs = Logs()
    logs.merged.utc_offset_s = offset_h * 3600.0
    logs.add(DECODE, "[2026-06-17 10:00:00 TP0] a")
    logs.add(ROUTER, "2026-06-17 16:59:59  INFO smg::server: ] r")
    assert logs.texts == expected


def test_rows_keep_their_positions_when_earlier_ones_come() -> None:
    logs = Logs()
    logs.add(DECODE, "10 a", "20 b")
    positions = [logs.merged.position(index) for index in range(2)]
    logs.add(PREFILL, "05 A", "15 B", "25 C")
    assert [logs.merged.row(logs.merged.index(at)).text[-1] for at in positions] == ["a", "b"]


def test_the_oldest_rows_go_first_whosever_they_are() -> None:
    logs = Logs(limit=4)
    logs.add(DECODE, *(f"{second} d" for second in range(10, 15)))
    logs.add(PREFILL, "12 A", "50 B")
    assert logs.texts == ["p A", "d d", "d d", "p B"]
    assert logs.merged.added == 7


def test_errors_are_found_by_time() -> None:
    logs = Logs()
    logs.add(DECODE, "20 d", line_class="error")
    logs.add(PREFILL, "10 p", line_class="fatal")
    logs.add(PREFILL, "30 w", line_class="warning")
    found = [logs.merged.row(logs.merged.index(at)).text[-1] for at in logs.merged.alarms["error"]]
    assert found == ["p", "d"]
    assert logs.merged.counts == {"error": 2, "warning": 1}


def test_frames_of_a_traceback_are_no_errors_of_their_own() -> None:
    logs = Logs()
    logs.buffers[DECODE].extend(
        [stamped(10, "Traceback", 1, "error"), LogLine(2, "  frame", "error", head=1)]
    )
    logs.merged.catch_up(NEVER)
    assert logs.merged.counts["error"] == 1


def test_a_revised_line_is_revised_here_too() -> None:
    logs = Logs()
    logs.add(DECODE, "10 a", "11 b")
    logs.add(PREFILL, "10 A", "11 B")
    assert logs.merged.revise(DECODE, [stamped(11, "b", 2, "fatal")]) is not None
    kinds = [getattr(logs.merged.row(index), "line_class", "") for index in range(4)]
    assert kinds == ["plain", "plain", "fatal", "plain"]
    assert logs.merged.counts["error"] == 1
    assert logs.merged.revise(ROUTER, [stamped(11, "b", 2, "fatal")]) is None


def test_a_mark_stands_behind_its_second_and_only_once() -> None:
    logs = Logs()
    logs.add(DECODE, "10 a", "12 c")
    second = 1_781_713_491  # 2026-06-17 16:24:51
    logs.merged.mark("16:24:51 restart", second - 41)
    logs.buffers[DECODE].mark("16:24:51 restart", second)
    logs.merged.catch_up(NEVER)
    assert [index for index in range(3) if isinstance(logs.merged.row(index), Mark)] == [1]


def test_a_frozen_copy_stays_as_it_was() -> None:
    logs = Logs()
    logs.add(DECODE, "10 a")
    frozen = logs.merged.frozen()
    logs.add(PREFILL, "05 A", "15 B")
    assert (len(frozen), frozen.row(0).text[-1]) == (1, "a")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([PREFILL, DECODE, ROUTER]),
            st.lists(st.one_of(st.integers(0, 59), st.none()), max_size=8),
        ),
        max_size=12,
    )
)
def test_every_line_is_there_once_and_in_order(batches: list[tuple[ServerKey, list[int | None]]]) -> None:
    logs, given_lines = Logs(limit=10_000), {server: list[str]() for server in (PREFILL, DECODE, ROUTER)}
    seconds: dict[str, int] = {}
    clocks: dict[ServerKey, int] = {}
    for server, times in batches:
        for at in times:
            text = f"{server[0]}.{len(given_lines[server])}"
            clocks[server] = clocks.get(server, 0) if at is None else at
            seconds[text] = clocks[server]
            given_lines[server].append(text)
            line = LogLine(len(given_lines[server]), text) if at is None else stamped(at, text)
            logs.buffers[server].extend([line._replace(number=len(given_lines[server]))])
        logs.merged.catch_up(NEVER)
    rows = [logs.merged.row(index).text.split("] ")[-1] for index in range(len(logs.merged))]
    assert sorted(rows) == sorted(text for texts in given_lines.values() for text in texts)
    positions = [logs.merged.position(index) for index in range(len(rows))]
    assert positions == sorted(set(positions))
    dated = [text for text in rows if f"TP0] {text}" in logs.merged.row(rows.index(text)).text]
    assert [seconds[text] for text in dated] == sorted(seconds[text] for text in dated)


def test_taking_in_a_large_log_is_cut_into_slices() -> None:
    logs = Logs(limit=50_000)
    for server in (PREFILL, DECODE):
        logs.buffers[server].extend(
            [stamped(number // 1000, f"{number}", number) for number in range(1, 50_001)]
        )
    slices = 0
    while logs.merged.behind:
        logs.merged.catch_up(time.monotonic())
        slices += 1
    assert 49_000 < len(logs.merged) <= 50_000
    assert slices > 20, "a moment that is over still gets something done, but little"


class TestPane:
    def pane(self) -> tuple[ReaderApp, Logs, MergedPane]:
        logs, pane = Logs(), MergedPane("7 all by time")
        pane.join(
            {
                PREFILL: Tributary(logs.buffers[PREFILL], Source("prefill", "prefill")),
                DECODE: Tributary(logs.buffers[DECODE], Source("decode", "decode")),
            }
        )
        return ReaderApp(pane), logs, pane

    async def test_each_line_has_a_word_for_its_server_in_the_colour_of_its_role(self) -> None:
        app, logs, pane = self.pane()
        async with app.run_test(size=(80, 12)) as pilot:
            logs.buffers[DECODE].extend([stamped(10, "a", 1, "error")])
            logs.buffers[PREFILL].extend([stamped(9, "A", 1)])
            pane.take(LogUpdate(server=DECODE))
            await until(
                pilot,
                lambda: app.rows[:2] == ["  prefill 16:24:09 TP0 A", "✗ decode  16:24:10 TP0 a"],
            )
            colours = {
                segment.text.strip(): segment.style.color
                for y in range(2)
                for segment in pane.view.render_line(y)
                if segment.style
            }
            assert colours["prefill"] != colours["decode"]
            assert "1 error" in app.said

    async def test_sideways_the_word_stays(self) -> None:
        app, logs, pane = self.pane()
        async with app.run_test(size=(40, 12)) as pilot:
            logs.buffers[DECODE].extend([stamped(10, "x" * 80, 1)])
            pane.take(LogUpdate(server=DECODE))
            await until(pilot, lambda: "decode" in app.rows[0])
            await pilot.press("right")
            assert app.rows[0].startswith("  decode   TP0 xxx")

    async def test_what_comes_before_what_is_read_does_not_move_it(self) -> None:
        app, logs, pane = self.pane()
        async with app.run_test(size=(60, 12)) as pilot:
            logs.buffers[DECODE].extend([stamped(n, f"d{n}", n) for n in range(10, 50)])
            pane.take(LogUpdate(server=DECODE))
            await until(pilot, lambda: "d49" in app.rows[-1])
            await pilot.press("up", "up")
            before = app.rows
            logs.buffers[PREFILL].extend([stamped(n, f"p{n}", n) for n in range(1, 20)])
            pane.take(LogUpdate(server=PREFILL))
            await until(pilot, lambda: len(pane.merged) == 59)
            assert app.rows == before

    async def test_it_takes_nothing_while_nobody_looks_and_everything_when_shown(self) -> None:
        app, logs, pane = self.pane()
        async with app.run_test(size=(60, 12)) as pilot:
            pane.display = False
            await until(pilot, lambda: not pane.view.is_on_screen)
            logs.buffers[DECODE].extend([stamped(n, f"d{n}", n) for n in range(10, 50)])
            pane.take(LogUpdate(server=DECODE))
            await pilot.pause()
            assert len(pane.merged) == 0
            pane.display = True
            await until(pilot, lambda: "d49" in "".join(app.rows[-1:]))

    async def test_copied_and_saved_lines_say_whose_they_are(self) -> None:
        app, logs, pane = self.pane()
        async with app.run_test(size=(60, 12)) as pilot:
            logs.buffers[DECODE].extend([stamped(10, "a", 1)])
            logs.buffers[PREFILL].extend([stamped(11, "A", 1)])
            pane.take(LogUpdate(server=DECODE))
            await until(pilot, lambda: "prefill" in app.rows[1])
            await pilot.press("g", "V", "down", "y")
            assert app.copied == ["decode  [2026-06-17 16:24:10 TP0] a\nprefill [2026-06-17 16:24:11 TP0] A"]

    async def test_a_mark_of_ours_stands_once_among_all(self) -> None:
        app, logs, pane = self.pane()
        async with app.run_test(size=(60, 12)) as pilot:
            logs.buffers[DECODE].extend([stamped(10, "a", 1), stamped(30, "b", 2)])
            pane.take(LogUpdate(server=DECODE))
            pane.add_mark("restart", datetime(2026, 6, 17, 16, 24, 20))
            await until(pilot, lambda: "b" in app.rows[2])
            assert app.rows[1].startswith("── 16:24:20 restart ───")

    async def test_a_log_that_left_leaves_its_lines(self) -> None:
        app, logs, pane = self.pane()
        async with app.run_test(size=(60, 12)) as pilot:
            logs.buffers[DECODE].extend([stamped(10, "a", 1)])
            pane.take(LogUpdate(server=DECODE))
            await until(pilot, lambda: "decode" in app.rows[0])
            again = LogBuffer()
            pane.join({(9, 9): Tributary(again, Source("decode", "decode"))})
            again.extend([*numbered(1, 1), stamped(20, "b", 2)])
            pane.take(LogUpdate(server=(9, 9)))
            await until(pilot, lambda: "TP0 b" in app.rows[2])
            assert "TP0 a" in app.rows[0]
