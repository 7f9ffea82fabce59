"""What a load is sent over: its connections, and how each of them may end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import selectors
import socket
from collections.abc import AsyncGenerator, Callable

import httpx
import pytest

from console.agent.loadtransport import LoadTransport, connected
from tests.integration.waiting import eventually
from tests.unit.answering_server import (
    BEGUN,
    WHOLE,
    Answer,
    begun,
    closing_after,
    half_closing_after,
    reset,
    serving,
    whole,
)

LARGE = 64 << 20


@pytest.fixture
async def client() -> AsyncGenerator[httpx.AsyncClient, None]:
    async with httpx.AsyncClient(transport=LoadTransport(), timeout=None, trust_env=False) as client:
        yield client
    gc.collect()  # a socket that nobody closed warns, and warnings are errors


def open_sockets() -> int:
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return found


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_every_request_has_a_connection_of_its_own(client: httpx.AsyncClient, host: str) -> None:
    async with serving(whole, host) as (server, url):
        for _ in range(2):
            assert (await client.post(url, content=b"ask")).text == "ok"
        await asyncio.gather(*(client.post(url, content=b"ask") for _ in range(5)))
        assert server.requests == [1] * 7
        await eventually(lambda: server.connections == 0, "a connection is kept")


async def test_a_server_that_closes_after_its_answer_has_answered(client: httpx.AsyncClient) -> None:
    async with serving(closing_after(WHOLE)) as (_, url):
        assert (await client.post(url, content=b"ask")).text == "ok"


async def test_a_cut_request_closes_its_connection(client: httpx.AsyncClient) -> None:
    async with serving(begun) as (server, url):
        task = asyncio.create_task(client.post(url, content=b"ask"))
        await eventually(lambda: server.requests == [1], "it did not come")
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await server.hung_up.wait()


async def test_an_answer_left_unread_closes_its_connection(client: httpx.AsyncClient) -> None:
    async with serving(begun) as (server, url):
        async with client.stream("POST", url, content=b"ask") as answer:
            assert answer.status_code == 200
        await server.hung_up.wait()


async def test_a_reset_in_the_middle_is_told_in_the_words_of_the_system(client: httpx.AsyncClient) -> None:
    async with serving(reset) as (_, url):
        with pytest.raises(httpx.ReadError, match=r"^Connection reset by peer$"):
            await client.post(url, content=b"ask")


@pytest.mark.parametrize("ending", [closing_after, half_closing_after])
async def test_the_end_in_the_middle_of_an_answer_is_an_error(
    client: httpx.AsyncClient, ending: Callable[[bytes], Answer]
) -> None:
    async with serving(ending(BEGUN)) as (_, url):
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            await client.post(url, content=b"ask")
    async with serving(ending(b"")) as (_, url):
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            await client.post(url, content=b"ask")


async def test_a_server_that_half_closes_after_its_answer_has_answered(client: httpx.AsyncClient) -> None:
    async with serving(half_closing_after(BEGUN + b"0\r\n\r\n")) as (server, url):
        assert [(await client.post(url, content=b"ask")).text for _ in range(2)] == ["ok", "ok"]
    assert server.requests == [1, 1]


async def test_a_server_that_is_too_fast_is_held_back(client: httpx.AsyncClient) -> None:
    written = 0

    async def large(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE)
        while written < LARGE:
            writer.write(b"x" * (1 << 16))
            await writer.drain()
            written += 1 << 16

    async with serving(large) as (_, url), client.stream("POST", url, content=b"ask") as answer:
        before = -1
        while before != written:
            before = written
            for _ in range(100):
                await asyncio.sleep(0)
        assert written < LARGE / 2, "what was sent is what the system holds between the two"
        read = 0
        async for data in answer.aiter_raw():
            read += len(data)
        assert read == LARGE


class CountingSelector(selectors.DefaultSelector):
    """Counts how often a loop looks for something to do."""

    turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        return super().select(timeout)


def test_what_nobody_reads_yet_does_not_wake_the_loop() -> None:
    selector = CountingSelector()
    asked, said = asyncio.Event(), asyncio.Event()

    async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(BEGUN)
        await asked.wait()
        writer.write(b"4\r\nmore\r\n")
        said.set()
        await reader.readexactly(1)

    async def leave_unread() -> int:
        transport = LoadTransport()
        async with (
            serving(later) as (_, url),
            httpx.AsyncClient(transport=transport) as client,
            client.stream("POST", url, content=b"ask"),
        ):
            asked.set()
            await said.wait()
            before = selector.turns
            await asyncio.sleep(0.05)
            return selector.turns - before

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        assert runner.run(leave_unread()) < 10


async def test_a_small_write_is_not_held_back_for_the_next() -> None:
    """The head and the body of a request are two writes: Nagle's algorithm would part them by 40 ms."""
    async with serving(whole) as (_, url):
        with await connected("127.0.0.1", httpx.URL(url).port or 0) as sock:
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_request_may_be_larger_than_the_system_takes_at_once(client: httpx.AsyncClient) -> None:
    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rest = LARGE - 3
        while rest:
            rest -= (await reader.read(min(rest, 1 << 16))).count(b"x")
        writer.write(WHOLE)

    async with serving(count) as (_, url):
        assert (await client.post(url, content=b"ask" + b"x" * (LARGE - 3))).text == "ok"


async def test_nobody_listening_is_told_in_the_words_of_the_system(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.ConnectError, match=r"^Connection refused$"):
        await client.post("http://127.0.0.1:9/")


async def test_an_unknown_host_is_told(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(httpx.ConnectError, match=r"^Name or service not known$"):
        await client.post("http://nowhere.invalid/")


async def test_the_second_address_of_a_host_is_tried_when_the_first_refuses(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(_host: object, port: int, *_: object) -> list[object]:
        first = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
        return [first, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async with serving(whole) as (_, url):
        monkeypatch.setattr(socket, "getaddrinfo", both)
        assert (await client.post(url.replace("127.0.0.1", "localhost"), content=b"ask")).text == "ok"


async def test_a_cut_while_it_connects_leaves_no_socket(client: httpx.AsyncClient) -> None:
    """A listener whose queue is full answers nobody."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as queue:
        address = listener.getsockname()
        for _ in range(2):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        before = open_sockets()
        task = asyncio.create_task(client.post(f"http://127.0.0.1:{address[1]}/"))
        await eventually(lambda: open_sockets() > before, "it does not connect")
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert open_sockets() == before
