"""The title of a log pane: whose log it is, how it is watched, and what was found in it."""

from __future__ import annotations

from typing import NamedTuple

from console.domain.server import Role

from .lines import Line, Span, joined, width_of
from .meter import Glyphs


class LogState(NamedTuple):
    """What there is to say about a pane."""

    label: str
    role: Role | None
    greyed: bool
    age_s: float | None
    paused: bool
    following: bool
    below: int
    """Rows between the last one in view and the end of the log."""
    errors: int
    warnings: int


def log_title(state: LogState, width: int, glyphs: Glyphs) -> Line:
    """The longest wording that fits; what was found outlives how it is watched."""
    label = (Span(state.label, f"role-{state.role}" if state.role else "strong"),)
    connection, watching = _connection(state), _watching(state)
    found, counts = _found(state), _counts(state)
    wordings = (
        (label, connection, watching, found),
        (label, connection, watching, counts),
        (label, connection, counts),
        (label, counts),
    )
    gap = f" {glyphs.dot} "
    lines = [joined(wording, gap) for wording in wordings]
    return next((line for line in lines if width_of(line) <= width), lines[-1])


def _connection(state: LogState) -> Line:
    if not state.greyed:
        return ()
    return (Span("stale" if state.age_s is None else f"stale {state.age_s:.0f} s", "notice"),)


def _watching(state: LogState) -> Line:
    if state.paused:
        return (Span(f"paused, {state.below:,} below" if state.below else "paused", "notice"),)
    if state.following:
        return (Span("following", "muted"),)
    return (Span(f"{state.below:,} below" if state.below else "not following", "notice"),)


def _found(state: LogState) -> Line:
    found = [
        (Span(f"{count:,} {word}{'s' if count > 1 else ''}", tone),)
        for count, word, tone in _alarms(state)
        if count
    ]
    return joined(found, " ")


def _counts(state: LogState) -> Line:
    return joined(
        [(Span(f"{count:,}{word[0].upper()}", tone),) for count, word, tone in _alarms(state) if count], " "
    )


def _alarms(state: LogState) -> tuple[tuple[int, str, str], ...]:
    return (state.errors, "error", "log-error"), (state.warnings, "warning", "log-warning")
