"""From the bytes of a log to lines that are safe to show, with their numbers, classes and heads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.domain.logclass import LinePattern
from console.domain.logline import LogLine
from console.domain.printable import Colour
from console.services.loglines import CUTS_KEPT, DUMP_LIMIT, LINE_LIMIT, LineSplitter, LogReader, Read

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

    @given(st.binary(max_size=300))
    def test_no_line_is_lost_and_none_is_made_up(self, data: bytes) -> None:
        """Of bars with lines glued behind them the bytes below hold none."""
        rest = data.rpartition(b"\n")[2].strip(b"\r")
        assert len(split(data)) == data.count(b"\n") + bool(rest)

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

    @settings(max_examples=40, deadline=None)
    @given(st.binary(max_size=60), st.integers(1, 5000), st.integers(500, 5000))
    def test_where_the_bytes_were_cut_makes_no_difference_to_long_lines(
        self, data: bytes, times: int, size: int
    ) -> None:
        many = (data * times)[:20_000] + b"\n"
        assert split_in_pieces(many, size) == split(many)

    def test_only_the_excess_is_counted_in_characters_of_several_bytes(self) -> None:
        (line,) = split("語".encode() * (LINE_LIMIT + 2))
        assert line == "語" * LINE_LIMIT + " … +6 B"

    def test_the_dump_of_all_settings_is_kept_whole(self) -> None:
        """13 kB in 0.5.15, and its last fields (the role of a pair) matter as much as its first."""
        dump = (
            "[2026-11-29 23:24:08] server_args=ServerArgs(" + "x='y', " * 2000 + "disaggregation_mode='null')"
        )
        assert split(dump.encode() + b"\n") == [dump]
        endless = dump + "x='y', " * 40_000
        assert split(endless.encode() + b"\n") == [
            f"{endless[:DUMP_LIMIT]} … +{(len(endless) - DUMP_LIMIT) // 1000} kB"
        ]


class TestCuts:
    """A line that is shown in part can be had whole: where it stands in its file is told."""

    LONG = b"x" * 9000 + b"end"

    @pytest.mark.parametrize("size", [100, 6000, 1_000_000])
    def test_place_and_length_of_a_cut_line(self, size: int) -> None:
        data = b"short\n" + self.LONG + b"\n" + "日本\r".encode() + self.LONG + b"\r\nshort\n" + self.LONG
        splitter = LineSplitter()
        split_into(splitter, data, size)
        assert sorted(splitter.cuts) == [2, 3, 5]
        for cut in splitter.cuts.values():
            assert data[cut.offset : cut.offset + cut.length] == self.LONG
            assert self.LONG.decode().endswith(cut.end)
            assert cut.end.endswith("end")

    def test_offsets_count_from_where_the_reading_began(self) -> None:
        splitter = LineSplitter()
        splitter.feed(b"half a ", 1_000_000)
        splitter.feed(b"line\n" + self.LONG + b"\n", 1_000_007)
        assert splitter.cuts[2].offset == 1_000_012

    def test_whole_dumps_and_short_lines_are_not_cut(self) -> None:
        splitter = LineSplitter()
        splitter.feed(b"[2026-11-29 23:24:08] server_args={" + b"'a': 1, " * 1000 + b"}\nshort\n")
        assert splitter.cuts == {}

    def test_only_the_last_ones_are_remembered(self) -> None:
        splitter = LineSplitter()
        splitter.feed((self.LONG + b"\n") * (CUTS_KEPT + 5))
        assert len(splitter.cuts) == CUTS_KEPT
        assert min(splitter.cuts) == 6


def split_into(splitter: LineSplitter, data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        splitter.feed(data[start : start + size])
    splitter.end()


def final_lines(reads: list[Read]) -> list[LogLine]:
    """All lines, as they are after the last revision."""
    lines = {line.number: line for read in reads for line in (*read.lines, *read.revised)}
    return [lines[number] for number in sorted(lines)]


def read_in_pieces(data: bytes, size: int) -> list[LogLine]:
    reader = LogReader()
    reads = [reader.feed(data[start : start + size]) for start in range(0, len(data), size)]
    return final_lines([*reads, reader.end()])


BUSY = b"[2026-11-02 10:15:40] Health check failed. Server couldn't get a response.\n"
ALIVE = b"[2026-11-02 10:15:50 TP0] Decode batch, #running-req: 3\n"

WORDS = st.sampled_from(
    [
        b"[2026-11-02 10:15:40 TP1] Scheduler hit an exception: Traceback (most recent call last):",
        b"[2026-11-02 10:15:41] SIGTERM received.",
        b"[2026-11-02 10:15:42] Receive: obj=GenerateReqInput(text='a",
        b"', stream=False)",
        b"Traceback (most recent call last):",
        b"KeyboardInterrupt",
        b"RuntimeError: CUDA error: x",
        b"  File",
        b"Killed",
        b"[2026-11-02 10:15:43 TP0] Scheduler debug info:",
        b"[2026-11-02 10:15:44 TP0] Scheduler watchdog timeout (self.watchdog_timeout=3, self.soft=True)",
        b"server_args=",
        b"\r",
        b"\x1b[31m",
        b"\xff",
        BUSY.strip(),
        ALIVE.strip(),
        READY.encode(),
    ]
)
LOGS = st.lists(WORDS | st.just(b"\n") | st.binary(max_size=6), max_size=60).map(b"".join)
LINED_LOGS = st.lists(WORDS | st.binary(max_size=6), max_size=60).map(b"\n".join)


class TestReader:
    def test_lines_have_numbers_that_go_on(self) -> None:
        reader = LogReader()
        assert [line.number for line in reader.feed(b"a\nb\nc").lines] == [1, 2]
        read = reader.feed(b"d\ne")
        assert read.lines == [LogLine(3, "cd", "plain")]
        assert read.live == LogLine(4, "e", "plain")
        assert reader.end().lines == [LogLine(4, "e", "plain")]
        assert reader.end() == ([], None, [], {})

    def test_the_colours_of_the_writer_are_kept_beside_the_text_and_nothing_else_is(self) -> None:
        reader = LogReader()
        reader.feed(b"first\n")
        line = b"\x1b[2m2026-11-29\x1b[0m \x1b[1m\x1b[32m INFO\x1b[0m \x1b[2Jready\x1b]0;x\x07 to go"
        read = reader.feed(line + b"\n")
        assert [line.text for line in read.lines] == ["2026-11-29  INFO ready to go"]
        assert read.colours == {2: (Colour(0, 10, "2"), Colour(11, 16, "1;32"))}
        assert reader.feed(b"plain\n").colours == {}

    def test_a_revision_of_an_earlier_piece_is_told(self) -> None:
        reader = LogReader()
        (given,) = reader.feed(BUSY).lines
        assert given.line_class == "error"
        assert reader.feed(ALIVE).revised == [given._replace(line_class="warning")]

    def test_a_revision_within_one_piece_is_made_at_once(self) -> None:
        read = LogReader().feed(BUSY + ALIVE)
        assert [line.line_class for line in read.lines] == ["warning", "stats"]
        assert read.revised == []

    def test_an_unfinished_line_has_a_class_too(self) -> None:
        live = LogReader().feed(b"Loading shards:  22% Completed | 10/46 [00:12<00:41,  1.15s/it]").live
        assert live is not None
        assert live.line_class == "progress"

    def test_the_last_line_of_a_killed_process_is_not_lost(self) -> None:
        """A10: the log stops in the middle of a line."""
        reader = LogReader()
        reader.feed(b"one\n[2026-11-02 09:04:11 TP2] Load wei")
        assert reader.end().lines == [LogLine(2, "[2026-11-02 09:04:11 TP2] Load wei", "plain")]

    def test_patterns_of_the_user_come_first(self) -> None:
        reader = LogReader([LinePattern("error", "my marker")])
        lines = reader.feed(
            b"here is my marker\n[2026-11-02 10:15:42] x my marker\n[2026-11-02 10:15:42] my mark\n"
        ).lines
        assert [line.line_class for line in lines] == ["error", "error", "plain"]

    @given(LOGS | LINED_LOGS, st.integers(1, 60))
    def test_where_the_bytes_were_cut_makes_no_difference(self, data: bytes, size: int) -> None:
        assert read_in_pieces(data, size) == read_in_pieces(data, max(1, len(data)))

    @given(LOGS | LINED_LOGS, st.integers(1, 60))
    def test_numbers_are_complete_and_heads_are_heads(self, data: bytes, size: int) -> None:
        lines = read_in_pieces(data, size)
        assert [line.number for line in lines] == list(range(1, len(lines) + 1))
        assert [line.text for line in lines] == split(data)
        for line in lines:
            assert line.head is None or line.head < line.number
            assert line.head is None or lines[line.head - 1].head is None
