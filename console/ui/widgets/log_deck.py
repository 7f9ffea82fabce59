"""The log panes of all servers, stacked where there is room for each, else one at a time; and all as one."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from datetime import datetime

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widget import Widget

from console.domain.observation import LogUpdate, ServerKey
from console.domain.server_view import ServerView

from .line_view import LineView
from .lines import Line, Span, fit_line, joined
from .log_finder import Histories
from .log_pane import LogPane
from .log_reader import LogReader
from .log_rows import Source
from .merged_log import Tributary
from .merged_pane import MergedPane
from .meter import Glyphs
from .prompt_line import History

ROWS_EACH = 7
"""Fewest rows, borders included, that make a pane worth having beside others."""


class LogStrip(LineView, can_focus=False):
    """The names of the panes, the shown one first in weight."""

    DEFAULT_CSS = """
    LogStrip { height: 1; overflow: hidden hidden; }
    """

    _names: tuple[tuple[str, bool], ...] = ()

    def update_names(self, names: tuple[tuple[str, bool], ...]) -> None:
        """Show the names; True marks the pane that is shown."""
        self._names = names
        self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        mark = ">" if self.glyphs.ascii_only else "▸"
        parts: list[Line] = [
            (Span(f"{mark if shown else ' '}{name}", "" if shown else "muted"),)
            for name, shown in self._names
        ]
        return [fit_line(joined(parts), width, self.glyphs)]


class LogDeck(Vertical):
    """One pane for each server ever shown, and a last one for all of them by time.

    A server that is replaced leaves with its pane; its lines stay in the last one.
    """

    greyed: reactive[bool] = reactive(False)
    age_s: reactive[float | None] = reactive(None)
    """Seconds since the logs were last known to be complete."""
    utc_offset_s: reactive[float] = reactive(0.0)
    """Of the host's wall clock; routers write UTC."""

    def __init__(self, glyphs: Glyphs, *, first_number: int, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._first_number = first_number
        self._histories = Histories(History(), History())
        self._panes: dict[ServerKey, LogPane] = {}
        self._views: dict[ServerKey, ServerView] = {}
        self._waiting: dict[ServerKey, list[LogUpdate]] = {}
        self._active: LogReader | None = None
        self._merged = MergedPane(glyphs=glyphs, histories=self._histories)

    def compose(self) -> ComposeResult:
        yield LogStrip(glyphs=self._glyphs, id="log-strip")
        yield self._merged

    @property
    def panes(self) -> list[LogReader]:
        """The panes in the order of their numbers; that of all logs only where there are several."""
        panes: list[LogReader] = list(self._panes.values())
        return [*panes, self._merged] if len(panes) > 1 else panes

    async def show_servers(self, views: Sequence[ServerView]) -> None:
        """Have one pane for each of these servers, in their order."""
        wanted = {view.process.key: view for view in views}
        self._views = wanted
        for key in [key for key in self._panes if key not in wanted]:
            await self._panes.pop(key).remove()
        for key in [key for key in wanted if key not in self._panes]:
            await self._add(key)
        self._panes = {key: self._panes[key] for key in wanted}
        self._order_panes()
        self._name_panes()
        self._arrange()

    def show_log(self, update: LogUpdate) -> None:
        """Give news to the pane of its server; news that comes before its pane waits for it."""
        pane = self._panes.get(update.server)
        if pane is None:
            self._waiting.setdefault(update.server, []).append(update)
            return
        pane.take(update)
        self._merged.take(update)

    def add_mark(self, text: str, at: datetime | None = None, servers: Collection[ServerKey] = ()) -> None:
        """Mark in these logs, or in all, that something was done; `at` is the wall clock of the host."""
        for key, pane in self._panes.items():
            if not servers or key in servers:
                pane.add_mark(text, at)
        self._merged.add_mark(text, at)

    def server_of(self, pane: LogPane) -> ServerKey | None:
        """Whose log the pane shows."""
        return next((key for key, each in self._panes.items() if each is pane), None)

    def activate(self, pane: Widget) -> None:
        """Bring a pane to the front."""
        if isinstance(pane, LogReader) and pane in self.panes and pane is not self._active:
            self._active = pane
            self._arrange()

    @property
    def front(self) -> LogReader | None:
        """The pane that has the focus, else the one brought to the front, or there to begin with."""
        focused = self.screen.focused
        return focused if isinstance(focused, LogReader) else self._active

    def focus_front(self) -> None:
        """Focus the pane to begin with."""
        if self._active is not None:
            self._active.focus()

    def watch_greyed(self) -> None:
        for pane in self.panes:
            pane.greyed = self.greyed

    def watch_age_s(self) -> None:
        for pane in self.panes:
            pane.age_s = self.age_s

    def watch_utc_offset_s(self) -> None:
        self._merged.merged.utc_offset_s = self.utc_offset_s

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    async def _add(self, key: ServerKey) -> None:
        pane = self._panes[key] = LogPane(glyphs=self._glyphs, histories=self._histories)
        pane.greyed = self.greyed
        await self.mount(pane, before=self._merged)
        for update in self._waiting.pop(key, ()):
            pane.take(update)

    def _order_panes(self) -> None:
        panes = list(self._panes.values())
        for before, after in itertools.pairwise(panes):
            if self.children.index(after) < self.children.index(before):
                self.move_child(after, after=before)

    def _name_panes(self) -> None:
        for number, (key, pane) in enumerate(self._panes.items(), self._first_number):
            view = self._views[key]
            port = "" if view.process.port is None else f" :{view.process.port}"
            pane.label = f"{number} {view.process.role}{port}"
            pane.role = view.process.role
            pane.place_note = view.log_note
        self._merged.label = f"{self._first_number + len(self._panes)} all by time"
        self._merged.join(
            {key: Tributary(pane.log_rows, self._source(key)) for key, pane in self._panes.items()}
        )

    def _source(self, key: ServerKey) -> Source:
        """The word for a server: its role, and its port where others have the same."""
        process = self._views[key].process
        alone = sum(view.process.role == process.role for view in self._views.values()) == 1
        return Source(process.role if alone else f"{process.role}:{process.port}", process.role)

    def _arrange(self) -> None:
        """Decide which panes are seen: all servers', or the active one alone."""
        panes = self.panes
        if self._active not in panes:
            self._active = self._loudest()
        servers = self._panes.values()
        stacked = self._active is not self._merged and self.size.height >= ROWS_EACH * len(servers)
        for pane in servers:
            pane.display = stacked or pane is self._active
        self._merged.display = self._active is self._merged
        for pane in servers:
            pane.border_subtitle = None
        if stacked and len(panes) > 1:
            # Where every server's pane is seen, that of all logs is still to be found.
            panes[-2].border_subtitle = Text(self._merged.label)
        strip = self.query_one(LogStrip)
        strip.display = not stacked and len(panes) > 1
        strip.update_names(tuple((pane.label, pane is self._active) for pane in panes))

    def _loudest(self) -> LogPane | None:
        """The pane to begin with: the one whose server makes the tokens."""
        for role in ("single", "decode", "prefill", "router"):
            for key, view in self._views.items():
                # A resize may come while panes are still being mounted.
                if view.process.role == role and key in self._panes:
                    return self._panes[key]
        return None
