"""A time in a log during which its lines have something to do with one before them."""

from __future__ import annotations

import math


class Window:
    """Open for some seconds of the log's own time; opened by an undated line, from the next dated one on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __bool__(self) -> bool:
        return self._until > 0.0

    def open(self, now: float | None) -> None:
        """Opens, or stays open for as long again."""
        self._until = math.inf if now is None else now + self._seconds

    def close(self) -> None:
        self._until = 0.0

    def pass_to(self, now: float) -> None:
        """Closes when its time is over."""
        if self._until == math.inf:
            self.open(now)
        elif now > self._until:
            self.close()
