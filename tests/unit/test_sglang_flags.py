"""Flags across versions, against what the real parsers of SGLang 0.5.5 to 0.5.23 take."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.sglang_flags import HISTORY, FlagValue, current_name, spell, words_of
from console.domain.version import allows, parse_range, parse_version

VERSIONS = [f"0.5.{patch}" for patch in range(5, 24)]

# Flags that changed, as the wheels' own parsers have them: one sign a version, `.` refused, `+` taken, `d`
# taken but called deprecated.
TABLE = Path(__file__).parents[1] / "cases" / "sglang" / "flag_history.tsv"
TAKEN = {
    flag.removeprefix("--"): {version for version, sign in zip(VERSIONS, signs, strict=True) if sign != "."}
    for flag, signs in (line.split("\t") for line in TABLE.read_text().splitlines())
}


def words(flag: str, version: str, value: FlagValue = 32) -> list[str]:
    return spell({flag: value}, version)[0]


def kinds(flag: str, version: str | None, value: FlagValue = 32) -> list[str]:
    return [note.kind for note in spell({flag: value}, version)[1]]


class TestAgainstTheRealParsers:
    @pytest.mark.parametrize("flag", sorted(TAKEN))
    def test_what_is_spelled_is_taken_from_the_first_release_on_that_has_it(self, flag: str) -> None:
        name = current_name(flag)
        history = HISTORY[name]
        names = {name, flag, history.before or name}
        first = min(VERSIONS.index(version) for each in names for version in TAKEN[each])
        too_new_is_told = history.since and not history.before
        for version in VERSIONS[0 if too_new_is_told else first :]:
            for word in words(flag, version)[:1]:
                assert version in TAKEN[word.removeprefix("--")], version

    @pytest.mark.parametrize("flag", sorted(TAKEN))
    def test_nothing_that_some_name_could_still_say_is_left_out(self, flag: str) -> None:
        name = current_name(flag)
        for version in VERSIONS:
            if not words(flag, version):
                assert version not in TAKEN[name] | TAKEN[flag], version

    def test_every_flag_that_is_gone_is_known(self) -> None:
        gone = {flag for flag, versions in TAKEN.items() if VERSIONS[-1] not in versions}
        assert {current_name(flag) for flag in gone} <= set(HISTORY)


class TestSpelling:
    @pytest.mark.parametrize(
        ("version", "spelled"),
        [
            ("0.5.5", "--cuda-graph-max-bs"),
            ("0.5.10.post1", "--cuda-graph-max-bs"),
            ("0.5.13", "--cuda-graph-max-bs"),
            ("0.5.14", "--cuda-graph-max-bs-decode"),
            ("0.5.15+cu130", "--cuda-graph-max-bs-decode"),
            ("0.5.23", "--cuda-graph-max-bs-decode"),
            ("0.6.0", "--cuda-graph-max-bs-decode"),
            (None, "--cuda-graph-max-bs-decode"),
            ("0.0.0.dev0", "--cuda-graph-max-bs-decode"),
        ],
    )
    @pytest.mark.parametrize("written", ["cuda-graph-max-bs-decode", "cuda-graph-max-bs"])
    def test_one_flag_in_either_name(self, version: str | None, spelled: str, written: str) -> None:
        line, notes = spell({written: 32}, version)
        assert line == [spelled, "32"]
        assert [note.kind for note in notes] == ([] if spelled == f"--{written}" else ["renamed"])

    def test_a_dead_flag_is_passed_on_and_told(self) -> None:
        line, (note,) = spell({"num-continuous-decode-steps": 4}, "0.5.15")
        assert line == ["--num-continuous-decode-steps", "4"]
        assert note.kind == "dead"
        assert note.text == "--num-continuous-decode-steps is accepted, but nothing reads it: no effect"

    def test_a_flag_that_is_gone_is_left_out_and_told(self) -> None:
        line, (note,) = spell({"disaggregation-decode-tp": 4}, "0.5.15")
        assert line == []
        assert note.flag == "disaggregation-decode-tp"
        assert note.text == (
            "--disaggregation-decode-tp is gone since 0.5.10: left out; the roles tell each other"
        )
        assert kinds("disaggregation-decode-tp", "0.5.9") == []

    def test_a_flag_dies_before_it_goes(self) -> None:
        assert kinds("prefill-round-robin-balance", "0.5.7") == []
        assert kinds("prefill-round-robin-balance", "0.5.8") == ["dead"]
        assert kinds("prefill-round-robin-balance", "0.5.20") == ["gone"]

    def test_a_flag_that_is_to_come_is_left_out_and_told(self) -> None:
        assert words("dsv4-attn-backend", "0.5.19", "flashmla") == []
        assert kinds("dsv4-attn-backend", "0.5.19") == ["too new"]
        assert words("dsv4-attn-backend", "0.5.20", "flashmla") == ["--dsv4-attn-backend", "flashmla"]

    def test_second_names_become_first_ones_without_a_word(self) -> None:
        assert spell({"dp-size": 2, "ep": 4}, "0.5.15") == (
            ["--data-parallel-size", "2", "--expert-parallel-size", "4"],
            [],
        )

    def test_an_unknown_flag_is_for_the_hosts_parser_to_judge(self) -> None:
        assert spell({"made-up": "x"}, "0.5.15") == (["--made-up", "x"], [])

    def test_a_flag_that_is_off_is_no_matter(self) -> None:
        assert spell({"disaggregation-decode-tp": False, "enable-metrics": False}, "0.5.23") == ([], [])


class TestValues:
    @pytest.mark.parametrize(
        ("value", "line"),
        [
            (True, ["--f"]),
            (False, []),
            (4, ["--f", "4"]),
            (0.85, ["--f", "0.85"]),
            ("a b", ["--f", "a b"]),
            ("", ["--f", ""]),
            ("-x", ["--f=-x"]),
            (-1, ["--f=-1"]),
            ((1, 2), ["--f", "1", "2"]),
            (("/metrics", "/health"), ["--f", "/metrics", "/health"]),
        ],
    )
    def test_words(self, value: FlagValue, line: list[str]) -> None:
        assert words_of("f", value) == line

    @given(st.text())
    def test_argparse_reads_any_text_back(self, text: str) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--f")
        assert parser.parse_args(words_of("f", text)).f == text

    @given(st.floats(allow_nan=False) | st.integers())
    def test_argparse_reads_any_number_back(self, number: float) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--f", type=type(number))
        assert parser.parse_args(words_of("f", number)).f == number


class TestVersions:
    @pytest.mark.parametrize(
        ("text", "version"),
        [
            ("0.5.15", (0, 5, 15)),
            ("0.5.15.post1", (0, 5, 15, 1)),
            ("0.5.23+cu130", (0, 5, 23)),
            ("0.5.16rc1", (0, 5, 16)),
            ("v0.5.9", (0, 5, 9)),
            ("0.0.0.dev12+g1a2b3c", None),
            ("main", None),
            ("0.5", None),
            ("", None),
            (None, None),
        ],
    )
    def test_parse(self, text: str | None, version: tuple[int, ...] | None) -> None:
        assert parse_version(text) == version

    @given(st.text())
    def test_any_text_is_a_version_or_none(self, text: str) -> None:
        parsed = parse_version(text)
        assert parsed is None or len(parsed) >= 3

    @pytest.mark.parametrize(
        ("requires", "version", "allowed"),
        [
            ("", "0.5.5", True),
            (">=0.5.12,<0.5.24", "0.5.12", True),
            (">=0.5.12,<0.5.24", "0.5.9", False),
            (">=0.5.12,<0.5.24", "0.5.24", False),
            (">=0.5.12, <0.5.24", "0.6.1", False),
            ("==0.5.15", "0.5.15.post1", True),
            ("<=0.5.15", "0.5.15.post1", True),
            ("<0.5.15", "0.5.15.post1", False),
            (">=0.5.15.post1", "0.5.15", False),
            ("!=0.5.16", "0.5.16", False),
            (">0.5.9", "0.5.10", True),
            (">=0.5.12", None, None),
            (">=0.5.12", "0.0.0.dev0", None),
        ],
    )
    def test_ranges(self, requires: str, version: str | None, allowed: bool | None) -> None:
        assert allows(requires, version) is allowed

    @pytest.mark.parametrize("text", ["0.5.12", ">=0.5", ">= main", ",", ">=0.5.12,", "~=0.5.12", ">=0.0.0"])
    def test_what_is_no_range(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"expected versions such as >=0\.5\.12"):
            parse_range(text)
