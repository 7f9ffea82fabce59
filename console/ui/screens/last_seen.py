"""The watched host as it was last seen: for screens that are open, and for those that are opened later."""

from __future__ import annotations

from textual.app import App

from console.domain.gpu import NO_GPUS, GpuReport, Sample
from console.domain.host_view import HostView
from console.domain.observation import Servers, Update
from console.ui.screens.host_screen import HostScreen


class LastSeen:
    """Remembers updates, and passes the host to the screens that show it."""

    def __init__(self, app: App[BaseException]) -> None:
        self.host = HostView(name="")
        self.report: GpuReport = NO_GPUS
        self.servers = Servers(looked=False)
        self._app = app

    def show(self, update: Update) -> None:
        """One update of the watched host."""
        match update:
            case HostView():
                self.host = update
                for screen in self._app.screen_stack:
                    if isinstance(screen, HostScreen):
                        screen.show_host(update)
            case Sample():
                self.report = update.gpu
            case Servers():
                self.servers = update
