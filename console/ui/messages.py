"""News for the screen."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from console.domain.observation import Update


@dataclass
class Updated(Message):
    """One update of the watched host."""

    update: Update
