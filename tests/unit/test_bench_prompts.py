"""Prompts of exact lengths, and what tokenizers they can be made for."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import pytest

from console.domain.bench.prompts import (
    BEGINNING,
    DECKS,
    Calibration,
    beginning,
    calibrate,
    makeup_of,
    probes,
    prompts,
)
from console.domain.errors import UsageError

Tokenizer = Callable[[str], int]
"""How many tokens a text has."""


def words(text: str) -> int:
    """One token for each word and each full stop, and one before every text."""
    return 1 + len(re.findall(r" \w+|\.", text))


def letters(text: str) -> int:
    """One token for each byte."""
    return len(text)


def pieces(text: str) -> int:
    """Unequal words, split where they are joined: those with an e before them cost more, fillers cost two."""
    return sum(2 + word.count("e") for word in re.findall(r" \w+", text)) + text.count(".")


def calibrated(tokenizer: Tokenizer) -> Calibration:
    return calibrate([(probe, tokenizer(probe.text)) for probe in probes()])


class TestLengths:
    @pytest.mark.parametrize("tokenizer", [words, letters, pieces])
    @pytest.mark.parametrize("tokens", [96, 127, 128, 512, 1024, 1025])
    def test_every_prompt_has_exactly_as_many_tokens_as_asked(
        self, tokenizer: Tokenizer, tokens: int
    ) -> None:
        made = prompts(20, tokens, Random(1), calibrated(tokenizer))
        assert {tokenizer(prompt) for prompt in made} == {tokens}

    def test_words_of_one_token_come_from_all_decks(self) -> None:
        assert calibrated(words).varied
        assert len({*prompts(1, 4096, Random(1), calibrated(words))[0].split()}) > 200

    def test_words_of_unequal_cost_come_from_one(self) -> None:
        assert not calibrated(pieces).varied

    def test_too_short_says_the_least(self) -> None:
        with pytest.raises(UsageError, match=r"of 8 tokens cannot be made.*shortest has 17.*ask for 17"):
            prompts(1, 8, Random(1), calibrated(words))

    def test_a_length_that_does_not_add_up(self) -> None:
        even = Calibration(fixed=0, per_deck=32, per_filler=2, per_mark=2, varied=False)
        with pytest.raises(UsageError, match="do not add up"):
            makeup_of(65, even)

    def test_a_tokenizer_that_joins_words_is_refused(self) -> None:
        with pytest.raises(UsageError, match="exact lengths cannot be made"):
            calibrated(lambda text: len(text.encode()) ** 2 // 10)


class TestBeginnings:
    def test_no_two_begin_alike(self) -> None:
        made = prompts(3000, 96, Random(7), calibrated(letters))
        assert len({tuple(prompt.split()[:BEGINNING]) for prompt in made}) == 3000
        assert len({beginning(prompt) for prompt in made}) == 3000

    def test_the_same_seed_gives_the_same_and_another_others(self) -> None:
        calibration = calibrated(words)
        first = prompts(50, 64, Random(1), calibration)
        assert first == prompts(50, 64, Random(1), calibration)
        assert not {*map(beginning, first)} & {*map(beginning, prompts(50, 64, Random(2), calibration))}

    def test_warm_is_the_same_prompt_again(self) -> None:
        made = prompts(9, 64, Random(1), calibrated(words), warm=True)
        assert (len(made), len({*made})) == (9, 1)

    def test_more_than_can_begin_differently_are_refused(self) -> None:
        with pytest.raises(UsageError, match="cannot all begin differently"):
            prompts(2_000_000, 64, Random(1), calibrated(words))

    def test_words_are_alike_in_length_and_each_is_there_once(self) -> None:
        every = [word for deck in DECKS for word in deck]
        assert {len(word) for word in every} == {4}
        assert len({*every}) == len(every) == 256
        assert {len(deck) for deck in DECKS} == {16}
