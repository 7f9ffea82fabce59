"""What is asked of a server's log beyond what is followed: older lines, searches, whole lines."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from console.domain.errors import ConnectionLost, UsageError
from console.domain.loghistory import HostMatches, HostSearch, OlderLines
from console.domain.observation import ServerKey
from console.remote.agent_link import AgentLink
from console.services.history import LogHistory
from console.services.runs import Runs
from console.services.standing import Standing


class LogQuestions:
    """Asks the host about the logs of its runs, while there is a connection."""

    def __init__(self, runs: Runs, standing: Standing) -> None:
        self._runs = runs
        self._standing = standing

    async def older(self, server: ServerKey, before: int) -> OlderLines:
        """Lines of a server's log directly before line number `before`. Raises ConnectionLost."""
        link, history = self._asked(server)
        return await history.older(link, before)

    def search(self, server: ServerKey, search: HostSearch) -> AsyncGenerator[HostMatches, None]:
        """Search the file that a server logs to: what was found so far, the last one `done`.

        Closing the generator ends the search. Raises UsageError when the pattern is no regular expression,
        ConnectionLost.
        """
        link, history = self._asked(server)
        return history.search(link, search)

    def whole_line(
        self, server: ServerKey, offset: int, size: int, number: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a line of a server's log, in pieces; `number` tells in which file it stands.

        Raises ConsoleError when the file is not what it was, ConnectionLost.
        """
        link, history = self._asked(server)
        return history.whole_line(link, offset, size, number)

    def cut_line(self, server: ServerKey, number: int) -> AsyncGenerator[bytes, None]:
        """The whole of a line that is shown in part, in pieces.

        Raises UsageError when it is not cut, ConsoleError when the file is not what it was, ConnectionLost.
        """
        run = next((run for run in self._runs if run.process.key == server), None)
        cut = None if run is None else run.log.cuts.get(number)
        if cut is None:
            raise UsageError("this line is shown whole", next_step="save it as it is shown")
        return self.whole_line(server, cut.offset, cut.length, number)

    def _asked(self, server: ServerKey) -> tuple[AgentLink, LogHistory]:
        """Whom to ask about a server's log. Raises ConnectionLost."""
        run = next((run for run in self._runs if run.process.key == server), None)
        if self._standing.link is None or run is None:
            raise ConnectionLost("the log cannot be asked for", cause="the host is not connected")
        return self._standing.link, run.log.history
