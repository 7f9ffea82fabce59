"""The user's own patterns in config.toml: what they may be, and how slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.domain.errors import SettingsError
from console.domain.logclass import LinePattern
from console.domain.worstcase import shape_of
from console.settings import PATTERNS_LIMIT, load_settings


def patterns(folder: Path, text: str) -> tuple[LinePattern, ...]:
    file = folder / "config.toml"
    file.write_text(text)
    return load_settings(file).line_patterns


def one(**keys: str) -> str:
    return "[[log_patterns]]\n" + "".join(f"{name} = '{value}'\n" for name, value in keys.items())


def test_a_literal_alone_or_with_an_expression(tmp_path: Path) -> None:
    text = one(**{"class": "error", "contains": "spilled to disk"})
    text += one(**{"class": "warning", "contains": "took", "regex": r"took \d{4,} ms"})
    spilled, took = patterns(tmp_path, text)
    assert (spilled.line_class, spilled.fits("we spilled to disk")) == ("error", True)
    assert [took.fits(line) for line in ("took 12345 ms", "took 12 ms", "it took")] == [True, False, False]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"class": "error"}, "log_patterns[0]: Object missing required field `contains`"),
        ({"contains": "abc"}, "log_patterns[0].class: missing"),
        ({"class": "ready", "contains": "abc"}, "log_patterns[0].class: 'ready' is no class of lines"),
        ({"class": "error", "contains": "ab"}, "contains must have 3 to 200 characters, not 2"),
        ({"class": "error", "contains": "abc", "regex": "("}, "regex is no regular expression: missing )"),
        ({"class": "error", "contains": "abc", "regex": "x" * 201}, "regex must have at most 200 characters"),
        ({"class": "error", "contains": "abc", "regexp": "x"}, "log_patterns[0].regexp: no such setting"),
        ({"class": "error", "contains": "abc", "regex": "(a+)+$"}, "repeats what repeats or chooses itself"),
        ({"class": "error", "contains": "abc", "regex": r"^job \d+ (x|xx)*y"}, "repeats what repeats"),
        ({"class": "error", "contains": "abc", "regex": r"^job \d .*.*.*.*.*x"}, "regex is too slow: "),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, table: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        patterns(tmp_path, one(**table))
    assert said.replace("`", "") in str(caught.value)
    assert str(tmp_path / "config.toml") in str(caught.value)


def test_there_may_not_be_too_many(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="51 tables, where 50 are the most"):
        patterns(tmp_path, one(**{"class": "error", "contains": "abc"}) * (PATTERNS_LIMIT + 1))


@pytest.mark.parametrize(
    "wrong", ["log_patterns = 3", "log_patterns = [3]", "[log_patterns]\nclass = 'error'"]
)
def test_it_is_an_array_of_tables(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(SettingsError, match="log_patterns"):
        patterns(tmp_path, wrong)


class TestWorstLines:
    @pytest.mark.parametrize(
        "pattern", [r"(a+)+", r"(a|b)*", r"(?:\d+\.)+x", r"((ab?)c){2,}", r"(\w{1,3}){2}", r"(?:x(?:y*))+"]
    )
    def test_what_repeats_a_choice_is_told(self, pattern: str) -> None:
        assert shape_of(pattern).nested

    @pytest.mark.parametrize(
        "pattern",
        [
            r"took (\d+) ms",
            r"(?:ab)+c",
            r"(?i)(?P<n>\d{1,3})(?:ms|s)?",
            r"[^]a]+b",
            r"\(a\|b\)*",
            r"[(+)]+",
            "^x$",
        ],
    )
    def test_what_does_not_is_not(self, pattern: str) -> None:
        assert not shape_of(pattern).nested

    def test_a_line_leads_up_to_each_repeat_and_feeds_it(self) -> None:
        shape = shape_of(r"^job \d+: \[(\w+)\] .*(?:ab)+!")
        leads = ["job ", "job 0: [", "job 0: [0] ", "job 0: [0] 0"]
        assert [lead for lead, _ in shape.pumps] == leads
        assert [pump for _, pump in shape.pumps] == ["0", "0", "0", "ab"]
        assert all(len(line) in range(48, 52) for line in shape.worst_lines(50))
