"""`python -m console.demo`: a demo host that lives until its stdin ends or it gets SIGTERM.

As soon as it listens it prints a line of JSON: host, port, username, client_key, known_hosts, folder, python,
env, and variables, which the demo's profiles want in the environment.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from console.demo.host import DemoHost
from console.demo.ports import NoPortsError, take_block


def main() -> None:
    """Parse, serve, clean up."""
    parser = argparse.ArgumentParser(prog="python -m console.demo", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where to make the host's own folder")
    parser.add_argument("--gpus", type=int, default=8, choices=(8, 16), help="simulated GPUs")
    options = parser.parse_args()
    try:
        ports = take_block()
    except NoPortsError as error:
        sys.exit(str(error))
    host = DemoHost(Path(tempfile.mkdtemp(prefix="dsv4-demo-", dir=options.folder)), options.gpus, ports)
    try:
        host.launch()
        asyncio.run(_serve(host))
    finally:
        host.close()


async def _serve(host: DemoHost) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for asked in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(asked, stop.set)
    loop.add_signal_handler(signal.SIGCHLD, host.collect)
    # For those that ended before the handler was there.
    host.collect()
    _watch_stdin(lambda: loop.call_soon_threadsafe(stop.set))
    await host.serve(stop)


def _watch_stdin(ended: Callable[[], object]) -> None:
    """Call back when stdin ends. A thread, for stdin may be a file, which no event loop can wait for."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        ended()

    threading.Thread(target=watch, name="stdin", daemon=True).start()


if __name__ == "__main__":
    main()
