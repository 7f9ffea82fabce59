"""Searching a whole log file: what is found, in what order, and that nothing holds up whoever asks."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import searcher
from console.agent.logsearch import TOO_SLOW, LogSearch, bounded

LOG = b"one error\ntwo\n\x1b[31mthree\x1b[0m error\nfour\n"

Report = dict[str, Any]
Seek = Callable[..., Report]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(LOG)
    return path


def begin(path: Path, pattern: str, **how: Any) -> LogSearch:
    return LogSearch(os.open(path, os.O_RDONLY), bounded({"pattern": pattern, **how}))


def reports(search: LogSearch, limit_s: float = 20.0) -> list[Report]:
    """All parts of an answer, as the agent's loop gets them."""
    found = []
    deadline = time.monotonic() + limit_s
    for part in search.parts():
        assert time.monotonic() < deadline
        if part is None:
            select.select([search.fd], [], [], limit_s)
        else:
            found.append(part[0])
    search.close()
    assert [report["more"] for report in found] == [True] * (len(found) - 1) + [False]
    return found


def seek(path: Path, pattern: str, **how: Any) -> Report:
    """The last report of a search, with the matches of all."""
    found = reports(begin(path, pattern, **how))
    return dict(found[-1], matches=[match for report in found for match in report["matches"]])


def texts(report: Report) -> list[str]:
    return [match["text"] for match in report["matches"]]


def test_matches_come_newest_first_or_in_order(path: Path) -> None:
    assert texts(seek(path, "error")) == ["three error", "one error"]
    assert texts(seek(path, "error", backwards=False)) == ["one error", "three error"]


def test_a_match_says_where_its_line_stands_in_the_file(path: Path) -> None:
    for match in seek(path, "o")["matches"]:
        line = LOG[match["offset"] : match["offset"] + match["size"]]
        assert line in LOG.splitlines(keepends=True)
        assert match["text"].split()[-1].encode() in line


def test_the_whole_file_is_searched_and_that_is_said(path: Path) -> None:
    report = seek(path, "error")
    assert (report["complete"], report["searched"], report["size"]) == (True, len(LOG), len(LOG))


def test_enough_is_enough(path: Path) -> None:
    report = seek(path, "r", max_matches=2)
    assert texts(report) == ["four", "three error"]
    assert not report["complete"]


def test_a_literal_is_no_expression(path: Path) -> None:
    path.write_bytes(b"a.c\nabc\n")
    assert texts(seek(path, "a.c")) == ["abc", "a.c"]
    assert texts(seek(path, "a.c", literal=True)) == ["a.c"]
    assert texts(seek(path, "A.C", literal=True)) == []
    assert texts(seek(path, "A.C", literal=True, ignore_case=True)) == ["a.c"]


def test_what_is_searched_is_what_is_shown(path: Path) -> None:
    path.write_bytes(b"10%\r50%\r100% done\r\n\x1b[32mINFO\x1b[0m \x1b[2mrouter\x1b[0m\nline\r\n")
    assert texts(seek(path, "INFO router")) == ["INFO router"]
    assert texts(seek(path, "50%")) == []
    assert texts(seek(path, "^100% done$")) == ["100% done"]
    assert texts(seek(path, "line$")) == ["line"]


def test_letters_are_letters_and_any_byte_is_allowed(path: Path) -> None:
    path.write_bytes("Grüße\n".encode() + b"\xff\xfe bytes \x00\n")
    assert texts(seek(path, r"^Gr\w\we$")) == ["Grüße"]
    assert texts(seek(path, "bytes")) == ["\ufffd\ufffd bytes \x00"]


def test_empty_lines_and_a_last_one_without_an_end_are_lines(path: Path) -> None:
    path.write_bytes(b"a\n\nb\n\nhalf")
    assert texts(seek(path, "^$")) == ["", ""]
    last = seek(path, "half")["matches"][0]
    assert (last["offset"], last["size"]) == (6, 4)


def test_an_empty_file_has_no_match(path: Path) -> None:
    path.write_bytes(b"")
    report = seek(path, "")
    assert (texts(report), report["complete"]) == ([], True)


def test_of_a_long_line_comes_the_part_with_the_match(path: Path) -> None:
    path.write_bytes(b"x" * 5000 + b"needle" + b"y" * 5000 + b"\n")
    match = seek(path, "needle", max_chars=100)["matches"][0]
    assert "needle" in match["text"]
    assert len(match["text"]) == 100
    assert match["left_out"] == 4975
    assert match["size"] == 10007


