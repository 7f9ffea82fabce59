"""Looking through a log for what passes a filter and what is searched, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable

from textual.widget import Widget

from .log_pattern import TooSlow
from .log_shown import SLICE_S, Hit, ShownLog

BREATH_S = 0.001
"""Between two slices, for the keys that were pressed meanwhile."""


class LogLooking:
    """Catches up with filter and search of a log, and knows which match is sought."""

    def __init__(
        self,
        view: Widget,
        shown: ShownLog,
        *,
        looked: Callable[[bool], None],
        gave_up: Callable[[], None],
    ) -> None:
        """`looked` is told after each slice of `go_on` whether it was the last; `gave_up`, that a pattern
        took too long and is no longer looked for."""
        self._view, self._shown = view, shown
        self._looked, self._gave_up = looked, gave_up
        self._sought: tuple[int, bool] | None = None
        self._due = False

    def look(self, slice_s: float = SLICE_S) -> bool:
        """Look for so long; returns whether filter and search know of every row."""
        try:
            return self._shown.look(slice_s)
        except TooSlow:
            self._sought = None
            self._gave_up()
            return self._shown.done

    def go_on(self) -> None:
        """Look on a slice at a time until it is done, or nobody sees it."""
        if not self._due:
            self._due = True
            self._view.set_timer(BREATH_S, self._next_slice)

    def _next_slice(self) -> None:
        self._due = False
        if not self._view.is_on_screen:
            return
        done = self.look()
        if not done:
            self.go_on()
        self._looked(done)

    def seek(self, position: int | None, *, forward: bool = True) -> None:
        """The match nearest to a position is wanted; None: none is."""
        self._sought = None if position is None else (position, forward)

    def found(self) -> Hit | None:
        """The match that is wanted, told once, as soon as it is known."""
        if self._sought is None:
            return None
        position, forward = self._sought
        hit = self._shown.hit(position, forward=forward)
        if hit is not None or self._shown.done:
            self._sought = None
        return hit
