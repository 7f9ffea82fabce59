"""The rows of a log in memory: positions that stay, bounds that hold, classes that change."""

from __future__ import annotations

from sys import getsizeof

from hypothesis import given
from hypothesis import strategies as st

from console.domain.logline import LogLine
from console.ui.widgets.log_buffer import LogBuffer
from console.ui.widgets.log_positions import Positions
from console.ui.widgets.log_rows import TEXT_LIMIT, Mark, Note, Row
from tests.unit.log_app import numbered

FRAME = '  File "/opt/sglang/srt/managers/scheduler.py", line 1, in run'


def rows_of(buffer: LogBuffer) -> list[Row]:
    return [buffer.row(index) for index in range(len(buffer))]


@given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 15))
def test_a_row_keeps_its_position_for_as_long_as_it_is_kept(batches: list[int], limit: int) -> None:
    buffer, rows = LogBuffer(limit), list[Row]()
    for size in batches:
        lines = numbered(len(rows) + 1, size, "error" if size % 2 else "plain")
        dropped = buffer.excess(lines)
        assert dropped == min(len(buffer), max(0, len(buffer) + size - limit))
        buffer.extend(lines)
        buffer.note(f"after {size}")
        rows += [*lines, Note(f"after {size}")]
    assert (buffer.first, buffer.added) == (max(0, len(rows) - limit), len(rows))
    assert rows_of(buffer) == rows[buffer.first :]
    for index in range(len(buffer)):
        assert buffer.index(buffer.position(index)) == index
    errors = [at for at, row in enumerate(rows) if isinstance(row, LogLine) and row.line_class == "error"]
    assert buffer.counts["error"] == len(errors)
    assert list(buffer.alarms["error"]) == [at for at in errors if at >= buffer.first]


def test_a_frozen_copy_stays_as_it_was() -> None:
    buffer = LogBuffer(3)
    buffer.extend(numbered(1, 3, "error"))
    frozen = buffer.frozen()
    buffer.extend(numbered(4, 3, "warning"))
    assert rows_of(frozen) == numbered(1, 3, "error")
    assert (frozen.counts["warning"], list(frozen.alarms["error"])) == (0, [0, 1, 2])


def test_long_lines_are_bounded_by_their_size_not_by_their_number() -> None:
    buffer = LogBuffer()
    text = "価" * 4000
    for start in range(1, 10_001, 100):
        buffer.extend([LogLine(number, f"{number} {text}") for number in range(start, start + 100)])
    rows = rows_of(buffer)
    assert TEXT_LIMIT * 0.98 < sum(getsizeof(row.text) for row in rows) <= TEXT_LIMIT
    assert rows[-1].text.startswith("10000 ")


def test_what_will_be_dropped_is_known_before() -> None:
    buffer = LogBuffer(10)
    buffer.extend(numbered(1, 8))
    assert [buffer.excess(numbered(9, count)) for count in (0, 2, 3, 30)] == [0, 0, 1, 8]


def test_a_traceback_counts_as_one_error() -> None:
    buffer = LogBuffer()
    head = LogLine(1, "Traceback (most recent call last):", "error")
    buffer.extend([head, *(LogLine(number, FRAME, "error", head=1) for number in range(2, 9))])
    assert buffer.counts["error"] == 1
    assert list(buffer.alarms["error"]) == [0]


def test_a_revised_line_has_its_new_class_and_no_other_has() -> None:
    buffer = LogBuffer()
    buffer.extend([LogLine(1, "a"), LogLine(2, "Health check failed", "benign")])
    buffer.note("log rotated")
    buffer.extend([LogLine(3, "c", "error"), LogLine(4, "d", "error")])
    changed = buffer.revise([LogLine(2, "Health check failed", "fatal"), LogLine(4, "d", "error", head=3)])
    assert changed == 1
    kinds = [getattr(row, "line_class", "note") for row in rows_of(buffer)]
    assert kinds == ["plain", "fatal", "note", "error", "error"]
    assert list(buffer.alarms["error"]) == [1, 3]
    assert buffer.counts["error"] == 2


def test_a_line_that_is_no_longer_kept_is_not_revised() -> None:
    buffer = LogBuffer(2)
    buffer.extend(numbered(1, 3))
    buffer.note("a note has the number of the line before it")
    assert buffer.revise([LogLine(1, "line 1", "error"), LogLine(9, "line 9", "error")]) is None
    buffer.note("another")
    assert buffer.revise([LogLine(3, "line 3", "error")]) is None
    assert buffer.counts["error"] == 0


def test_marks_are_rows_too() -> None:
    buffer = LogBuffer()
    buffer.extend(numbered(1, 1))
    buffer.mark("12:00:00 restart", 0)
    assert rows_of(buffer) == [*numbered(1, 1), Mark("12:00:00 restart")]


@given(st.lists(st.tuples(st.sampled_from(["insert", "discard", "below", "from"]), st.integers(0, 40))))
def test_positions_are_a_sorted_set(steps: list[tuple[str, int]]) -> None:
    positions, expected = Positions(), set[int]()
    for step, at in steps:
        match step:
            case "insert" if at not in expected:
                positions.insert(at)
                expected.add(at)
            case "discard":
                assert positions.discard(at) == (at in expected)
                expected.discard(at)
            case "below":
                positions.drop_before(at)
                expected = {each for each in expected if each >= at}
            case "from":
                positions.drop_from(at)
                expected = {each for each in expected if each < at}
        assert list(positions) == sorted(expected)
        assert (at in positions) == (at in expected)
        assert positions.after(at) == min((each for each in expected if each > at), default=None)
        assert positions.before(at) == max((each for each in expected if each < at), default=None)
        assert [positions[-1]] == sorted(expected)[-1:] if expected else not len(positions)
