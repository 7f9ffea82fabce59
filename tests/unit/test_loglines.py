"""Splitting a log into lines that are safe to show, and telling what each line is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.logline import LineClass
from console.services.loglines import LINE_LIMIT, LineSplitter, classify

CORPUS = Path(__file__).parent.parent / "cases" / "log_lines.jsonl"
READY = "[2026-11-02 10:15:42] The server is fired up and ready to roll!"


def split(data: bytes) -> list[str]:
    splitter = LineSplitter()
    return splitter.feed(data).lines + splitter.end()


def split_in_pieces(data: bytes, size: int) -> list[str]:
    splitter = LineSplitter()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return [line for piece in pieces for line in splitter.feed(piece).lines] + splitter.end()


class TestLines:
    def test_newlines_end_lines_and_the_rest_is_live(self) -> None:
        assert LineSplitter().feed(b"one\n\ntwo\nthr") == (["one", "", "two"], "thr")

    def test_nothing_is_live_after_a_newline(self) -> None:
        splitter = LineSplitter()
        splitter.feed(b"thr")
        assert splitter.feed(b"ee\n") == (["three"], None)

    def test_the_end_of_the_log_completes_the_last_line(self) -> None:
        splitter = LineSplitter()
        splitter.feed(b"cut off in the mid")
        assert splitter.end() == ["cut off in the mid"]
        assert splitter.end() == []

    def test_windows_line_ends_are_line_ends(self) -> None:
        assert split(b"one\r\ntwo\r\n") == ["one", "two"]

    @given(st.binary(max_size=300), st.integers(1, 40))
    def test_where_the_bytes_were_cut_makes_no_difference(self, data: bytes, size: int) -> None:
        assert split_in_pieces(data, size) == split(data)

    @given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
    def test_whatever_comes_in_only_printable_text_comes_out(self, data: bytes) -> None:
        assert all(line.isprintable() for line in split(data))
        assert (LineSplitter().feed(data).live or "").isprintable()

    @given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
    def test_printable_text_passes_unchanged(self, text: str) -> None:
        assert split(text.encode() + b"\n") == [text]


class TestCarriageReturns:
    """A05: tqdm redraws its bar behind a carriage return, without a newline."""

    def test_a_redrawn_bar_is_one_line_and_the_next_is_live(self) -> None:
        weights = "\r".join(f"Loading: {done:3d}% Completed | {done}/46" for done in (0, 50, 100))
        capture = "\x1b[32mCapturing\x1b[0m:   0%| | 0/36\rCapturing: 12%|#2 | 4/36"
        lines, live = LineSplitter().feed(f"{weights}\n\n[date] Load weight end.\n{capture}".encode())
        assert lines == ["Loading: 100% Completed | 100/46", "", "[date] Load weight end."]
        assert live == "Capturing: 12%|#2 | 4/36"

    def test_the_live_line_is_replaced_as_the_bar_moves(self) -> None:
        splitter = LineSplitter()
        lives = [splitter.feed(f"\rbar {step}".encode()).live for step in range(4)]
        assert lives == ["bar 0", "bar 1", "bar 2", "bar 3"]

    def test_a_trailing_carriage_return_does_not_blank_the_bar(self) -> None:
        splitter = LineSplitter()
        assert splitter.feed(b"bar 1\r").live == "bar 1"
        assert splitter.feed(b"\r").live == "bar 1"
        assert splitter.feed(b"bar 2").live == "bar 2"

    def test_half_a_block_character_is_held_back(self) -> None:
        splitter = LineSplitter()
        bar = "\r67%|█".encode()
        assert splitter.feed(bar[:-1]).live == "67%|"
        assert splitter.feed(bar[-1:]).live == "67%|█"

    @pytest.mark.parametrize("size", [7, 1000])
    def test_a_line_printed_behind_a_bar_by_another_rank_stands_alone(self, size: int) -> None:
        bar = "Capturing:  50%|#5 | 1/2 [00:00<00:00,  1.98it/s]"
        data = f"\rCapturing:   0%|\r{bar}[2026-11-29 23:39:18 TP1] Load weight end.\n".encode()
        assert split_in_pieces(data, size) == [bar, "[2026-11-29 23:39:18 TP1] Load weight end."]


class TestHostileBytes:
    def test_bytes_that_are_not_utf8_become_replacement_marks(self) -> None:
        """A07: also at a chunk edge, and the lines behind them are read."""
        data = b"sample: \xff\xfe\xc3( end\nhalf a euro: \xe2\x82\n" + READY.encode() + b"\n"
        for size in (1, 4, len(data)):
            assert split_in_pieces(data, size) == ["sample: ���( end", "half a euro: �", READY]

    def test_no_escape_sequence_survives(self) -> None:
        """G02: clear screen, window title, clipboard, colours in 7 and 8 bits, alternate screen."""
        hostile = "A\x1b[2JB\x1b]0;OWNED\x07C\x1b]52;c;aGFja2Vk\x1b\\D\x1b[31mE\x1b[0m\x9b31mF"
        assert split(f"{hostile}\x1b[?1049lG\x1bPq#0\x9cH".encode()) == ["ABCDEFGH"]

    def test_an_unfinished_sequence_hides_nothing(self) -> None:
        assert split(b"a\x1b]0;title without an end") == ["a0;title without an end"]

    def test_sequences_built_from_the_rests_of_others_are_shown_as_pictures(self) -> None:
        assert split(b"a\x1b\x1b[31m[2Jb") == ["a␛[2Jb"]

    def test_control_characters_are_shown_as_pictures_and_tabs_expanded(self) -> None:
        assert split(b"H\x08\x08I\tJ\x00K\x7f") == ["H␈␈I    J␀K␡"]

    @pytest.mark.parametrize(
        "control", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u200b\u200d\ufe0f"
    )
    def test_bidirectional_and_invisible_characters_are_dropped(self, control: str) -> None:
        assert split(f"ad{control}min".encode()) == ["admin"]

    def test_wide_and_combining_characters_stay(self) -> None:
        """G05: what has a glyph is shown; what only joins or selects is dropped so that widths agree."""
        assert split("日本\u3000語 é ä̈ שלום 🚀".encode()) == ["日本  語 é ä̈ שלום 🚀"]


class TestLongLines:
    """A06: server_args of 280 kB, a logged prompt of 5 MB, then the line that matters."""

    PROMPT = b"Receive: obj=(text='" + b"a" * 5_000_000 + b"')"

    @pytest.mark.parametrize("size", [60_000, 10_000_000])
    def test_a_long_line_is_cut_and_stays_one_line(self, size: int) -> None:
        long, ready = split_in_pieces(self.PROMPT + b"\n" + READY.encode() + b"\n", size)
        assert long == self.PROMPT[:LINE_LIMIT].decode() + " … +4.99 MB"
        assert ready == READY

    def test_a_long_line_is_cut_while_it_is_still_live(self) -> None:
        live = LineSplitter().feed(self.PROMPT).live
        assert live is not None
        assert live.endswith(" … +4.99 MB")

    def test_a_bar_behind_a_long_line_starts_anew(self) -> None:
        splitter = LineSplitter()
        splitter.feed(self.PROMPT + b"\r")
        assert splitter.feed(b"bar").live == "bar"

    def test_only_the_excess_is_counted_in_characters_of_several_bytes(self) -> None:
        (line,) = split("語".encode() * (LINE_LIMIT + 2))
        assert line == "語" * LINE_LIMIT + " … +6 B"


def corpus() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


NEEDS_NEIGHBOURS = {
    "boot-bind": r"Traceback",
    "asgi-1": r" +(File|result)",
    "warm-fail": r"requests.exceptions.ReadTimeout|.*kill_process_tree called",
    "cap-fail": r"Possible solutions|\d\. |Open an issue",
    "il-tp3": r"  File",
    "wd-1": r".*Scheduler debug info|Pyspy dump",
    "segv-1": r"Current thread|  File",
}
"""Lines of the corpus whose class only the incident around them gives: frames, advice, dumps."""


def stands_alone(case: dict[str, Any]) -> bool:
    return not re.match(NEEDS_NEIGHBOURS.get(case.get("group", ""), r"(?!)"), case["line"])


@pytest.mark.parametrize(
    "case", [case for case in corpus() if stands_alone(case)], ids=lambda case: case["line"][:60]
)
def test_class_of_every_line_that_can_be_judged_alone(case: dict[str, Any]) -> None:
    (line,) = split(case["line"].encode() + b"\n")
    assert classify(line) == case["class"], case["why"]


def test_lines_inside_an_incident_never_pass_for_good_news() -> None:
    inside = [case["line"] for case in corpus() if not stands_alone(case)]
    assert len(inside) == 15
    assert {classify(line) for line in inside} <= {"plain", "benign", "error"}


def stamped(message: str) -> str:
    return f"[2026-11-02 10:15:42 TP0] {message}"


@pytest.mark.parametrize(
    "line",
    [
        stamped("Ignore import error when loading sglang.srt.models.glm4v_moe: No module named 'x'"),
        "[Gloo] Rank 0 is connected to 0 peer ranks. Expected number of connected peer ranks is : 0",
        stamped("Using FP8 KV cache but no scaling factors provided. Defaulting to 1.0."),
        "gpu-box:41890:41890 [0] NCCL INFO PROFILER/Plugin: Could not find: libnccl-profiler.so.",
        "[rank0]:[W1102 10:12:07.1079 P.cpp:1250] Warning: process group has NOT been destroyed before",
        stamped('INFO:     127.0.0.1:50112 - "GET /v1/error_codes HTTP/1.1" 200 OK'),
        stamped('INFO:     127.0.0.1:50113 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request'),
        stamped('INFO:     127.0.0.1:50113 - "GET /health HTTP/1.1" 503 Service Unavailable'),
    ],
)
def test_harmless_start_up_lines_raise_no_alarm(line: str) -> None:
    """A03: words like error, failed and warning in lines that mean nothing."""
    assert classify(line) == "benign"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (READY, "ready"),
        ("The server is fired up and ready to roll!", "plain"),
        (stamped(f"User said: {READY}"), "plain"),
        (stamped(f"Receive: obj=GenerateReqInput(text='{READY}')"), "benign"),
        (stamped("Receive: obj=GenerateReqInput(text='Scheduler hit an exception: ')"), "benign"),
        (stamped("DetokenizerManager hit an exception: Traceback (most recent call last):"), "fatal"),
        (stamped("Disaggregation warmup failed (mode=decode), status codes: [500]"), "fatal"),
        (stamped("End of prefill disaggregation mode warmup with status 500, resp: x"), "fatal"),
        (stamped("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)"), "warning"),
        (stamped("Watchdog timeout (self.watchdog_timeout=300)"), "fatal"),
        (stamped('INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal'), "error"),
        (
            "ValueError: Page size mismatch: decode server has page_size=64, but prefill server has 32.",
            "fatal",
        ),
        ("RuntimeError: Address already in use (os error 98)", "fatal"),
        (stamped("Failed to do what nobody has seen before"), "warning"),
        ('    raise RuntimeError("CUDA out of memory. Tried")', "plain"),
        ("  0%|          | 0/58 [00:00<?, ?it/s]", "progress"),
    ],
)
def test_class(line: str, expected: LineClass) -> None:
    assert classify(line) == expected


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=200))
def test_any_text_has_a_class_and_none_is_ready(text: str) -> None:
    assert classify(text) != "ready"
