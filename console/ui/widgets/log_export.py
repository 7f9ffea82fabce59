"""Lines of a log taken out of the console: to the clipboard, to a file, to a pager."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import tempfile
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

import platformdirs

CLIPBOARD_BYTES = 74_994 // 4 * 3
"""Text that makes 74,994 bytes in the base64 of OSC 52: more is dropped by some terminals, as k9s found."""


class Clip(NamedTuple):
    """What goes to the clipboard."""

    text: str
    lines: int
    whole: bool
    """Nothing was left out."""


def clipped(lines: Sequence[str]) -> Clip:
    """As many whole lines as the clipboard takes, or the start of the first one."""
    taken, size = 0, 0
    for line in lines:
        size += len(line.encode()) + 1
        if size - 1 > CLIPBOARD_BYTES:
            break
        taken += 1
    if taken or not lines:
        return Clip("\n".join(lines[:taken]), taken, taken == len(lines))
    return Clip(lines[0].encode()[:CLIPBOARD_BYTES].decode(errors="ignore"), 1, whole=False)


def suggested_path(label: str, now: datetime) -> Path:
    """A file in the user's state folder, named after the log and the moment."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-").lower() or "log"
    folder = platformdirs.user_state_path("dsv4-console") / "logs"
    return folder / f"{name}-{now:%Y%m%d-%H%M%S}.log"


def short_path(path: Path) -> str:
    """As a person would write it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def create_file(path: Path) -> int:
    """A new file that only its owner can read; returns its descriptor. Raises OSError.

    What is there already is left alone, be it a file or a link. The folder is made where it is ours.
    """
    if path.is_relative_to(platformdirs.user_state_path("dsv4-console")):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def write_lines(descriptor: int, lines: Iterable[str]) -> int:
    """Writes the lines and closes the file; returns its size in bytes. Raises OSError."""
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        return os.fstat(descriptor).st_size


async def save_pieces(path: Path, pieces: AsyncGenerator[bytes, None]) -> int:
    """Writes a new file that only its owner can read, once the first piece is there; returns its size.

    Raises OSError, and what `pieces` raises: then there is no file.
    """
    async with aclosing(pieces):
        first = await anext(pieces, b"")
        with _opened(create_file(path)) as file:
            try:
                file.write(first)
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
            except BaseException:
                await asyncio.to_thread(path.unlink)
                raise
            return file.tell()


def _opened(descriptor: int) -> BinaryIO:
    return open(descriptor, "wb")


async def page(lines: Sequence[str]) -> None:
    """Shows the lines in $PAGER, or less, until it is left. Raises OSError or ValueError where it cannot.

    The terminal must be the pager's. The event loop goes on: the host would take a frozen console for lost.
    """
    command = shlex.split(os.environ.get("PAGER") or "less") or ["less"]
    descriptor, name = tempfile.mkstemp(prefix="dsv4-console-", suffix=".log")
    # Ctrl+C is for the pager.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        await asyncio.to_thread(write_lines, descriptor, lines)
        pager = await asyncio.create_subprocess_exec(*command, name, preexec_fn=_take_interrupts)
        await pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        os.unlink(name)


def _take_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
