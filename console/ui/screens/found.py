"""What a search of a whole file on the host found, newest first, while it goes on and after."""

from __future__ import annotations

from contextlib import aclosing
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Footer, Static

from console.domain.errors import ConsoleError
from console.domain.loghistory import HostMatches, HostSearch, LogSource, ServerKey
from console.domain.logline import LogLine
from console.ui.widgets.log_pane import LogPane
from console.ui.widgets.meter import Glyphs


class FoundScreen(Screen[None]):
    """Closes with `q` or escape, which ends the search on the host."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "app.pop_screen", "back")]

    def __init__(
        self, label: str, search: HostSearch, source: LogSource, server: ServerKey, glyphs: Glyphs
    ) -> None:
        super().__init__()
        self._search, self._source, self._server = search, source, server
        self._label = label.lstrip("0123456789 ")
        self._glyphs = glyphs
        self._shown = 0

    def compose(self) -> ComposeResult:
        yield Static("searching", id="found", markup=False)
        yield LogPane(self._label, glyphs=self._glyphs)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        pane = self.query_one(LogPane)
        pane.view.follow = False
        pane.focus()
        self.run_worker(self._find(), group="host search", exclusive=True)

    async def _find(self) -> None:
        try:
            async with aclosing(self._source.search(self._server, self._search)) as found:
                async for matches in found:
                    self._show(matches)
        except ConsoleError as error:
            self.query_one("#found", Static).update(self._glyphs.safe(str(error)))

    def _show(self, found: HostMatches) -> None:
        new = found.matches[self._shown :]
        self._shown = len(found.matches)
        first = self._shown - len(new) + 1
        lines = [LogLine(number, match.text, match.line_class) for number, match in enumerate(new, first)]
        self.query_one(LogPane).extend(lines)
        said = f"{self._label}: /{self._search.pattern}/ {in_words(found)}"
        self.query_one("#found", Static).update(self._glyphs.safe(said))


def in_words(found: HostMatches) -> str:
    """`37 matches, newest first, in 1,024 MB`, or how far the search has come."""
    count = len(found.matches)
    matches = f"{count:,} match{'es' if count != 1 else ''}, newest first"
    if found.complete:
        return f"{matches}, in {found.size / 1e6:,.1f} MB" + (f"; {found.note}" if found.note else "")
    far = f"{matches}, {found.searched / 1e6:,.1f} of {found.size / 1e6:,.1f} MB"
    return f"{far}; {found.note or 'there may be more'}" if found.done else f"{far} searched"
