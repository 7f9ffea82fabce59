"""Prompts of exact token lengths without a tokenizer, no two of which begin alike.

A prompt is made of decks: sixteen four-letter words in random order. Tokenizers split a text at its spaces
before all else, so what a deck costs does not depend on its order; fillers and at most one full stop at the
end make up the length. What each costs, calibrate() finds from what the server counted of a few probes.

Where every word is one token, decks are drawn from all sixteen, otherwise they are all the first. The first
six words of a prompt are thus one of 5,765,760 (16 x 15 x 14 x 13 x 12 x 11) beginnings, or of 92 million;
those of one call are all different. The same seed gives the same prompts: a cache that has seen them serves
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from console.domain.errors import UsageError

DECKS = tuple(
    tuple(deck.split())
    for deck in """
able book cope drop file glad hole laid main need pink ring sent take town wear
acid boss copy dual film goes home land male news plan risk shop talk trip well
also bowl cost dust find golf host last mark nice plot road show tank tune were
army burn crop each fire good hour lead meal none plus role sign tape twin west
baby bush data ease fish grew hung less mean note pool roof size team unit when
ball call dawn east flat gulf idea lift meet once poor root skin tell used wide
bank came deal edge food hair into line mere onto post rule slow term user wild
base card dear even form hall item link milk open pure safe soft text vast wind
bear case debt exit four hang jump live mind over race said sold that vice wing
been cast deny fact free harm just loan miss pack rain sale some them vote wise
bell chat dial fair fuel head keen logo mode paid rare same soon they wait wish
best chip disc farm fund heat kept look moon pair rate save soul this walk wood
bird club does fast game held kind lose most park real seed spot till want wore
blue coat door fear gave here knee loss much pass rely seem stay tiny ward yard
boat cold dose feel gift high know love name past rest self stop tone wash year
bond cook draw fell girl hire lady made near peak rich sell suit tour ways zero
""".strip().splitlines()
)
FILLER = " a"
MARK = "."
BEGINNING = 6
"""Words by which prompts differ. Caches work in pages of at least one token, mostly of 64 or 256."""
MOST_PROMPTS = 1_000_000
"""Of one call: a sixth of the beginnings, so that a new one is soon drawn."""


class Makeup(msgspec.Struct, frozen=True, kw_only=True):
    """What a prompt is made of."""

    decks: int
    fillers: int = 0
    mark: bool = False


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts of a prompt cost, in tokens of the model that is served."""

    fixed: int
    """What the tokenizer puts before every text."""
    per_deck: int
    per_filler: int
    per_mark: int
    varied: bool
    """Every word is one token: a deck may be any."""

    def cost(self, makeup: Makeup) -> int:
        """Tokens of a prompt."""
        parts = self.per_deck * makeup.decks + self.per_filler * makeup.fillers
        return self.fixed + parts + self.per_mark * makeup.mark


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A text whose tokens the server is to count."""

    makeup: Makeup
    text: str
    varied: bool = False
    """It has each deck once."""


_ONE = Makeup(decks=1)
_TWO = Makeup(decks=2)
_FILLED = Makeup(decks=1, fillers=8)
_MARKED = Makeup(decks=1, fillers=8, mark=True)
_CHECK = Makeup(decks=3, fillers=5, mark=True)
"""The others cannot contradict each other: four costs follow from four counts. This one can."""


def probes() -> tuple[Probe, ...]:
    """What calibrate() needs to know the tokens of; all of them are short."""
    first = DECKS[0]
    made = [
        Probe(makeup=each, text=_text([first] * each.decks, each)) for each in (_ONE, _TWO, _FILLED, _MARKED)
    ]
    made += [Probe(makeup=_CHECK, text=_text([first[::-1]] * _CHECK.decks, _CHECK))]
    every = Makeup(decks=len(DECKS))
    return (*made, Probe(makeup=every, text=_text(DECKS, every), varied=True))


def calibrate(counted: Sequence[tuple[Probe, int]]) -> Calibration:
    """From all probes and the prompt tokens that the server told of each.

    Raises UsageError when lengths do not follow from the parts: no prompt can then be made to measure.
    """
    told = {probe.makeup: tokens for probe, tokens in counted if not probe.varied}
    per_deck = told[_TWO] - told[_ONE]
    fixed = told[_ONE] - per_deck
    found = Calibration(
        fixed=fixed,
        per_deck=per_deck,
        per_filler=(told[_FILLED] - told[_ONE]) // _FILLED.fillers,
        per_mark=told[_MARKED] - told[_FILLED],
        varied=any(probe.varied and tokens - fixed == _words(probe) for probe, tokens in counted),
    )
    if min(found.per_deck, found.per_filler) < 1 or any(found.cost(made) != told[made] for made in told):
        raise UsageError(
            "prompts of exact lengths cannot be made for this model",
            cause=f"the probes' tokens, {', '.join(map(str, told.values()))}, do not follow from their words",
            next_step="measure with a client that has the tokenizer, such as sglang's own",
        )
    return found


def prompts(
    count: int, tokens: int, rng: Random, calibration: Calibration, *, warm: bool = False
) -> tuple[str, ...]:
    """`count` prompts of exactly `tokens` tokens; `warm`: the same one again and again, for a cache to serve.

    Raises UsageError for lengths and numbers that cannot be.
    """
    if count > MOST_PROMPTS:
        raise UsageError(f"{count:,} prompts cannot all begin differently", cause=f"{MOST_PROMPTS:,} at most")
    makeup = makeup_of(tokens, calibration)
    if warm:
        return (_drawn(makeup, rng, calibration),) * count
    made: dict[str, str] = {}
    while len(made) < count:
        prompt = _drawn(makeup, rng, calibration)
        made.setdefault(beginning(prompt), prompt)
    return tuple(made.values())


def makeup_of(tokens: int, calibration: Calibration) -> Makeup:
    """With as many decks as go in. Raises UsageError when nothing has that length."""
    most = (tokens - calibration.fixed) // calibration.per_deck
    for decks in range(most, 0, -1):
        for mark in (False, True):
            rest = tokens - calibration.cost(Makeup(decks=decks, mark=mark))
            if rest >= 0 and rest % calibration.per_filler == 0:
                return Makeup(decks=decks, fillers=rest // calibration.per_filler, mark=mark)
    least = calibration.cost(Makeup(decks=1))
    raise UsageError(
        f"a prompt of {tokens} tokens cannot be made for this model",
        cause=f"the shortest has {least}"
        if tokens < least
        else "its words and fillers do not add up to that",
        next_step=f"ask for {least} input tokens or more"
        if tokens < least
        else "ask for one token more or less",
    )


def beginning(prompt: str) -> str:
    """The words by which no two prompts are alike."""
    return prompt[: len(" word") * BEGINNING]


def _drawn(makeup: Makeup, rng: Random, calibration: Calibration) -> str:
    decks = DECKS if calibration.varied else DECKS[:1]
    return _text([_shuffled(rng.choice(decks), rng) for _ in range(makeup.decks)], makeup)


def _shuffled(deck: Sequence[str], rng: Random) -> Sequence[str]:
    return rng.sample(deck, len(deck))


def _text(decks: Iterable[Sequence[str]], makeup: Makeup) -> str:
    # With the space before it, the first word is the token that it is elsewhere.
    words = "".join(f" {word}" for deck in decks for word in deck)
    return words + FILLER * makeup.fillers + MARK * makeup.mark


def _words(probe: Probe) -> int:
    return probe.makeup.decks * len(DECKS[0])
