"""The prompts of one phase, shared by processes: whoever has a free place takes the next."""

from __future__ import annotations

import asyncio
import os
import struct
import threading

INDEX = struct.Struct("=I")
RETRY_S = 0.001


class Deck:
    """Indices in a pipe. Made before the workers are forked; each reads from the same end, and a read of one
    record is atomic."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken, self._given = os.pipe()
        os.set_blocking(self._taken, False)

    def deal(self) -> None:
        """In the process that forked: put all indices in. They need not fit into the pipe at once."""
        os.close(self._taken)
        threading.Thread(target=self._deal, name="deck", daemon=True).start()

    def receive(self) -> None:
        """In a worker: only take, so that the end of the deck is seen."""
        os.close(self._given)

    async def take(self) -> int | None:
        """The next index; None when there is none left."""
        while True:
            try:
                record = os.read(self._taken, INDEX.size)
            except BlockingIOError:
                await asyncio.sleep(RETRY_S)
                continue
            return INDEX.unpack(record)[0] if record else None

    def _deal(self) -> None:
        try:
            for index in range(self.size):
                os.write(self._given, INDEX.pack(index))
        except BrokenPipeError:
            return
        finally:
            os.close(self._given)
