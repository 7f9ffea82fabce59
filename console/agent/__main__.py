"""python3 -m console.agent: the agent by hand.

With a terminal (or --print) it prints what it reads, one JSON object a line, until it is interrupted;
otherwise it serves frames over stdin and stdout, as it does for the console.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from . import frames, service


class JsonLines:
    """A stand-in for the frame writer that prints frames as lines."""

    idle = True
    dropped = 0

    def put(self, header: frames.Header, body: bytes = b"") -> None:
        """Print the header."""
        print(json.dumps(header), flush=True)

    put_sample = put

    def flush(self) -> None:
        """Nothing waits."""


def print_samples(interval: float, count: int) -> None:
    """Print `count` samples (0: without end), and the servers found."""
    agent = service.Agent({"interval": interval}, JsonLines())  # type: ignore[arg-type] # the two methods used
    agent.start()
    end = time.monotonic() + interval * count if count else float("inf")
    while time.monotonic() < end:
        agent.obey({"op": "beat"})
        time.sleep(max(0.001, agent.step()))


def main(arguments: list[str] | None = None) -> None:
    """Serve or print."""
    parser = argparse.ArgumentParser(prog="python3 -m console.agent", description=__doc__)
    parser.add_argument("--print", action="store_true", help="print JSON lines even without a terminal")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between samples, 0.2 to 10")
    parser.add_argument("--count", type=int, default=0, help="with --print: stop after this many samples")
    options = parser.parse_args(arguments)
    if options.print or sys.stdin.isatty():
        print_samples(service.bounded_interval(options.interval), options.count)
    else:
        out = os.dup(1)
        os.dup2(2, 1)
        service.serve(0, out, {"interval": options.interval})


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
