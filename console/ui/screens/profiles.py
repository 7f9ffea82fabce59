"""The picker: which profiles there are, how each did, and what would change with it."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widgets import Footer

from console.domain.errors import ConsoleError
from console.domain.host_view import HostView
from console.domain.operating import Operator, ProfileEntry
from console.ui.screens.host_screen import HostScreen
from console.ui.widgets.meter import Glyphs
from console.ui.widgets.paragraphs import Paragraph, ParagraphView
from console.ui.widgets.plan_heading import WARNS
from console.ui.widgets.profile_difference import profile_paragraphs
from console.ui.widgets.profile_list import ProfileList
from console.ui.widgets.prompt_line import PromptLine, Question
from console.ui.widgets.status_bar import StatusBar

BEGINS_FILTER = frozenset("abcdefghijklmnoprstuvwxyz0123456789")
"""Every small letter but `q`, which leaves."""


class ProfilesScreen(HostScreen):
    """Says with `Chosen` which profile a plan is wanted for."""

    AUTO_FOCUS = "ProfileList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "plan"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("q", "back", "back"),
        Binding("escape", "back", "back", show=False),
    ]

    class Chosen(Message):
        """A plan is wanted."""

        def __init__(self, profile: str) -> None:
            super().__init__()
            self.profile = profile

    def __init__(self, operator: Operator, host: HostView, glyphs: Glyphs, *, finish: str) -> None:
        """`finish` is what can be done about a plan whose console died."""
        super().__init__(host, glyphs)
        self._operator, self._finish = operator, finish
        self._entries: tuple[ProfileEntry, ...] = ()
        self._wanted = ""

    def compose(self) -> ComposeResult:
        yield StatusBar(glyphs=self._glyphs)
        note = ParagraphView(glyphs=self._glyphs, id="profiles-note")
        note.can_focus = False
        yield note
        with Container(id="profiles"):
            with Vertical(id="profiles-left"):
                yield ProfileList(glyphs=self._glyphs, id="profile-list")
                yield PromptLine(glyphs=self._glyphs)
            yield ParagraphView(glyphs=self._glyphs, id="profile-details")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#profile-list").border_title = "Profiles"
        self.query_one("#profile-details").border_title = "What it is, and what would change"
        self.run_worker(self._refresh(), group="last results", exclusive=True)

    async def _refresh(self) -> None:
        """The list is there at once; how profiles did last comes when it was read."""
        try:
            await self._operator.refresh()
        except ConsoleError as error:
            self.tell(str(error))
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        try:
            self._entries = self._operator.profiles()
        except ConsoleError as error:
            self.tell(str(error))
        interrupted = self._operator.interrupted()
        note = [Paragraph(f"{interrupted}. {self._finish}", "warning", head=WARNS)] if interrupted else []
        self.query_one("#profiles-note", ParagraphView).show(note)
        self._show()

    def _show(self) -> None:
        wanted = self._wanted.lower()
        found = [entry for entry in self._entries if wanted in entry.name.lower()]
        self.query_one(ProfileList).show(found, time.time())

    @on(ProfileList.Moved)
    def _show_details(self) -> None:
        marked = self.query_one(ProfileList).marked
        running = next((entry.profile for entry in self._entries if entry.running), None)
        details = self.query_one("#profile-details", ParagraphView)
        details.show(profile_paragraphs(marked, running, time.time(), self._glyphs))
        details.scroll_home(animate=False)

    def on_key(self, event: events.Key) -> None:
        """What is typed filters the list: a small letter or a digit begins it, `/` opens it empty."""
        if event.key in ("up", "down", "pageup", "pagedown", "enter", "tab", "shift+tab"):
            return
        prompt = self.query_one(PromptLine)
        begins = event.character is not None and event.character in BEGINS_FILTER
        if prompt.question is None and begins:
            self.action_filter()
        if prompt.question is not None:
            prompt.press(event)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """While something is typed a letter means nothing else."""
        if self.query_one(PromptLine).question is None:
            return character in BEGINS_FILTER
        return character is not None and character.isprintable()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is typed these keys are part of it."""
        return action not in ("back", "filter") or self.query_one(PromptLine).question is None

    def action_filter(self) -> None:
        """Type a part of a name."""
        self.query_one(PromptLine).ask(
            Question(
                "/",
                answered=lambda typed: typed,
                changed=self._filtered,
                cancelled=self._unfiltered,
                suggestion=self._wanted,
            )
        )

    def _filtered(self, wanted: str) -> str:
        self._wanted = wanted
        self._show()
        return (
            f"{sum(wanted.lower() in entry.name.lower() for entry in self._entries)} of {len(self._entries)}"
        )

    def _unfiltered(self) -> None:
        self._filtered("")

    def action_choose(self) -> None:
        """The plan for the marked profile."""
        entry = self.query_one(ProfileList).marked
        if entry is None:
            return
        if entry.profile is None:
            self.notify(
                entry.error or "it cannot be read",
                title=f"{entry.name} cannot be used",
                severity="warning",
                markup=False,
            )
            return
        self.post_message(self.Chosen(entry.name))

    def action_back(self) -> None:
        """To where it was opened."""
        self.app.pop_screen()
