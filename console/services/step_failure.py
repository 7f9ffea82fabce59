"""Why a step of a plan did not come to its end."""

from __future__ import annotations


class StepFailed(Exception):
    """What must be true at the step's end is not, and will not be."""

    def __init__(self, sentence: str, next_step: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.next_step = next_step


class Aborted(Exception):
    """The operator asked to stop here."""
