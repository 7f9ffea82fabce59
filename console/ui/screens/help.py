"""All keys, from the one table that binds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from console.ui.keymap import EVERYWHERE, LOG, TAKE, Key, Keymap, names

TWO_COLUMNS = 120
"""Columns of the terminal from which there are two of keys."""


class HelpScreen(ModalScreen[None]):
    """Closes with `?`, `q` or escape."""

    # A modal screen hides the keys of the app below it.
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,question_mark", "app.pop_screen", "close")]

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        log = self._keymap.of(LOG)
        with VerticalScroll(id="help") as box, Container(id="help-columns"):
            box.border_title = "Keys"
            everywhere = self._keymap.of(EVERYWHERE)
            yield Static(key_table((*everywhere, *(key for key in log if key.group == TAKE))))
            yield Static(key_table(key for key in log if key.group != TAKE))

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= TWO_COLUMNS, "-wide")


def key_table(keys: Iterable[Key]) -> Text:
    """The keys by group; the nine pane keys are one row."""
    text = Text()
    group = ""
    for key in keys:
        if key.id.startswith("pane-") and key.id != "pane-1":
            continue
        if key.group != group:
            group = key.group
            text.append(f"{group}\n", style="bold")
        shown, explained = (
            ("1-9", "To a pane by its number.") if key.id == "pane-1" else (names(key), key.explained)
        )
        text.append(f"  {shown:<12}", style="bold")
        text.append(f"{explained}\n")
    return text
