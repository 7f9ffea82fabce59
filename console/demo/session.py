"""One SSH session: the command runs as a real child process, its three streams are the session's."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

import asyncssh

SHELL = "/bin/sh"
PATIENCE_S = 2.0
"""Seconds that a child may live on with its stdin closed once its session is gone."""

_CHUNK = 65536


class Sessions:
    """Serves each session with a child of its own, in a process group of its own."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.patience_s = PATIENCE_S
        self._environment = dict(environment)

    async def serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run the session's command until it ends or the client is gone."""
        command = ("-c", process.command) if process.command else ()
        child = await asyncio.create_subprocess_exec(
            SHELL,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        try:
            await _converse(process, child)
        finally:
            await _end(child, self.patience_s)


async def _converse(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    """Pass everything on, then the exit. Returns early when the client is gone."""
    assert child.stdout
    assert child.stderr
    feeding = asyncio.create_task(_feed(process, child))
    outputs = asyncio.gather(
        _pump(child.stdout, process.stdout), _pump(child.stderr, process.stderr), child.wait()
    )
    gone = asyncio.create_task(process.channel.wait_closed())
    try:
        done, _ = await asyncio.wait((outputs, gone), return_when=asyncio.FIRST_COMPLETED)
        if outputs in done and outputs.exception() is None:
            _report_exit(process, await child.wait())
    finally:
        for task in (feeding, outputs, gone):
            task.cancel()
        await asyncio.gather(feeding, outputs, gone, return_exceptions=True)


async def _feed(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    """The client's stdin, its end, and its signals."""
    assert child.stdin
    while True:
        try:
            data = await process.stdin.read(_CHUNK)
        except asyncssh.SignalReceived as received:
            _signal_group(child, received.signal)
            continue
        except asyncssh.BreakReceived:
            continue
        if not data:
            child.stdin.close()
            return
        child.stdin.write(data)
        with suppress(ConnectionError):
            await child.stdin.drain()


async def _pump(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
    while data := await source.read(_CHUNK):
        sink.write(data)
        await sink.drain()


def _report_exit(process: asyncssh.SSHServerProcess[bytes], code: int) -> None:
    if code < 0:
        process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
    else:
        process.exit(code)


def _signal_group(child: asyncio.subprocess.Process, name: str) -> None:
    with suppress(ProcessLookupError, AttributeError):
        os.killpg(child.pid, getattr(signal, f"SIG{name}"))


async def _end(child: asyncio.subprocess.Process, patience_s: float) -> None:
    """Close its stdin, then be patient, then kill what is left of its group."""
    if child.stdin:
        child.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await child.wait()
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
