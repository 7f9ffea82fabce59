"""A program that is found as an SGLang server and writes to its log what a test tells it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from tests.integration import numbered
from tests.integration.waiting import wait_until

MODULE = """
import contextlib, os, sys
pipe, number = sys.argv[sys.argv.index("--orders") + 1], 0
for order in open(pipe):
    word, _, what = order.rstrip("\\n").partition(" ")
    if word == "lines":
        for _ in range(int(what)):
            number += 1
            with contextlib.suppress(OSError):
                os.write(1, b"line %d\\n" % number)
    elif word == "text":
        os.write(1, what.encode())
    elif word == "reopen":
        os.dup2(os.open(what, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    open(pipe + ".done", "a").write(".")
"""


class ScriptedServer:
    """Each order is carried out when the method returns."""

    def __init__(self, folder: Path, mark: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "server.log"
        orders = folder / "orders"
        os.mkfifo(orders)
        self._done = folder / "orders.done"
        self._given = 0
        self._process = numbered.start(folder, mark, MODULE, ("--orders", str(orders)))
        self._orders: IO[str] = orders.open("w", buffering=1)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def lines(self, count: int) -> None:
        """Write so many lines, numbered on from the last one; what does not fit on the disk is lost."""
        self._order(f"lines {count}")

    def text(self, text: str) -> None:
        """Write text without a line end."""
        self._order(f"text {text}")

    def reopen(self) -> None:
        """Close the log and open what has its name now, as a server does that knows of rotation."""
        self._order(f"reopen {self.log}")

    def kill(self) -> None:
        """End it from outside, in the middle of whatever it does."""
        self._process.kill()
        self._process.wait()
        self._orders.close()

    def _order(self, order: str) -> None:
        self._orders.write(order + "\n")
        self._given += 1
        wait_until(self._obeyed, f"not obeyed: {order}")

    def _obeyed(self) -> bool:
        assert self._process.poll() is None
        return self._done.exists() and self._done.stat().st_size == self._given
