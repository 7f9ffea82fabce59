"""A held-open nvidia-smi: one process that prints for as long as the agent lives."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from typing import Sequence

from . import tether

PLACES = ("/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/opt/bin", "/usr/lib/wsl/lib")
"""Where nvidia-smi may be, should the PATH of a non-interactive login leave it out."""


def find() -> str | None:
    """The nvidia-smi of this host."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *PLACES))
    return shutil.which("nvidia-smi", path=path)


def environment() -> dict[str, str]:
    """The agent's own, with numbers in plain spelling."""
    return dict(os.environ, LC_ALL="C")


class SmiChild:
    """The lines of one nvidia-smi process, stderr among them. Raises OSError when it does not start."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = tether.start(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
        )

    def line(self) -> str | None:
        """The next line that is not empty, however long that takes; None when the process has ended."""
        stdout = self._process.stdout
        assert stdout is not None
        for line in iter(stdout.readline, b""):
            text = line.decode("utf-8", "replace").strip()
            if text:
                return text
        return None

    def end(self) -> None:
        """Kill it. One that hangs in the driver cannot be killed, and is not waited for."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        if self._process.stdout is not None:
            self._process.stdout.close()
