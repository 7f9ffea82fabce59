"""Looking for something in a log: the search, the filters, the errors."""

from __future__ import annotations

import sys
from typing import NamedTuple

from .log_pattern import BadPattern, Pattern
from .log_rows import Alarm
from .log_view import LogView
from .prompt_line import History, PromptLine, Question


class Histories(NamedTuple):
    """What was looked for before, in whichever log."""

    searches: History
    filters: History


class LogFinder:
    """Finds in one view what a person asks for. Its methods return what to tell that person, or nothing."""

    def __init__(self, view: LogView, prompt: PromptLine, histories: Histories) -> None:
        self._view = view
        self._prompt = prompt
        self._histories = histories
        self._searching = False

    def ask_search(self) -> None:
        """Ask for a pattern, and show the match nearest to the view while it is typed.

        That is the newest one in a log that is followed, else the first from the top of the view on.
        """
        search = _TypedSearch(self._view)

        def answered(typed: str) -> str:
            bad = search.answered(typed)
            if not bad:
                self._searching = False
            return bad

        def cancelled() -> None:
            self._searching = False
            search.cancelled()

        self._searching = True
        history = self._histories.searches
        self._prompt.ask(Question("/", answered, search.changed, cancelled, history=history))

    def ask_filter(self) -> None:
        """Ask for a pattern to show only the lines in which it matches, or with `!` only the others."""

        def answered(typed: str) -> str:
            try:
                self._view.set_filter(self._view.shown.filter.with_typed(typed))
            except BadPattern as error:
                return str(error)
            return ""

        def changed(typed: str) -> str:
            try:
                Pattern.of(typed.removeprefix("!"))
            except BadPattern as error:
                return str(error)
            return ""

        self._prompt.ask(Question("&", answered, changed, history=self._histories.filters))

    def next_level(self) -> None:
        """All lines, then warnings and errors, then errors."""
        self._view.set_filter(self._view.shown.filter.next_level())

    def next_match(self, *, forward: bool) -> str:
        """Go to the next match, and after the last to the first."""
        search = self._view.shown.search
        if search is None:
            return "nothing was searched for; / begins a search"
        if self._view.shown.done and not search.positions:
            return f"no match for {search.pattern.typed}"
        self._view.seek(self._start(forward=forward), forward=forward)
        return ""

    def next_alarm(self, alarm: Alarm, *, forward: bool) -> str:
        """Go to the next error or warning, and after the last to the first."""
        shown = self._view.shown
        hit = shown.alarm(alarm, self._start(forward=forward), forward=forward)
        if hit is not None:
            self._view.show(hit.position)
            return ""
        if shown.buffer.alarms[alarm]:
            return f"{len(shown.buffer.alarms[alarm]):,} {alarm}s are hidden by {shown.filter.words}"
        return f"the {alarm}s are no longer in memory" if shown.buffer.counts[alarm] else f"no {alarm}s"

    @property
    def can_clear(self) -> bool:
        """Whether matches are shown."""
        return self._view.shown.search is not None

    def clear(self) -> None:
        """Show no matches."""
        self._view.set_search(None)

    def told(self) -> None:
        """Say in the prompt how many matches there are, while it is open."""
        if self._searching and self._view.shown.search is not None:
            self._prompt.remark(match_words(self._view))

    def gave_up(self) -> str:
        """A pattern took too long."""
        if self._searching:
            self._prompt.remark(TOO_SLOW)
        return TOO_SLOW

    def _start(self, *, forward: bool) -> int:
        """From the last jump when it is in view, else from the view."""
        view = self._view
        if view.sees(view.marked):
            return view.marked
        if view.following:
            return sys.maxsize
        return view.first_shown - 1 if forward else view.first_shown


class _TypedSearch:
    """A search while its pattern is typed: each key shows the nearest match, as seen from where it began."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._begun = view.bookmark
        self._old = view.shown.search.pattern if view.shown.search else None
        self._forward = not view.following
        self._start = view.first_shown - 1 if self._forward else sys.maxsize

    def changed(self, typed: str) -> str:
        """Show the match for what is typed so far, and say how many there are."""
        try:
            self._look_for(typed)
        except BadPattern as error:
            self._view.set_search(None)
            return str(error)
        return match_words(self._view)

    def answered(self, typed: str) -> str:
        """Keep the search, or without a pattern repeat the last one; says what is wrong with it."""
        search = self._view.shown.search
        try:
            if not typed:
                self._view.set_search(self._old)
                self._view.seek(self._start, forward=self._forward)
            elif search is None or search.pattern.typed != typed:
                self._look_for(typed)
        except BadPattern as error:
            return str(error)
        return ""

    def cancelled(self) -> None:
        """Show what was shown before."""
        self._view.set_search(self._old)
        self._view.go_back(self._begun)

    def _look_for(self, typed: str) -> None:
        pattern = Pattern.of(typed) if typed else None
        self._view.go_back(self._begun)
        self._view.set_search(pattern)
        if pattern is not None:
            self._view.seek(self._start, forward=self._forward)


TOO_SLOW = "the pattern takes too long: it repeats a repeat, such as (a+)+"


def match_words(view: LogView) -> str:
    """`3 of 41`, `41 matches`, `no match`; a `…` while the search goes on."""
    search = view.shown.search
    if search is None:
        return ""
    more = "" if view.shown.done else view.glyphs.ellipsis
    count, ordinal = len(search.positions), search.ordinal(view.marked)
    if ordinal is not None:
        return f"{ordinal:,} of {count:,}{more}{' (around)' if view.wrapped else ''}"
    if not count:
        return more or "no match"
    return f"{count:,}{more} match{'es' if count > 1 else ''}"
