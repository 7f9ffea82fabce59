"""HTTP through a host, over SSH and on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from console.remote.host import ByteStream, Host
from console.remote.local import LocalHost
from console.remote.ssh import SshHost
from console.remote.tunnel import HostTransport
from tests.integration.sshd import SshServer, free_port
from tests.integration.waiting import eventually

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HttpServer:
    """A small HTTP/1.1 server, by hand, that counts its connections and can misbehave."""

    def __init__(self) -> None:
        self.connections = 0
        self.open = 0
        self.close_after_answer = False
        self.port = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[HttpServer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self
        await eventually(lambda: not self.open, "connections stay open")

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head.decode(), reader, writer)
                if self.close_after_answer:
                    break
        writer.close()
        self.open -= 1

    async def _answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = head.split()[1]
        if path == "/silence":
            await reader.read()
        elif path == "/stream":
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for number in range(3):
                writer.write(b"8\r\ndata: %d\n\r\n" % number)
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        elif path == "/broken":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
            self.close_after_answer = True
        else:
            size = int(head.lower().partition("content-length:")[2].split("\r\n")[0] or 0)
            body = (await reader.readexactly(size)).upper() or path.encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    async with HttpServer().running() as server:
        yield server


@pytest.fixture(params=["ssh", "local"])
async def host(
    request: pytest.FixtureRequest, server: HttpServer, ssh_server: SshServer
) -> AsyncIterator[Host]:
    host: Host = SshHost("gpu-box", open_limit_s=1.0) if request.param == "ssh" else LocalHost()
    await host.connect()
    yield host
    await host.close()


@pytest.fixture
async def client(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=HostTransport(host), timeout=2.0) as client:
        yield client


async def test_requests_share_a_connection(client: httpx.AsyncClient, server: HttpServer) -> None:
    for number in range(3):
        assert (await client.get(server.url(f"/{number}"))).text == f"/{number}"
    assert (await client.post(server.url("/"), content=b"body" * 50_000)).text == "BODY" * 50_000
    assert server.connections == 1


async def test_concurrent_requests(client: httpx.AsyncClient, server: HttpServer) -> None:
    answers = await asyncio.gather(*(client.get(server.url(f"/{number}")) for number in range(40)))
    assert [answer.text for answer in answers] == [f"/{number}" for number in range(40)]


async def test_events_arrive_one_by_one(client: httpx.AsyncClient, server: HttpServer) -> None:
    async with client.stream("GET", server.url("/stream")) as answer:
        assert [line async for line in answer.aiter_lines()] == ["data: 0", "data: 1", "data: 2"]


class Watched:
    """A host whose streams the test can look at."""

    def __init__(self, host: Host) -> None:
        self.name, self.address = host.name, host.address
        self.connect, self.run_shell, self.close = host.connect, host.run_shell, host.close
        self.streams: list[ByteStream] = []
        self._host = host

    async def open_tcp(self, address: str, port: int) -> ByteStream:
        self.streams.append(await self._host.open_tcp(address, port))
        return self.streams[-1]


async def test_a_server_that_closed_an_idle_connection_is_connected_to_again(
    host: Host, server: HttpServer
) -> None:
    watched = Watched(host)
    async with httpx.AsyncClient(transport=HostTransport(watched)) as client:
        server.close_after_answer = True
        assert (await client.get(server.url("/one"))).text == "/one"
        await eventually(watched.streams[0].at_eof, "the end does not arrive")
        assert (await client.get(server.url("/two"))).text == "/two"
    assert server.connections == 2


async def test_a_refused_connection_has_its_reason(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.ConnectError, match="Connection refused"):
        await client.get(f"http://127.0.0.1:{free_port()}/")


async def test_a_server_that_does_not_answer(client: httpx.AsyncClient, server: HttpServer) -> None:
    with pytest.raises(httpx.ReadTimeout):
        await client.get(server.url("/silence"), timeout=0.2)
    await eventually(lambda: not server.open, "a connection given up stays open")


async def test_a_cancelled_request_leaves_no_connection(
    client: httpx.AsyncClient, server: HttpServer
) -> None:
    asking = asyncio.create_task(client.get(server.url("/silence")))
    await eventually(lambda: server.open, "no connection arrives")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await eventually(lambda: not server.open, "a cancelled connection stays open")


async def test_half_an_answer(client: httpx.AsyncClient, server: HttpServer) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await client.get(server.url("/broken"))


async def test_only_http(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.UnsupportedProtocol):
        await client.get("https://127.0.0.1:1/")


async def test_a_proxy_of_the_environment_is_not_used(
    host: Host, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    async with httpx.AsyncClient(transport=HostTransport(host)) as client:
        assert (await client.get(server.url("/direct"))).text == "/direct"


async def test_a_lost_connection_and_a_frozen_host(server: HttpServer, ssh_server: SshServer) -> None:
    host = SshHost("gpu-box", open_limit_s=5.0)
    await host.connect()
    async with httpx.AsyncClient(transport=HostTransport(host)) as client:
        await client.get(server.url("/"))
        with ssh_server.frozen():
            with pytest.raises(httpx.ReadTimeout):
                await client.get(server.url("/"), timeout=0.2)
            with pytest.raises(httpx.ConnectTimeout):
                await client.get(server.url("/"), timeout=0.2)
        ssh_server.kill_sessions()
        await eventually(lambda: not ssh_server.sessions(), "sshd does not die")
        with pytest.raises((httpx.ConnectError, httpx.ReadError), match="connection was lost"):
            await client.get(server.url("/"))
    await host.close()


async def test_nothing_listens_here(client: httpx.AsyncClient, server: HttpServer) -> None:
    before = listening()
    await client.get(server.url("/"))
    assert listening() == before


def listening() -> set[str]:
    """Local addresses of TCP sockets in state 0A, LISTEN, of proc_net(5)."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as lines:
            found |= {line.split()[1] for line in lines if line.split()[3] == "0A"}
    return found
