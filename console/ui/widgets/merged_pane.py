"""The pane of all logs by time."""

from __future__ import annotations

from collections.abc import Mapping

from console.domain.observation import LogUpdate, ServerKey

from .log_finder import Histories
from .log_reader import LogReader
from .merged_log import MergedLog, Tributary
from .meter import UNICODE, Glyphs

OF_ONE_LOG = ("host_search", "save_whole")


class MergedPane(LogReader):
    """Takes the lines of all logs from their buffers while it is seen, each with a word for its server."""

    def __init__(
        self, label: str = "", *, glyphs: Glyphs = UNICODE, histories: Histories | None = None
    ) -> None:
        self.merged = MergedLog()
        super().__init__(self.merged, label, glyphs=glyphs, histories=histories)

    def join(self, tributaries: Mapping[ServerKey, Tributary]) -> None:
        """Show these logs from now on."""
        self.merged.join(tributaries)
        self.view.word_width = 1 + max((len(each.source.word) for each in tributaries.values()), default=0)
        self.view.changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A file on the host can be asked for only where one log is shown."""
        return action not in OF_ONE_LOG and super().check_action(action, parameters)

    def take(self, update: LogUpdate) -> None:
        """There is news of one of the logs."""
        self.view.revised(self.merged.revise(update.server, update.revised) if update.revised else None)
        self.view.changed()
