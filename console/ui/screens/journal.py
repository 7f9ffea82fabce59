"""What was done to the host from this machine: actions, their steps, and what came of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Footer

from console.domain.errors import ConsoleError
from console.domain.host_view import HostView
from console.domain.journal_entry import JournalEntry
from console.ui.screens.host_screen import HostScreen
from console.ui.widgets.journal_list import JournalList, entry_paragraphs
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import ParagraphView
from console.ui.widgets.status_bar import StatusBar

ReadJournal = Callable[[], Awaitable[Sequence[JournalEntry]]]
"""The newest actions on the host, the newest first. Raises ConsoleError."""

READING = "The journal is being read."
NOTHING_YET = "Nothing was done to this host yet."


class JournalScreen(HostScreen):
    """Shows what the journal has when it is opened."""

    BESIDE = 150

    AUTO_FOCUS = "JournalList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "app.pop_screen", "back", key_display="q"),
        # Else it would open a second time.
        Binding("J", "app.pop_screen", show=False),
    ]

    def __init__(self, read: ReadJournal, host: HostView, glyphs: Glyphs) -> None:
        super().__init__(host, glyphs)
        self._read = read

    def compose(self) -> ComposeResult:
        yield StatusBar(glyphs=self._glyphs)
        with Container(id="history"):
            with Vertical(id="history-left"):
                yield JournalList(glyphs=self._glyphs, id="history-list")
            yield ParagraphView(glyphs=self._glyphs, id="history-details")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#history-list").border_title = "Journal, the newest first"
        self.query_one("#history-details").border_title = "Action"
        self._show((), READING)
        self.run_worker(self._read_entries(), group="journal", exclusive=True)

    async def _read_entries(self) -> None:
        try:
            self._show(await self._read(), NOTHING_YET)
        except ConsoleError as error:
            self._show((), error.sentence)
            self.tell(str(error))

    def _show(self, entries: Sequence[JournalEntry], nothing: str) -> None:
        self.query_one(JournalList).show(entries, self._host.utc_offset_s, nothing)

    @on(JournalList.Moved)
    def _show_details(self) -> None:
        details = self.query_one("#history-details", ParagraphView)
        entry = self.query_one(JournalList).marked
        details.show([] if entry is None else entry_paragraphs(entry))
        details.scroll_home(animate=False)
