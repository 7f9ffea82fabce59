"""A screen above the dashboard with the host's status bar at its top, laid out by the room that there is."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.screen import Screen

from console.domain.host_view import HostView
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.status_bar import StatusBar


class HostScreen(Screen[None]):
    """Has the class `-beside` where two parts fit beside each other, `-tall` where they have borders."""

    BESIDE: ClassVar[int] = 110
    """Columns from which there are two parts beside each other."""
    TALL: ClassVar[int] = 32
    """Rows below which the parts have a line above them and no border."""

    def __init__(self, host: HostView, glyphs: Glyphs) -> None:
        super().__init__()
        self._host, self._glyphs = host, glyphs

    def on_mount(self) -> None:
        self.query_one(StatusBar).update_host(self._host)

    def show_host(self, view: HostView) -> None:
        """The host as it is now."""
        self._host = view
        if self.is_mounted:
            self.query_one(StatusBar).update_host(view)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= self.BESIDE, "-beside")
        self.set_class(event.size.height >= self.TALL, "-tall")

    def tell(self, said: str) -> None:
        """A sentence about what was refused or has failed."""
        self.notify(said, severity="warning", markup=False)
