"""Taking lines of a log along: the clipboard, a file, a pager."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from pathlib import Path

from textual.app import SuspendNotSupported

from console.domain.logline import LogLine

from .log_export import clipped, create_file, page, short_path, suggested_path, write_lines
from .log_view import LogView
from .prompt_line import PromptLine, Question


class LogTaker:
    """Takes from one view what is selected, or else all that is shown, each line as it stands in the log."""

    def __init__(self, view: LogView, prompt: PromptLine) -> None:
        self._view = view
        self._prompt = prompt

    def select(self) -> None:
        """Begin a block at the marked line, or end it."""
        view = self._view
        if view.block_start is not None:
            self.clear()
        elif len(view.shown.rows):
            self._begin(view.last_row if view.following else view.first_shown)

    def extend(self, count: int) -> None:
        """Let the block reach further down, or up for a negative count; begin one if there is none."""
        view = self._view
        if not len(view.shown.rows):
            return
        if view.block_start is None:
            self._begin(view.first_shown if count > 0 else view.last_row)
        view.move_mark(count)

    def clear(self) -> None:
        """Select nothing."""
        self._view.block_start = None
        self._view.repaint()

    def copy(self) -> None:
        """To the clipboard: the block, or else the marked line or the top one."""
        view = self._view
        if not len(view.shown.rows):
            return
        if view.block is None:
            self._begin(view.first_shown)
        lines = self._selected()
        clip = clipped(lines)
        view.app.copy_to_clipboard(clip.text)
        self.clear()
        said = f"copied {_lines_in_words(clip.lines)}"
        if not clip.whole:
            said = (
                f"copied the first {clip.lines:,} of {_lines_in_words(len(lines))}: a terminal takes no more"
            )
        view.notify(said, severity="information" if clip.whole else "warning", timeout=4, markup=False)

    def ask_save(self, label: str) -> None:
        """Ask for a path, and write a file that only its owner can read."""
        lines = self._selected()

        def answered(typed: str) -> str:
            if not typed.strip():
                return "a path, please"
            # Not Path.expanduser, which raises for a user that does not exist.
            path = Path(os.path.expanduser(typed.strip())).absolute()
            try:
                descriptor = create_file(path)
            except OSError as error:
                return f"{short_path(path)}: {_in_words(error)}"
            self._view.run_worker(self._save(descriptor, path, lines), group="save")
            return ""

        self._prompt.ask(
            Question(
                f"save {_lines_in_words(len(lines))} to ",
                answered,
                suggestion=short_path(suggested_path(label, datetime.now())),
            )
        )

    async def page(self) -> None:
        """Show them in $PAGER, with the terminal to itself."""
        app = self._view.app
        lines = self._selected()
        try:
            # Nothing may be drawn over the pager, though news go on coming.
            with app.suspend(), app.batch_update():
                await page(lines)
        except SuspendNotSupported:
            self._view.notify("no pager can be shown here", severity="warning", markup=False)
        except (OSError, ValueError) as error:
            self._view.notify(f"$PAGER cannot be started: {error}", severity="error", markup=False)

    async def _save(self, descriptor: int, path: Path, lines: list[str]) -> None:
        try:
            size = await asyncio.to_thread(write_lines, descriptor, lines)
        except OSError as error:
            self._view.notify(f"{short_path(path)}: {_in_words(error)}", severity="error", markup=False)
        else:
            self.clear()
            said = f"saved {_lines_in_words(len(lines))} ({size / 1e6:.1f} MB) to {short_path(path)}"
            self._view.notify(said, timeout=6, markup=False)

    def _begin(self, position: int) -> None:
        """A block of one row: the marked one when it is in view, else this."""
        view = self._view
        view.block_start = view.marked if view.sees(view.marked) else position
        view.show(view.block_start)

    def _selected(self) -> list[str]:
        rows = self._view.shown.rows
        if self._view.block is not None:
            return self._lines(*self._view.block)
        return self._lines(rows.position(0), rows.position(len(rows) - 1)) if len(rows) else []

    def _lines(self, start: int, end: int) -> list[str]:
        """The rows between two positions, both included."""
        rows = self._view.shown.rows
        return [self._line(index) for index in range(rows.index(start), rows.index(end + 1))]

    def _line(self, index: int) -> str:
        rows = self._view.shown.rows
        row, source = rows.row(index), rows.source(index)
        text = row.text if isinstance(row, LogLine) else f"--- {row.text}"
        return text if source is None else f"{source.word:<{self._view.word_width}}{text}"


def _lines_in_words(count: int) -> str:
    return f"{count:,} line{'' if count == 1 else 's'}"


def _in_words(error: OSError) -> str:
    if isinstance(error, FileExistsError):
        return "exists already, and is left as it is"
    return error.strerror or type(error).__name__
