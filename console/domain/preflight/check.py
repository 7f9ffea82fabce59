"""One thing that was looked at before a plan, and what was found."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["ok", "warning", "refused"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at."""

    subject: str
    """As `model`, `python`, `flags of decode`, `GPU 4`, `port 30000`, `memory`."""
    outcome: Outcome
    sentence: str
    """What was found; for `refused` also why it must not be."""
    next: str | None = None
    """What to do about it."""

    @property
    def told(self) -> str:
        """Subject and sentence in one, for who sees no column of subjects."""
        whole = self.sentence.startswith(self.subject)
        return self.sentence if whole else f"{self.subject}: {self.sentence}"


def ok(subject: str, sentence: str) -> Check:
    """It is as it must be."""
    return Check(subject=subject, outcome="ok", sentence=sentence)


def warning(subject: str, sentence: str, next_step: str | None = None) -> Check:
    """It should be known, and does not stand in the way."""
    return Check(subject=subject, outcome="warning", sentence=sentence, next=next_step)


def refusal(subject: str, sentence: str, next_step: str) -> Check:
    """The plan must not begin."""
    return Check(subject=subject, outcome="refused", sentence=sentence, next=next_step)
