"""A pane to read a log in: its keys, its title, its prompt, and the way to what went wrong."""

from __future__ import annotations

import calendar
from datetime import datetime
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.reactive import reactive

from console.domain.logline import LogLine
from console.domain.server import Role
from console.ui.keymap import LOG, bindings

from .lines import Line
from .log_finder import Histories, LogFinder, match_words
from .log_look import LogPaint
from .log_rows import KeptRows
from .log_taker import LogTaker
from .log_title import LogState, log_title
from .log_view import LogView
from .meter import UNICODE, Glyphs
from .prompt_line import History, PromptLine

SIDEWAYS = 8
"""Columns that one key scrolls."""
BORDER = 6
"""Columns of the title's line that are border, with a blank beside the title at either end."""
ASKING = frozenset({"search", "filter", "save", "host_search"})
"""Actions that open the prompt."""


class LogReader(Vertical, can_focus=True):
    """Shows a log and says in its title whose it is, how much of it is seen and what was found."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(LOG),
        # The prompt takes these keys itself; here they are for the footer.
        Binding("enter", "answer", "keep"),
        Binding("escape", "cancel", "back"),
    ]

    label: reactive[str] = reactive("")
    role: reactive[Role | None] = reactive(None)
    greyed: reactive[bool] = reactive(False)
    """Whether the log may have gone on unseen."""
    age_s: reactive[float | None] = reactive(None)
    """Seconds since the log was last known to be complete, for the title of a greyed pane."""
    place_note: reactive[str | None] = reactive(None)
    """Why there is nothing to follow, or what is odd about it."""

    def __init__(
        self,
        rows: KeptRows,
        label: str = "",
        *,
        role: Role | None = None,
        glyphs: Glyphs = UNICODE,
        histories: Histories | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._rows = rows
        self.view = LogView(rows, glyphs=glyphs)
        self.view.repainted = self._repainted
        self.prompt = PromptLine(glyphs=glyphs)
        self._finder = LogFinder(self.view, self.prompt, histories or Histories(History(), History()))
        self._taker = LogTaker(self.view, self.prompt)
        self._title: Line = ()
        self.set_reactive(LogReader.label, label)
        self.set_reactive(LogReader.role, role)

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.prompt

    def add_mark(self, text: str, at: datetime | None = None) -> None:
        """Draws a rule across the log where something was done; `at` is the wall clock of the host."""
        at = at or datetime.now()
        self._rows.mark(f"{at:%H:%M:%S} {text}", calendar.timegm(at.timetuple()))
        self.view.changed()

    @property
    def following(self) -> bool:
        """Whether the end of the log is kept in view."""
        return self.view.following

    @property
    def marked(self) -> LogLine | None:
        """The line last jumped to, while it is in memory."""
        position, rows = self.view.marked, self.view.shown.buffer
        if position is None or (index := rows.index(position)) == len(rows):
            return None
        row = rows.row(index)
        return row if isinstance(row, LogLine) and rows.position(index) == position else None

    async def on_key(self, event: events.Key) -> None:
        """The prompt comes first, and opens before the next key is taken."""
        if self.prompt.press(event):
            return
        active = self.screen.active_bindings.get(event.key)
        if active is not None and active.node is self and active.binding.action in ASKING:
            event.stop()
            event.prevent_default()
            await self.run_action(active.binding.action)

    def on_paste(self, event: events.Paste) -> None:
        if self.prompt.question is not None:
            event.stop()
            self.prompt.paste(event.text)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """While something is typed a letter means nothing else."""
        return self.prompt.question is not None and character is not None and character.isprintable()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape goes on to others when there is nothing to clear."""
        asked = self.prompt.question is not None
        if action in ("answer", "cancel"):
            return asked
        if action == "clear":
            return not asked and (self.view.block is not None or self._finder.can_clear)
        return not asked or action in ("lines", "pages", "columns")

    def action_answer(self) -> None:
        self.prompt.answer()

    def action_cancel(self) -> None:
        self.prompt.cancel()

    def action_toggle_follow(self) -> None:
        if self.view.following:
            self.view.follow = False
        else:
            self.action_to_end()

    def action_toggle_pause(self) -> None:
        self.view.paused = not self.view.paused

    def action_toggle_whole(self) -> None:
        self.view.whole = not self.view.whole

    def action_toggle_times(self) -> None:
        self.view.timed = not self.view.timed

    def action_toggle_folds(self) -> None:
        self.view.folded = not self.view.folded

    def action_to_top(self) -> None:
        if self._selects:
            self._taker.extend(-len(self._rows))
        else:
            self.view.to_top()

    def action_to_end(self) -> None:
        if self._selects:
            self._taker.extend(len(self._rows))
        else:
            self.view.follow, self.view.paused = True, False
            self.view.to_end()

    def action_lines(self, count: int) -> None:
        """So many lines of the screen down, or up; a block is extended."""
        if self._selects:
            self._taker.extend(count)
        else:
            self.view.scroll_rows(count)

    def action_pages(self, pages: float) -> None:
        self.action_lines(round(pages * (self.view.size.height - 1)))

    def action_columns(self, steps: int) -> None:
        self.view.scroll_columns(steps * SIDEWAYS)

    def action_next_error(self) -> None:
        self._tell(self._finder.next_alarm("error", forward=True))

    def action_previous_error(self) -> None:
        self._tell(self._finder.next_alarm("error", forward=False))

    def action_next_warning(self) -> None:
        self._tell(self._finder.next_alarm("warning", forward=True))

    def action_previous_warning(self) -> None:
        self._tell(self._finder.next_alarm("warning", forward=False))

    def action_search(self) -> None:
        self._finder.ask_search()

    def action_next_match(self) -> None:
        self._tell(self._finder.next_match(forward=True))

    def action_previous_match(self) -> None:
        self._tell(self._finder.next_match(forward=False))

    def action_filter(self) -> None:
        self._finder.ask_filter()

    def action_next_level(self) -> None:
        self._finder.next_level()

    def action_select(self) -> None:
        self._taker.select()

    def action_extend(self, count: int) -> None:
        self._taker.extend(count)

    def action_clear(self) -> None:
        if self._selects:
            self._taker.clear()
        else:
            self._finder.clear()

    def action_copy(self) -> None:
        self._taker.copy()

    def action_save(self) -> None:
        # Without the number of the pane.
        self._taker.ask_save(self.label.lstrip("0123456789"))

    def action_page_out(self) -> None:
        self.run_worker(self._taker.page(), group="pager", exclusive=True)

    def watch_label(self) -> None:
        self._retitle()

    def watch_role(self) -> None:
        self._retitle()

    def watch_age_s(self) -> None:
        self._retitle()

    def watch_greyed(self) -> None:
        self.view.greyed = self.greyed

    def watch_place_note(self) -> None:
        self.view.place_note = self.place_note

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._title = ()
        self.call_later(self._retitle)

    def _repainted(self) -> None:
        self._finder.told()
        self._retitle()

    @on(LogView.GaveUp)
    def _gave_up(self) -> None:
        self._tell(self._finder.gave_up())

    @property
    def _selects(self) -> bool:
        return self.view.block is not None

    def _tell(self, said: str) -> None:
        if said:
            self.notify(said, timeout=3, markup=False)

    def _retitle(self) -> None:
        if not self.is_attached:
            return
        title = log_title(self._state(), self.outer_size.width - BORDER, self._glyphs)
        if title != self._title:
            self._title = title
            paint = LogPaint(self.app.theme_variables, self.rich_style)
            self.border_title = Text.assemble(*((said, paint.style(tone)) for said, tone in title))

    def _state(self) -> LogState:
        view = self.view
        shown, block = view.shown, view.block
        return LogState(
            label=self._glyphs.safe(self.label),
            role=self.role,
            greyed=self.greyed,
            age_s=self.age_s,
            paused=view.paused,
            following=view.following,
            follow=view.follow,
            below=view.below,
            errors=self._rows.counts["error"],
            warnings=self._rows.counts["warning"],
            filter=shown.filter.words,
            hidden=shown.hidden,
            search=shown.search.pattern.typed if shown.search else "",
            matches=match_words(view),
            selected=0 if block is None else shown.rows.index(block[1] + 1) - shown.rows.index(block[0]),
        )
