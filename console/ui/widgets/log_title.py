"""The title of a log pane: whose log it is, how it is watched, what is hidden of it, and what was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from console.domain.server import Role

from .lines import Line, Span, joined, width_of
from .meter import Glyphs


class LogState(NamedTuple):
    """What there is to say about a pane."""

    label: str
    role: Role | None = None
    greyed: bool = False
    age_s: float | None = None
    paused: bool = False
    following: bool = True
    follow: bool = True
    below: int = 0
    """Rows between the last one in view and the end of the log."""
    errors: int = 0
    warnings: int = 0
    filter: str = ""
    hidden: int = 0
    """Rows that the filter hides."""
    search: str = ""
    matches: str = ""
    """How many, in words."""
    selected: int = 0
    """Rows of the block."""


def log_title(state: LogState, width: int, glyphs: Glyphs) -> Line:
    """The longest wording that fits; what was found outlives how it is watched."""
    gap = f" {glyphs.dot} "
    lines = [joined(wording, gap) for wording in _wordings(state, glyphs)]
    return next((line for line in lines if width_of(line) <= width), lines[-1])


def _wordings(state: LogState, glyphs: Glyphs) -> Iterator[tuple[Line, ...]]:
    """Ever shorter ones."""
    label = (Span(state.label, f"role-{state.role}" if state.role else "strong"),)
    connection, watching, block = _connection(state), _watching(state), _block(state)
    found, counts = _found(state), _counts(state)
    hidden, shorter = _hidden(state, glyphs), _hidden(state._replace(filter=""), glyphs)
    search, matches = _search(state, glyphs), _search(state._replace(search=""), glyphs)
    yield label, connection, watching, block, hidden, search, found
    yield label, connection, watching, block, hidden, search, counts
    yield label, connection, watching, block, hidden, matches, counts
    yield label, connection, watching, block, shorter, matches, counts
    yield label, connection, _watching(state, short=True), block, shorter, matches, counts
    yield label, connection, block, shorter, matches, counts
    yield label, connection, shorter, matches, counts
    yield label, shorter, matches, counts
    yield label, shorter, counts
    yield label, counts
    yield (label,)


def _connection(state: LogState) -> Line:
    if not state.greyed:
        return ()
    return (Span("stale" if state.age_s is None else f"stale {state.age_s:.0f} s", "notice"),)


def _watching(state: LogState, *, short: bool = False) -> Line:
    below = f"{state.below:,} below" if state.below else ""
    if short and below:
        return (Span(below, "notice"),)
    if state.paused:
        return (Span(f"paused, {below}" if below else "paused", "notice"),)
    if state.following:
        return (Span("following", "muted"),)
    if state.follow:
        return (Span(below or "scrolled back", "notice"),)
    return (Span(f"not following, {below}" if below else "not following", "notice"),)


def _block(state: LogState) -> Line:
    return (Span(f"{state.selected:,} selected", "selected"),) if state.selected else ()


def _hidden(state: LogState, glyphs: Glyphs) -> Line:
    if not (state.filter or state.hidden):
        return ()
    words = (Span(_short(state.filter, 40, glyphs), "notice"), Span(" "))
    return (*(words if state.filter else ()), Span(f"{state.hidden:,} hidden", "notice"))


def _search(state: LogState, glyphs: Glyphs) -> Line:
    if not state.matches:
        return ()
    words = (Span(f"/{_short(state.search, 24, glyphs)}", "strong"), Span(" "))
    return (*(words if state.search else ()), Span(state.matches, "strong"))


def _short(text: str, width: int, glyphs: Glyphs) -> str:
    said = glyphs.safe(text)
    return said if len(said) <= width else said[: width - 1] + glyphs.ellipsis


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
