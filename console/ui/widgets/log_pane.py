"""The pane of one server's log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual import on
from textual.message import Message

from console.domain.loghistory import OlderLines
from console.domain.logline import LogLine
from console.domain.observation import LogUpdate
from console.domain.server import Role

from .log_buffer import LogBuffer
from .log_finder import Histories
from .log_reader import LogReader
from .log_rows import ROW_LIMIT
from .log_view import LogView
from .meter import UNICODE, Glyphs
from .prompt_line import History, Question

OLDER_LIMIT = 2 * ROW_LIMIT
"""Rows of one log that may be read at once, fetched ones included."""


class LogPane(LogReader):
    """Takes the news of one log."""

    def __init__(
        self,
        label: str = "",
        *,
        role: Role | None = None,
        glyphs: Glyphs = UNICODE,
        limit: int = ROW_LIMIT,
        histories: Histories | None = None,
        id: str | None = None,
    ) -> None:
        self.log_rows = LogBuffer(limit)
        self._asking = False
        self._exhausted = False
        self._host_history = History()
        super().__init__(self.log_rows, label, role=role, glyphs=glyphs, histories=histories, id=id)

    class OlderWanted(Message):
        """Lines from before line `number` are wanted."""

        def __init__(self, pane: LogPane, number: int) -> None:
            super().__init__()
            self.pane = pane
            self.number = number

    class HostSearchWanted(Message):
        """The whole file on the host is to be searched."""

        def __init__(self, pane: LogPane, pattern: str) -> None:
            super().__init__()
            self.pane = pane
            self.pattern = pattern

    class WholeLineWanted(Message):
        """A line that is shown in part is to be saved whole."""

        def __init__(self, pane: LogPane, number: int) -> None:
            super().__init__()
            self.pane = pane
            self.number = number

    def action_save_whole(self) -> None:
        """Save the marked line, else the one at the top, as it stands in the file."""
        rows = self.view.shown.buffer
        if len(rows):
            position = self.view.marked if self.view.marked is not None else self.view.first_shown
            row = rows.row(min(rows.index(position), len(rows) - 1))
            if isinstance(row, LogLine):
                self.post_message(self.WholeLineWanted(self, row.number))

    @on(LogView.WantsOlder)
    def _ask_for_older(self) -> None:
        """Paused, because lines that come would push out those that are fetched."""
        if self._asking or self._exhausted or not len(self.log_rows):
            return
        self.view.paused = True
        shown = self._shown_rows()
        if len(shown) >= OLDER_LIMIT:
            self.notify(f"{len(shown):,} lines are here; `*` searches the whole file", markup=False)
            return
        self._asking = True
        self.post_message(self.OlderWanted(self, shown.first_number))

    def show_older(self, older: OlderLines) -> None:
        """Put lines before the oldest one in view, and say so when there are no more."""
        self._asking = False
        if not self.view.paused:
            return
        self._exhausted = older.exhausted
        note = (older.note or "the log begins here") if older.exhausted else None
        self._shown_rows().prepend(older.lines, note)
        self.view.rows_came_before()

    def older_failed(self, why: str) -> None:
        """No older lines could be had now."""
        self._asking = False
        self.notify(why, severity="warning", markup=False)

    def action_host_search(self) -> None:
        """Ask for a pattern to search the whole file with."""

        def answered(typed: str) -> str:
            try:
                re.compile(typed)
            except re.error as error:
                return f"no regular expression: {error.msg}"
            if not typed:
                return "a pattern, please"
            self.post_message(self.HostSearchWanted(self, typed))
            return ""

        self.prompt.ask(Question("search the whole file on the host: ", answered, history=self._host_history))

    def _shown_rows(self) -> LogBuffer:
        rows = self.view.shown.buffer
        assert isinstance(rows, LogBuffer)
        if rows is self.log_rows:
            self._exhausted = False
        return rows

    def take(self, update: LogUpdate) -> None:
        """Shows the news of this log."""
        self.extend(update.lines)
        self.log_rows.colour(update.colours)
        for note in update.notes:
            self.add_note(note)
        self.view.revised(self.log_rows.revise(update.revised))
        self.view.set_live(update.live)

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Adds complete lines; where a reader would lose those in view, the view is paused first."""
        if self.view.would_lose(self.log_rows.excess(lines)):
            self.view.paused = True
        self.log_rows.extend(lines)
        self.view.changed()

    def add_note(self, text: str) -> None:
        """Adds a remark of the console's own, such as `log truncated`."""
        self.log_rows.note(text)
        self.view.changed()
