"""Pages of a log: the whole lines before an offset, whatever the file holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import logpages


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def page(path: Path, before: int, limit: int) -> list[tuple[int, bytes]]:
    """Offsets and bytes of the parts of one page."""
    fd = os.open(path, os.O_RDONLY)
    try:
        parts = [part for part in logpages.page_before(fd, before, limit) if part is not None]
    finally:
        os.close(fd)
    assert [header["more"] for header, _ in parts] == [True] * (len(parts) - 1) + [False]
    return [(header["offset"], data) for header, data in parts]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logpages, "PART", 4)
    monkeypatch.setattr(logpages, "SLICE", 7)


def test_a_page_holds_the_whole_lines_that_fit(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\nfour\n")
    assert page(path, 19, 12) == [(8, b"three\nfour\n")]
    assert page(path, 8, 100) == [(0, b"one\ntwo\n")]


def test_a_line_that_fits_exactly_is_in_the_page(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\n")
    assert page(path, 14, 10) == [(4, b"two\nthree\n")]
    assert page(path, 14, 9) == [(8, b"three\n")]


def test_before_the_first_byte_there_is_nothing(path: Path) -> None:
    path.write_bytes(b"one\n")
    assert page(path, 0, 100) == [(0, b"")]


def test_a_last_line_without_an_end_belongs_to_the_page(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nhal")
    assert page(path, 11, 8) == [(4, b"two\nhal")]


@pytest.mark.usefixtures("small_parts")
def test_of_a_line_longer_than_a_page_come_head_and_end(path: Path) -> None:
    path.write_bytes(b"one\n" + b"0123456789" * 10 + b"\nlast\n")
    before = 4 + 101
    assert page(path, before, 12) == [(4, b"0123"), (8, b"4567"), (before - 4, b"789\n")]


@pytest.mark.usefixtures("small_parts")
def test_the_start_of_a_long_line_is_looked_for_a_slice_at_a_time(path: Path) -> None:
    path.write_bytes(b"one\n" + b"x" * 100 + b"\n")
    fd = os.open(path, os.O_RDONLY)
    turns = sum(part is None for part in logpages.page_before(fd, 105, 12))
    os.close(fd)
    assert turns == 13, "from the page at 93 back to the line end at 3, 7 bytes at a time"


def test_a_file_that_has_become_shorter_is_told(path: Path) -> None:
    path.write_bytes(b"one\n")
    with pytest.raises(OSError, match="truncated"):
        page(path, 5, 100)


@given(
    content=st.lists(st.sampled_from([b"\n", b"a", b"bcd\n", b"efghijklmnop", b"\r"]), max_size=60).map(
        b"".join
    ),
    limit=st.integers(8, 40),
)
def test_pages_together_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, limit: int
) -> None:
    """Page before page, every byte but the middle of long lines comes once, and each page starts a line."""
    path = tmp_path_factory.getbasetemp() / "pages.log"
    path.write_bytes(content)
    before = len(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logpages, "PART", 4)
        patch.setattr(logpages, "SLICE", 3)
        while before > 0:
            parts = page(path, before, limit)
            begin = parts[0][0]
            assert begin < before
            assert begin == 0 or content[begin - 1 : begin] == b"\n"
            for offset, data in parts:
                assert content[offset : offset + len(data)] == data
            held = sum(len(data) for _, data in parts)
            if held < before - begin:
                assert held == limit
                assert b"\n" not in content[begin : before - 1], "only one long line is left out in part"
            assert parts[-1][0] + len(parts[-1][1]) == before
            before = begin


def test_bytes_from_an_offset_on(path: Path) -> None:
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDONLY)
    assert [data for _, data in logpages.span(fd, 2, 6)] == [b"2345"]
    with pytest.raises(OSError, match="truncated"):
        list(logpages.span(fd, 5, 50))
    os.close(fd)
