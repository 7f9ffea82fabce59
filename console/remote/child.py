"""A program on this machine, in a session of its own: its stderr is heard, and it is never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from console.remote.last_words import STILL_RUNS, LastWords

PIPE = asyncio.subprocess.PIPE
STILL_RUNS_S = 2.0


class Child:
    """A started program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._words = LastWords()
        self._listening = asyncio.create_task(self._listen(), name=f"stderr of {process.pid}")

    @classmethod
    async def start(
        cls,
        *command: str,
        stdin: int = PIPE,
        stdout: int = PIPE,
        buffer: int = 65536,
        folder: Path | None = None,
    ) -> Child:
        """Start `command` in `folder`; up to twice `buffer` bytes of its output are held. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=stdin,
            stdout=stdout,
            stderr=PIPE,
            limit=buffer,
            cwd=folder,
            start_new_session=True,
        )
        return cls(process)

    async def why(self) -> str:
        """Why it ended, as a clause; waits a little for the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STILL_RUNS_S):
                await self.process.wait()
                await asyncio.wait({self._listening})
        code = self.process.returncode
        return STILL_RUNS if code is None else self._words.after_returncode(code)

    async def end(self, grace_s: float) -> None:
        """Wait for it to end by itself, at most `grace_s`, then kill its process group."""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.process.wait()
        finally:
            self._kill()
        await self.process.wait()
        self._listening.cancel()
        await asyncio.wait({self._listening})

    def _kill(self) -> None:
        # The number of a process that was waited for may already be another's.
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def _listen(self) -> None:
        assert self.process.stderr
        while said := await self.process.stderr.read(65536):
            self._words.hear(said)
