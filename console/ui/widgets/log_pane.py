"""The pane of one server's log."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.logline import LogLine
from console.domain.observation import LogUpdate
from console.domain.server import Role

from .log_buffer import LogBuffer
from .log_finder import Histories
from .log_reader import LogReader
from .log_rows import ROW_LIMIT
from .meter import UNICODE, Glyphs


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
        super().__init__(self.log_rows, label, role=role, glyphs=glyphs, histories=histories, id=id)

    def take(self, update: LogUpdate) -> None:
        """Shows the news of this log."""
        self.extend(update.lines)
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
