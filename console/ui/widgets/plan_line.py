"""One line on the dashboard about a plan that goes on while its own screen is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .line_view import LineView
from .lines import Line, Span, spread
from .meter import Glyphs
from .paragraphs import clean
from .plan_steps import state_words
from .progress import Progress


class PlanLine(LineView, can_focus=False):
    """Shows where the plan stands."""

    DEFAULT_CSS = """
    PlanLine { height: 1; overflow: hidden hidden; background: $panel; }
    """

    def __init__(self, look: Callable[[], tuple[str, Progress, float]], back: str, *, glyphs: Glyphs) -> None:
        """`look` gives the plan's title, how far it is, and the time of the clock that measured it; `back`
        is how to come back to it."""
        super().__init__(glyphs=glyphs)
        self._look, self._back = look, back

    def on_mount(self) -> None:
        self.set_interval(1.0, self.redraw)

    def lines(self, width: int, height: int) -> Sequence[Line]:
        hint = (Span(f"  {self._back} ", "muted"),)
        return [spread(plan_line(*self._look(), self.glyphs), hint, width, self.glyphs)]


def plan_line(title: str, progress: Progress, now: float, glyphs: Glyphs) -> Line:
    """` ◐ switch to pd-ll: step 6 of 11, wait until … are ready, running 38 s of 30m`."""
    index = progress.current
    where = "begins"
    if index is not None:
        step = progress.steps[index]
        where = f"step {index + 1} of {len(progress.steps)}, {step.title}, {state_words(step, now)}"
    return (
        Span(f" {glyphs.starting} ", "state-starting"),
        Span(clean(title, glyphs), "strong"),
        Span(clean(f": {where}", glyphs)),
    )
