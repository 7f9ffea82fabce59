"""A search of a whole log file as the agent sees it: a child process whose reports are parts of an answer."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from typing import Any, Iterator

from .logpages import Part

BOOTSTRAP = """
# dsv4-console search
import json, sys
source, order = json.load(sys.stdin)
space = {"__name__": "searcher"}
exec(compile(source, "<searcher>", "exec"), space)
space["main"](order)
"""
MOST_MATCHES = 1000
MOST_CHARS = 4096
READ_SIZE = 65536
TOO_SLOW = "the pattern takes too long on one line: make it simpler"


class LogSearch:
    """One search. It takes over the descriptor `fd`. Raises OSError when the process cannot be started."""

    def __init__(self, fd: int, order: dict[str, Any]) -> None:
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", BOOTSTRAP],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(fd,),
            )
        finally:
            os.close(fd)
        self._tell([source_of("searcher"), dict(order, fd=fd)])
        assert self._child.stdout is not None
        self.fd = self._child.stdout.fileno()
        """Readable when there is a part."""
        os.set_blocking(self.fd, False)

    def parts(self) -> Iterator[Part | None]:
        """Parts of the answer up to its last; None when there is none yet."""
        said = b""
        while True:
            try:
                data = os.read(self.fd, READ_SIZE)
            except BlockingIOError:
                yield None
                continue
            if not data:
                break
            *reports, said = (said + data).split(b"\n")
            for report in map(json.loads, reports):
                yield report, b""
                if not report["more"]:
                    return
        yield {"kind": "reply", "error": self._end(), "more": False}, b""

    def close(self) -> None:
        """End the search."""
        self._child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=0.1)
        assert self._child.stdout is not None
        self._child.stdout.close()

    def _tell(self, parcel: Any) -> None:
        """All that the child needs to be told; it fits into a pipe."""
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._child.stdin as stdin:
            stdin.write(json.dumps(parcel).encode())

    def _end(self) -> str:
        """Why the child ended before it was done."""
        code = self._child.wait()
        return TOO_SLOW if code == -signal.SIGVTALRM else f"the search ended with status {code}"


def bounded(order: dict[str, Any]) -> dict[str, Any]:
    """The order of a search, within bounds and with its defaults."""
    return {
        "pattern": str(order["pattern"]),
        "literal": bool(order.get("literal", False)),
        "ignore_case": bool(order.get("ignore_case", False)),
        "backwards": bool(order.get("backwards", True)),
        "max_matches": max(1, min(MOST_MATCHES, int(order.get("max_matches", MOST_MATCHES)))),
        "max_chars": max(1, min(MOST_CHARS, int(order.get("max_chars", MOST_CHARS)))),
    }


def source_of(module: str) -> str:
    """The text of a module of this package, however it got here."""
    spec = importlib.util.find_spec("." + module, __package__)
    assert spec is not None
    return spec.loader.get_source(spec.name)  # type: ignore[union-attr,no-any-return] # both loaders have it
