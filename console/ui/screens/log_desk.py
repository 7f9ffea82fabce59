"""Answers what log panes ask for: older lines, a search of the whole file, one line uncut."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from textual.app import App

from console.domain.errors import ConsoleError
from console.domain.loghistory import HostSearch, LogSource
from console.domain.observation import ServerKey
from console.ui.widgets.meter import Glyphs

if TYPE_CHECKING:
    from console.ui.widgets.log_pane import LogPane


class LogDesk:
    """Asks the source, in workers of the app. Log panes are imported after the first paint, and so is what is
    needed for them."""

    def __init__(self, app: App[BaseException], source: LogSource, glyphs: Glyphs) -> None:
        self._app, self._source, self._glyphs = app, source, glyphs

    def show_older(self, pane: LogPane, server: ServerKey, number: int) -> None:
        """Put lines from before this one into the pane."""
        self._app.run_worker(self._show_older(pane, server, number), group="older")

    async def _show_older(self, pane: LogPane, server: ServerKey, number: int) -> None:
        try:
            pane.show_older(await self._source.older(server, number))
        except ConsoleError as error:
            pane.older_failed(str(error))

    def search(self, pane: LogPane, server: ServerKey, pattern: str) -> None:
        """Open a screen of what is found in the whole file."""
        from console.ui.screens.found import FoundScreen

        search = HostSearch(pattern=pattern)
        self._app.push_screen(FoundScreen(pane.label, search, self._source, server, self._glyphs))

    def save_line(self, pane: LogPane, server: ServerKey, number: int) -> None:
        """Save a line that is shown in part."""
        self._app.run_worker(self._save_line(pane, server, number), group="whole line")

    async def _save_line(self, pane: LogPane, server: ServerKey, number: int) -> None:
        from console.ui.widgets.log_export import save_pieces, short_path, suggested_path

        path = suggested_path(f"{pane.label} line {number}", datetime.now())
        try:
            size = await save_pieces(path, self._source.cut_line(server, number))
        except (ConsoleError, OSError) as error:
            self._app.notify(str(error), severity="warning", markup=False)
        else:
            self._app.notify(f"saved {size / 1e6:.1f} MB to {short_path(path)}", timeout=6, markup=False)
