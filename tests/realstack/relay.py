"""What passes between a client and a server, byte by byte, with the times: each client is held against it.

Two clients that take turns meet another server each time: on a small machine the same client's medians differ
by half from run to run. Between a client and the relay there is nothing but the client.

    with Relay(server_port) as relay:
        measure("http://127.0.0.1:{relay.port}/v1/completions")
    relay.figures()
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Coroutine
from statistics import median
from types import TracebackType
from typing import Any, TypeVar

PIECE = 1 << 16
PATIENCE_S = 10.0

T = TypeVar("T")


class Exchange:
    """One connection: when its request came, and the pieces of the answer. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.answered: list[tuple[float, bytes]] = []

    @property
    def sent(self) -> float:
        """When the request came."""
        return self.asked[0]

    @property
    def first_text(self) -> float:
        """When the first event with text came."""
        return next(at for at, data in self.events() if _has_text(data))

    @property
    def ended(self) -> float:
        """When the last event came."""
        return self.events()[-1][0]

    def events(self) -> list[tuple[float, bytes]]:
        """The data of each event, with the time of the piece that completed it."""
        found, rest = [], b""
        for at, data in self.answered:
            *whole, rest = (rest + data).split(b"\n\n")
            found += [(at, event.partition(b"data: ")[2]) for event in whole if b"data: " in event]
        return found

    def is_streamed(self) -> bool:
        """Whether it was answered event by event, to the end."""
        return any(data == b"[DONE]" for _, data in self.events())


class Relay:
    """Listens on `port`, passes everything on to another, and keeps it."""

    def __init__(self, to: int) -> None:
        self.port = 0
        self._to = to
        self._exchanges: list[Exchange] = []
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Relay:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(_close(self._server))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def figures(self, of: int) -> dict[str, float]:
        """Of all streamed answers of `of` tokens that have passed, as sglang's client defines them."""
        passed = [each for each in self._exchanges if each.is_streamed()]
        seconds = max(each.ended for each in passed) - min(each.sent for each in passed)
        return {
            "completed": len(passed),
            "output_throughput": len(passed) * of / seconds,
            "median_ttft_ms": 1000 * median(each.first_text - each.sent for each in passed),
            "median_tpot_ms": 1000 * median((each.ended - each.first_text) / (of - 1) for each in passed),
        }

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * PATIENCE_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = Exchange()
        self._exchanges.append(exchange)
        back, on = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            await asyncio.gather(
                _pass(reader, on, lambda at, _: exchange.asked.append(at)),
                _pass(back, writer, lambda at, data: exchange.answered.append((at, data))),
            )
        finally:
            for each in (on, writer):
                with contextlib.suppress(ConnectionError):
                    await each.wait_closed()


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keep: Callable[[float, bytes], None]
) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(PIECE):
            keep(time.monotonic(), data)
            writer.write(data)
    writer.close()


async def _close(server: asyncio.Server) -> None:
    """Wait for the last connections: clients have ended."""
    server.close()
    await server.wait_closed()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=PATIENCE_S)


def _has_text(data: bytes) -> bool:
    return data != b"[DONE]" and any(choice["text"] for choice in json.loads(data)["choices"])
