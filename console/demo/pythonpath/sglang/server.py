"""One server process from its command line to its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from demohost import lifeline, state, webserver
from demohost.clock import scaled

from sglang.children import Children
from sglang.completions import Completions
from sglang.generation import Generator
from sglang.http_api import HttpApi
from sglang.log import ServerLog
from sglang.memory import DoesNotFitError, plan_memory
from sglang.prefix_cache import PrefixCache
from sglang.server_args import ServerArgs, parse
from sglang.serving import Serving
from sglang.startup import StartUp, announce
from sglang.transfer import Outbox

TICK_S = 0.5
PORT_TAKEN_EXIT = 3
_DRAIN_S = 2.0
_DRAIN_REPORT_S = 5.0


def main(argv: Sequence[str]) -> None:
    """Parse, start, serve, end. Exits the process."""
    args = parse(argv)
    try:
        folder = lifeline.folder()
    except lifeline.NoDemoHostError as error:
        sys.exit(str(error))
    log = ServerLog(args.tp_size)
    announce(args, log)
    try:
        plan = plan_memory(args, _held_by_others(folder, args))
    except DoesNotFitError as error:
        log.line(f"Load weight begin. avail mem={0.0:.2f} GB", rank=0)
        time.sleep(scaled(1.0))
        die_in_startup(log, error)
    children = Children(args.tp_size)
    lifeline.end_with_the_demo(folder, children.end)
    serving = Serving(folder, args, plan, children.ranks, log)
    code = asyncio.run(Server(folder, serving, children).run())
    children.end()
    state.withdraw(folder, os.getpid())
    sys.exit(code)


class Server:
    """Brings the server up, keeps it going and takes it down."""

    def __init__(self, folder: Path, serving: Serving, children: Children) -> None:
        self._serving, self._children = serving, children
        self._args, self._log = serving.args, serving.log
        self._cache = PrefixCache(not self._args.resolved["disable_radix_cache"])
        self._outbox = Outbox()
        generator = Generator(serving, self._cache, self._outbox)
        completions = Completions(self._args, generator, serving.metrics, self._log)
        self._api = HttpApi(serving, completions, self._cache)
        self._asked_to_stop = asyncio.Event()

    async def run(self) -> int:
        """Until SIGTERM. Returns the exit code."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._child_died)
        start_up = StartUp(self._serving)
        try:
            await start_up.prepare()
        except DoesNotFitError as error:
            self._children.end()
            die_in_startup(self._log, error)
        async with contextlib.AsyncExitStack() as stack:
            try:
                await self._listen(stack)
            except OSError:
                return self._port_taken()
            await start_up.warm_up()
            for asked in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(asked, self._asked_to_stop.set)
            await self._serve()
            await self._drain()
        return 0

    async def _listen(self, stack: contextlib.AsyncExitStack) -> None:
        if self._args.role == "prefill":
            port = self._args.bootstrap_port
            await stack.enter_async_context(await webserver.serve(self._outbox.answer, self._args.host, port))
            self._log.line(f"CommonKVBootstrapServer started successfully on {self._args.host}:{port}")
        await stack.enter_async_context(
            await webserver.serve(self._api.answer, self._args.host, self._args.port, self._api.access)
        )

    async def _serve(self) -> None:
        while not self._asked_to_stop.is_set():
            self._serving.tick()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked_to_stop.wait(), TICK_S)

    async def _drain(self) -> None:
        self._log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self._serving.status = "stopping"
        self._serving.tick()
        while self._serving.engine.real:
            self._report_remaining()
            await asyncio.sleep(scaled(_DRAIN_REPORT_S))
        self._report_remaining()
        await asyncio.sleep(scaled(_DRAIN_S))
        self._log.line(
            f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=False, pid={os.getpid()}"
        )

    def _report_remaining(self) -> None:
        count = self._serving.engine.real
        self._log.line(
            f"Gracefully exiting... Remaining number of requests {count}. "
            "Remaining requests remaining_rids=[]."
        )

    def _port_taken(self) -> int:
        where = (self._args.host, self._args.port)
        self._log.uvicorn(
            "ERROR", f"[Errno 98] error while attempting to bind on address {where}: address already in use"
        )
        self._log.uvicorn("INFO", "Waiting for application shutdown.")
        self._log.uvicorn("INFO", "Application shutdown complete.")
        return PORT_TAKEN_EXIT

    def _child_died(self) -> None:
        """One rank's end is the server's end, and takes the others along."""
        death = self._children.dead()
        if death is None:
            return
        self._log.line(
            f"Subprocess {death.name} (pid={death.pid}) crashed with exit code {death.exit_code}. "
            "Triggering SIGQUIT for cleanup..."
        )
        self._log.line("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        self._log.line(
            f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=True, pid={os.getpid()}"
        )
        os.kill(os.getpid(), signal.SIGKILL)


def _held_by_others(folder: Path, args: ServerArgs) -> float:
    """Memory in use on the fullest of the server's GPUs, in MiB."""
    found = list(state.occupants(folder))
    held = (sum(other.mem_mib for other in found if other.holds(gpu)) for gpu in args.gpus)
    return max(held, default=0.0)


def die_in_startup(log: ServerLog, error: DoesNotFitError) -> None:
    """As a rank fails to start: a traceback of which only the first line has a prefix. Does not come back."""
    log.line("Scheduler hit an exception: Traceback (most recent call last):", rank=0)
    log.raw(f"{error}\n\n")
    log.line("Received sigquit from a child process. It usually means the child failed.")
    log.line(f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=True, pid={os.getpid()}")
    os.kill(os.getpid(), signal.SIGKILL)
