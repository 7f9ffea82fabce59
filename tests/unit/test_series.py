"""Bounded series, gaps, and thinning that keeps every peak."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.series import Columns, Point, Series, decimate, maxima

MINUTE = Columns(0.0, 60.0, 6)


def points(values: list[float | None], step: float = 1.0) -> list[Point]:
    return [Point(i * step, value) for i, value in enumerate(values)]


def test_the_oldest_points_leave_first() -> None:
    series = Series(capacity=3)
    for second in range(5):
        series.append(second, second * 10.0)
    assert series.since(0.0) == [(2, 20.0), (3, 30.0), (4, 40.0)]


def test_since_keeps_the_start_itself() -> None:
    series = Series(capacity=10)
    for second in range(4):
        series.append(second, 1.0)
    assert [point.time for point in series.since(2.0)] == [2, 3]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_a_gap(value: float | None) -> None:
    series = Series(capacity=2)
    series.append(0.0, value)
    assert series.latest == Point(0.0, None)


def test_a_clock_that_was_set_back_forgets_the_future() -> None:
    series = Series(capacity=10)
    for time in (10.0, 11.0, 12.0):
        series.append(time, time)
    series.append(10.5, 1.0)
    assert series.since(0.0) == [(10.0, 10.0), (10.5, 1.0)]


def test_an_empty_series_has_no_latest() -> None:
    assert Series(capacity=1).latest is None
    assert len(Series(capacity=1)) == 0


def test_a_column_keeps_its_lowest_and_highest_in_order_of_time() -> None:
    lines = decimate(points([5.0, 9.0, 1.0, 5.0, 6.0]), MINUTE)
    assert lines == [[(1.0, 9.0), (2.0, 1.0)]]


def test_a_line_breaks_at_a_gap_but_not_at_zero() -> None:
    values: list[float | None] = [1.0] * 10 + [None] * 10 + [0.0] * 10 + [2.0] * 10
    lines = decimate(points(values), MINUTE)
    assert [[value for _, value in line] for line in lines] == [[1.0, 1.0], [0.0, 0.0, 2.0, 2.0]]


def test_a_line_breaks_where_nothing_was_recorded() -> None:
    seen = [Point(0.0, 1.0), Point(5.0, 1.0), Point(40.0, 1.0)]
    assert len(decimate(seen, MINUTE, max_step=3.0)) == 2
    assert len(decimate(seen, MINUTE)) == 1


def test_maxima_tell_idle_from_unreadable() -> None:
    values: list[float | None] = [0.0] * 10 + [None] * 10 + [3.0, 8.0]
    assert maxima(points(values), MINUTE) == [0.0, None, 8.0, None, None, None]


READINGS = st.lists(st.none() | st.floats(0.0, 1e6), min_size=1, max_size=400)


@given(READINGS, st.integers(1, 60), st.floats(0.05, 3.0))
def test_thinning_is_small_ordered_and_loses_no_peak(
    values: list[float | None], width: int, step: float
) -> None:
    seen = points(values, step)
    lines = decimate(seen, Columns(0.0, len(values) * step, width))
    flat = [point for line in lines for point in line]
    readable = [value for value in values if value is not None]
    assert len(flat) <= 2 * width
    assert flat == sorted(flat, key=lambda point: point[0])
    assert set(flat) <= set(seen)
    if readable:
        assert min(value for _, value in flat) == min(readable)
        assert max(value for _, value in flat) == max(readable)
    else:
        assert lines == []


@given(READINGS)
def test_no_line_crosses_a_gap_wider_than_a_column(values: list[float | None]) -> None:
    seen = points(values)
    columns = Columns(0.0, float(len(values)), len(values))
    for line in decimate(seen, columns):
        times = [int(time) for time, _ in line]
        assert all(values[second] is not None for second in range(times[0], times[-1] + 1))