def test_a_line_of_megabytes_is_searched_in_part_and_that_is_said(path: Path) -> None:
    path.write_bytes(b"first\nneedle" + b"x" * (3 << 20) + b"lost\nlast\n")
    for backwards in (True, False):
        report = seek(path, "^needle|lost|last|first", backwards=backwards)
        assert {text[:5] for text in texts(report)} == {"first", "needl", "last"}
        assert report["cut_lines"] == 1
        assert report["searched"] == report["size"]


def test_what_is_no_expression_is_told(path: Path) -> None:
    assert "not a regular expression" in reports(begin(path, "("))[0]["error"]


def test_a_file_without_a_name_is_searched(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    path.unlink()
    assert texts({"matches": reports(LogSearch(fd, bounded({"pattern": "two"})))[0]["matches"]}) == ["two"]


def test_a_pattern_that_never_ends_is_ended(path: Path) -> None:
    path.write_bytes(b"a error\n" + b"a" * 64 + b"!\n")
    begun = time.monotonic()
    last = reports(begin(path, r"^(a+)+$"))[-1]
    assert last["error"] == TOO_SLOW
    assert time.monotonic() - begun < 15


def test_closing_ends_a_search_that_would_go_on(path: Path) -> None:
    path.write_bytes(b"a" * 64 + b"!\n")
    search = begin(path, r"^(a+)+$")
    assert next(search.parts()) is None
    begun = time.monotonic()
    search.close()
    assert time.monotonic() - begun < 1.0
    assert search._child.returncode == -9


def test_progress_is_reported_and_reports_stay_small(path: Path) -> None:
    path.write_bytes(b"match 1234567890\n" * 100_000)
    found = reports(begin(path, "match", max_matches=100_000, backwards=False))
    assert sum(len(report["matches"]) for report in found) == 1000
    assert max(sum(len(match["text"]) for match in report["matches"]) for report in found) <= 33_000


def test_a_file_that_is_truncated_meanwhile_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch, in_process: Seek
) -> None:
    whole = searcher.blocks_forwards

    def truncating(fd: int, size: int) -> Any:
        for span in whole(fd, size):
            os.truncate(path, 3)
            yield span

    monkeypatch.setattr(searcher, "blocks_forwards", truncating)
    report = in_process(path, "one", backwards=False)
    assert not report["complete"]
    assert "truncated" in report["note"]


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> Seek:
    """A search without a process of its own, for tests that look inside or run often."""
    said: list[Report] = []
    monkeypatch.setattr(searcher, "say", said.append)
    monkeypatch.setattr(searcher, "allow_time", lambda: None)

    def search(path: Path, pattern: str, **how: Any) -> Report:
        said.clear()
        fd = os.open(path, os.O_RDONLY)
        searcher.Search(dict(bounded({"pattern": pattern, **how}), fd=fd)).run()
        os.close(fd)
        return dict(said[-1], matches=[match for report in said for match in report["matches"]])

    return search


@given(
    lines=st.lists(st.text(alphabet="ab\x1b[m \xe9", max_size=12), max_size=30),
    ended=st.booleans(),
    pattern=st.sampled_from(["a", "^a", "b$", "a.b", "^$", "[^a]", "a|b", "é", ""]),
    block=st.integers(1, 40),
    backwards=st.booleans(),
)
def test_every_matching_line_is_found_once_wherever_blocks_end(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    ended: bool,
    pattern: str,
    block: int,
    backwards: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "search.log"
    path.write_bytes("\n".join(lines).encode() + b"\n" * (ended and bool(lines)))
    there = [line.decode() for line in path.read_bytes().splitlines()]
    shown = [searcher.SEQUENCE.sub("", line) for line in there]
    with pytest.MonkeyPatch.context() as patch:
        said: list[Report] = []
        patch.setattr(searcher, "say", said.append)
        patch.setattr(searcher, "allow_time", lambda: None)
        patch.setattr(searcher, "BLOCK", block)
        fd = os.open(path, os.O_RDONLY)
        searcher.Search(dict(bounded({"pattern": pattern, "backwards": backwards}), fd=fd)).run()
        os.close(fd)
    found = [match for report in said for match in report["matches"]]
    expected = [line for line in shown if re.search(pattern, line)]
    assert [match["text"] for match in found] == (expected[::-1] if backwards else expected)
    for match in found:
        raw = path.read_bytes()[match["offset"] : match["offset"] + match["size"]]
        assert searcher.SEQUENCE.sub("", raw.decode()).rstrip("\n") == match["text"]
