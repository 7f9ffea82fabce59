"""A real terminal of a given size, in tmux: start a program in it, type, and read the screen."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from uuid import uuid4


class Terminal:
    """One program in one tmux window on a tmux server of its own."""

    def __init__(
        self,
        command: list[str | Path],
        *,
        columns: int,
        rows: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = f"dsv4-test-{uuid4().hex[:12]}"
        self._shell = (
            " ".join(shlex.quote(str(part)) for part in command) + "; echo EXIT-CODE $?; exec sleep 600"
        )
        self._size = ("-x", str(columns), "-y", str(rows))
        plain = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NO_COLOR", "TEXTUAL_THEME", "TMUX")
        }
        self._environment = plain | {"LANG": "C.UTF-8", "TERM": "xterm-256color"} | dict(environment or {})

    def __enter__(self) -> Terminal:
        self._tmux("-f", "/dev/null", "new-session", "-d", *self._size, self._shell)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")

    def screen(self) -> str:
        """The text on the screen."""
        return self._tmux("capture-pane", "-p")

    def type(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Another size, as when a person drags the window."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def until(self, pattern: str, limit_s: float = 20.0) -> re.Match[str]:
        """Wait until the screen matches; AssertionError with the screen when it does not."""
        deadline = time.monotonic() + limit_s
        while not (found := re.search(pattern, screen := self.screen(), re.MULTILINE)):
            assert time.monotonic() < deadline, f"no {pattern!r} within {limit_s} s on:\n{screen}"
            time.sleep(0.05)
        return found

    def until_gone(self, pattern: str, limit_s: float = 20.0) -> None:
        """Wait until the screen no longer matches."""
        deadline = time.monotonic() + limit_s
        while re.search(pattern, screen := self.screen(), re.MULTILINE):
            assert time.monotonic() < deadline, f"{pattern!r} still after {limit_s} s on:\n{screen}"
            time.sleep(0.05)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._name, *arguments],
            capture_output=True, text=True, env=self._environment, check=True,
        )  # fmt: skip
        return done.stdout
