"""Where things are proposed, begun and followed. What is under way belongs to the console, to no screen."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from textual.app import App
from textual.widget import Widget

from console.domain.errors import ConsoleError
from console.ui.screens.confirm import ConfirmScreen
from console.ui.screens.host_screen import HostScreen
from console.ui.screens.last_seen import LastSeen
from console.ui.screens.proposal import Goes, ProposalScreen
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph


class Ends(Goes, Protocol):
    """How far something has come, as a named tuple: it can be told of an abort and of its end."""

    def _replace(
        self, *, aborting: str | None = ..., error: str | None = ..., ended: float | None = ...
    ) -> Self: ...


Event = TypeVar("Event")
Progressed = TypeVar("Progressed", bound=Ends)


@dataclass
class UnderWay(Generic[Event, Progressed]):
    """Something that was begun, and how far it is."""

    title: str
    events: AsyncGenerator[Event, None]
    """Carried out as they are asked for. They raise ConsoleError when nobody can know how it ended."""
    abort: Callable[[], str]
    """Asks it to stop; what that will leave, in a sentence."""
    progress: Progressed
    screen: Callable[[Progressed], ProposalScreen[Progressed]]
    """Makes the screen that shows it."""
    seen: bool = False
    """Whether its end was on a screen."""


class Desk(ABC, Generic[Event, Progressed]):
    """Opens screens on an app, and carries out one thing at a time."""

    SCREEN: type[ProposalScreen[Progressed]]
    """Shows what is proposed, and what is under way."""
    OWN: ClassVar[tuple[type[HostScreen], ...]]
    """All screens that are closed to open another one of them."""
    LINE: ClassVar[type[Widget]]
    """Stands on the dashboard for a screen that was left."""
    NO_END: ClassVar[str | None] = None
    """What is wrong where no event was the end; None: nothing, it ends with its events."""

    def __init__(
        self,
        app: App[BaseException],
        seen: LastSeen,
        glyphs: Glyphs,
        *,
        back: str,
        refusal: Callable[[], str | None],
        busy: Callable[[], str | None],
    ) -> None:
        """`back` is how to come back to what is under way, `refusal` why the host allows nothing, and `busy`
        what else goes on in this console, during which nothing may begin."""
        self.under_way: UnderWay[Event, Progressed] | None = None
        """What goes on, or the last one whose end nobody has looked at."""
        self._app, self._seen, self._glyphs, self._back = app, seen, glyphs, back
        self._refusal, self._busy = refusal, busy

    # What is a desk's own.

    @abstractmethod
    def after(self, progress: Progressed, event: Event) -> Progressed:
        """How far it is after an event."""

    @abstractmethod
    def outcome(self, progress: Progressed) -> tuple[str, bool]:
        """What came of it, and whether that is what was wanted."""

    @abstractmethod
    def line(self, under_way: UnderWay[Event, Progressed]) -> Widget:
        """The line on the dashboard."""

    # What desks have in common.

    @property
    def running(self) -> bool:
        """Whether something goes on."""
        return self.under_way is not None and self.under_way.progress.running

    @property
    def goes_on(self) -> str | None:
        """What goes on, in a sentence; None: nothing does."""
        if self.under_way is None or not self.running:
            return None
        return f"{self.under_way.title} goes on ({self._back})"

    def refusal(self) -> str | None:
        """Why nothing may begin now; None: it may."""
        return self.goes_on or self._busy() or self._refusal()

    def _start(self, begun: Callable[[], UnderWay[Event, Progressed]]) -> None:
        """Begin something, on the screen that shows it. `begun` may raise ConsoleError, which is told."""
        if (why := self.goes_on or self._busy()) is not None:
            self._tell(why)
            return
        try:
            under_way = begun()
        except ConsoleError as error:
            self._tell(str(error))
            return
        self.under_way = under_way
        self._moved(under_way, under_way.progress)
        self._app.run_worker(self._carry_out(under_way), group="under way")

    async def _carry_out(self, under_way: UnderWay[Event, Progressed]) -> None:
        error = self.NO_END
        try:
            async with aclosing(under_way.events) as events:
                async for event in events:
                    self._moved(under_way, self.after(under_way.progress, event))
        except ConsoleError as raised:
            error = str(raised)
        if under_way.progress.running:
            self._moved(under_way, under_way.progress._replace(error=error, ended=time.monotonic()))
        if not under_way.seen:
            self._tell_end(under_way)

    def _tell_end(self, under_way: UnderWay[Event, Progressed]) -> None:
        said, well = self.outcome(under_way.progress)
        self._app.notify(
            f"{said} ({self._back})",
            title=under_way.title,
            severity="information" if well else "warning",
            markup=False,
        )

    def abort(self) -> None:
        """Ask what is under way to stop."""
        if (under_way := self.under_way) is not None and under_way.progress.running:
            self._moved(under_way, under_way.progress._replace(aborting=under_way.abort()))

    def leave(self) -> None:
        """Close the screen, and with what was begun all that led to it; the dashboard tells what goes on."""
        screen = self._shown
        if screen is None or screen is not self._app.screen:
            return
        if screen.begun:
            self._close_own()
            if not self.running:
                self.under_way = None
        else:
            self._app.pop_screen()
        self._show_line()

    def _return(self) -> bool:
        """Show what is under way, or the end of one that nobody saw; False when there is none."""
        if self.under_way is not None and not self.running and self.under_way.seen:
            self.under_way = None
        if (under_way := self.under_way) is None:
            return False
        if self._shown is None:
            self._close_own()
            self._app.push_screen(under_way.screen(under_way.progress))
            under_way.seen = not under_way.progress.running
            self._show_line()
        return True

    def _close_own(self) -> None:
        while isinstance(self._app.screen, self.OWN):
            self._app.pop_screen()

    @property
    def _shown(self) -> ProposalScreen[Progressed] | None:
        """The topmost screen of what is proposed or under way."""
        stack = reversed(self._app.screen_stack)
        return next((each for each in stack if isinstance(each, self.SCREEN)), None)

    def _moved(self, under_way: UnderWay[Event, Progressed], progress: Progressed) -> None:
        under_way.progress = progress
        if (screen := self._shown) is not None:
            screen.show_progress(progress)
            under_way.seen = not progress.running
        self._show_line()

    def _show_line(self) -> None:
        """On the dashboard, while something goes on whose screen was left."""
        home = self._app.screen_stack[0]
        lines = home.query(self.LINE)
        if self.under_way is None or not self.running or self._shown is not None:
            lines.remove()
        elif not lines:
            home.mount(self.line(self.under_way), after="#status")

    def _ask_to_leave(self, title: str, said: str, leave: Callable[[], None]) -> None:
        question = ConfirmScreen(title, [Paragraph(said)], yes="Leave", no="Stay", glyphs=self._glyphs)
        self._app.push_screen(question, lambda agreed: leave() if agreed else None)

    def _tell(self, said: str) -> None:
        self._app.notify(said, severity="warning", markup=False)
