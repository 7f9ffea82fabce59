"""The log panes of all servers: stacked where there is room for each, else one at a time under a strip of
names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widget import Widget

from console.domain.observation import LogUpdate, ServerKey
from console.domain.server_view import ServerView

from .line_view import LineView
from .lines import Line, Span, fit_line, joined
from .log_pane import LogPane
from .meter import Glyphs

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
    """One pane for each server ever shown; a server that is replaced leaves with its pane."""

    greyed: reactive[bool] = reactive(False)
    age_s: reactive[float | None] = reactive(None)
    """Seconds since the logs were last known to be complete."""

    def __init__(self, glyphs: Glyphs, *, first_number: int, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._first_number = first_number
        self._panes: dict[ServerKey, LogPane] = {}
        self._views: dict[ServerKey, ServerView] = {}
        self._waiting: dict[ServerKey, list[LogUpdate]] = {}
        self._active: ServerKey | None = None

    def compose(self) -> ComposeResult:
        yield LogStrip(glyphs=self._glyphs, id="log-strip")

    @property
    def panes(self) -> list[LogPane]:
        """The panes in the order of the servers."""
        return list(self._panes.values())

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

    def activate(self, pane: Widget) -> None:
        """Bring a pane to the front."""
        for key, each in self._panes.items():
            if each is pane and key != self._active:
                self._active = key
                self._arrange()

    def focus_front(self) -> None:
        """Focus the pane to begin with."""
        if self._active in self._panes:
            self._panes[self._active].focus()

    def watch_greyed(self) -> None:
        for pane in self._panes.values():
            pane.greyed = self.greyed

    def watch_age_s(self) -> None:
        for pane in self._panes.values():
            pane.age_s = self.age_s

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    async def _add(self, key: ServerKey) -> None:
        pane = self._panes[key] = LogPane(glyphs=self._glyphs)
        pane.greyed = self.greyed
        await self.mount(pane)
        for update in self._waiting.pop(key, ()):
            pane.take(update)

    def _order_panes(self) -> None:
        panes = self.panes
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

    def _arrange(self) -> None:
        """Decide which panes are seen: all of them, or the active one."""
        panes = self._panes
        if self._active not in panes:
            self._active = self._loudest()
        all_fit = self.size.height >= ROWS_EACH * len(panes)
        for key, pane in panes.items():
            pane.display = all_fit or key == self._active
        strip = self.query_one(LogStrip)
        strip.display = not all_fit and len(panes) > 1
        strip.update_names(tuple((pane.label, key == self._active) for key, pane in panes.items()))

    def _loudest(self) -> ServerKey | None:
        """The pane to begin with: the one whose server makes the tokens."""
        for role in ("single", "decode", "prefill", "router"):
            for key, view in self._views.items():
                if view.process.role == role:
                    return key
        return None
