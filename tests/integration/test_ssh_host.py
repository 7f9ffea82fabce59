"""What works over SSH, against a real sshd."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console.domain.errors import ConnectionFailed, ConnectionLost
from console.remote.ssh import Keepalive, SshHost
from tests.integration.sshd import SshServer
from tests.integration.waiting import PATIENCE_S, eventually, read_until


@pytest.fixture
async def host(ssh_server: SshServer) -> AsyncIterator[SshHost]:
    host = SshHost("gpu-box", keepalive=Keepalive(0.5, 2), open_limit_s=1.0)
    await host.connect()
    yield host
    await host.close()


async def test_a_shell_takes_a_script_and_gives_its_output_and_its_end(host: SshHost) -> None:
    shell = await host.run_shell()
    await shell.write(b"echo one; echo oops >&2; exit 7\n")
    assert await read_until(shell, b"\n") == b"one\n"
    assert await shell.read(100) == b""
    assert shell.at_eof()
    assert await shell.ended() == "exited with status 7: oops"


async def test_the_address_says_who_and_where(host: SshHost, ssh_server: SshServer) -> None:
    assert host.address == f"{ssh_server.user}@127.0.0.1:{ssh_server.port}"


async def test_every_byte_arrives_both_ways(host: SshHost) -> None:
    """A byte that is no UTF-8 must not close the connection, nor a reader that is slower than the writer."""
    sent = secrets.token_bytes(3_000_000) + bytes(range(256))
    shell = await host.run_shell()
    await shell.write(b"echo ready; exec cat\n")
    assert await read_until(shell, b"\n") == b"ready\n"

    async def receive() -> bytes:
        seen = b""
        while len(seen) < len(sent):
            seen += await shell.read(20_000)
        return seen

    async with asyncio.timeout(PATIENCE_S):
        _, received = await asyncio.gather(shell.write(sent), receive())
    assert received == sent


async def test_a_slow_reader_holds_the_host_back_instead_of_filling_memory(host: SshHost) -> None:
    shell = await host.run_shell()
    await shell.write(b"exec cat /dev/zero\n")
    await shell.read(65536)
    before = resident_bytes()
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        await shell.read(65536)
        await asyncio.sleep(0.005)
    assert resident_bytes() - before < 8_000_000


async def test_a_paused_reader_does_not_delay_another_channel(host: SshHost) -> None:
    flood = await host.run_shell()
    await flood.write(b"exec cat /dev/zero\n")
    await flood.read(1)
    other = await host.run_shell()
    await other.write(b"echo here\n")
    async with asyncio.timeout(2):
        assert await read_until(other, b"here") == b"here\n"


@pytest.mark.parametrize("ending", ["close", "kill connection"])
async def test_a_program_that_watches_its_stdin_is_not_left_behind(
    host: SshHost, ssh_server: SshServer, ending: str
) -> None:
    shell = await host.run_shell()
    await shell.write(b"echo $$; exec cat >/dev/null\n")
    pid = int(await read_until(shell, b"\n"))
    if ending == "close":
        shell.close()
    else:
        await host.close()
    await eventually(lambda: not alive(pid), "the program is still there")


async def test_closing_the_host_ends_its_channels_and_its_session(
    host: SshHost, ssh_server: SshServer
) -> None:
    shell = await host.run_shell()
    await host.close()
    assert await shell.read(1) == b""
    with pytest.raises(ConnectionLost):
        await shell.write(b"echo\n")
    with pytest.raises(ConnectionLost, match="no connection"):
        await host.run_shell()
    await eventually(lambda: not ssh_server.sessions(), "sshd still serves")


async def test_a_killed_program_is_told_by_its_signal(host: SshHost) -> None:
    shell = await host.run_shell()
    await shell.write(b"kill -9 $$\n")
    assert await shell.read(1) == b""
    assert await shell.ended() == "was ended by SIGKILL"


async def test_a_program_that_only_closed_its_output_is_told_from_one_that_ended(host: SshHost) -> None:
    shell = await host.run_shell()
    await shell.write(b"exec sleep 5 >&- 2>&-\n")
    assert await shell.read(1) == b""
    assert await shell.ended() == "closed its output, but still runs"


async def test_tcp_from_the_host(host: SshHost) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    async with server:
        stream = await host.open_tcp("127.0.0.1", server.sockets[0].getsockname()[1])
        await stream.write(b"hello\n")
        assert await read_until(stream, b"\n") == b"HELLO\n"
        assert await stream.read(1) == b""
        assert stream.at_eof()
        stream.close()


async def test_a_refused_target_is_told_with_its_reason(host: SshHost) -> None:
    with pytest.raises(ConnectionFailed, match=r"^gpu-box: 127.0.0.1:1: Connection refused"):
        await host.open_tcp("127.0.0.1", 1)


async def test_many_connections_are_not_bounded_by_max_sessions(host: SshHost) -> None:
    ended = []

    async def until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(until_closed, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        streams = await asyncio.gather(*(host.open_tcp("127.0.0.1", port) for _ in range(20)))
        for stream in streams:
            stream.close()
        await eventually(lambda: len(ended) == 20, "the host holds connections open")


async def test_forbidden_forwarding_is_told_with_the_setting(ssh_server: SshServer) -> None:
    ssh_server.options["AllowTcpForwarding"] = "no"
    ssh_server.restart()
    host = SshHost("gpu-box")
    await host.connect()
    with pytest.raises(ConnectionFailed, match=r"forbids forwarding.*AllowTcpForwarding"):
        await host.open_tcp("127.0.0.1", ssh_server.port)
    await host.close()


async def test_the_eleventh_shell_is_refused_in_words(host: SshHost) -> None:
    for _ in range(10):
        await host.run_shell()
    with pytest.raises(ConnectionFailed, match="a shell: open failed"):
        await host.run_shell()


async def test_a_crashed_connection_is_lost_at_once(host: SshHost, ssh_server: SshServer) -> None:
    shell = await host.run_shell()
    ssh_server.kill_sessions()
    async with asyncio.timeout(2):
        with pytest.raises(ConnectionLost, match=r"Connection (lost|reset)"):
            await shell.read(1)
    assert "connection was lost" in await shell.ended()
    with pytest.raises(ConnectionLost):
        await shell.write(b"echo\n")
    with pytest.raises(ConnectionLost):
        await host.open_tcp("127.0.0.1", 1)


async def test_a_frozen_connection_is_lost_within_the_keepalive_limits(
    host: SshHost, ssh_server: SshServer
) -> None:
    shell = await host.run_shell()
    with ssh_server.frozen():
        start = time.monotonic()
        with pytest.raises(ConnectionLost, match="not responding to keepalive"):
            await shell.read(1)
        assert 1.0 <= time.monotonic() - start < 3.0


async def test_opening_a_channel_has_a_deadline_of_its_own(ssh_server: SshServer) -> None:
    host = SshHost("gpu-box", open_limit_s=0.3)
    await host.connect()
    with ssh_server.frozen():
        start = time.monotonic()
        with pytest.raises(ConnectionLost, match=r"nothing was heard"):
            await host.run_shell()
        with pytest.raises(ConnectionLost, match=r"nothing was heard"):
            await host.open_tcp("127.0.0.1", 1)
        assert time.monotonic() - start < 2
    await host.close()


async def test_a_connection_that_opens_too_late_is_closed(ssh_server: SshServer) -> None:
    """Else each poll of a slow host would leave a connection to its server."""
    host = SshHost("gpu-box", open_limit_s=0.3)
    await host.connect()
    closed = asyncio.Event()

    async def until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        closed.set()
        writer.close()

    server = await asyncio.start_server(until_closed, "127.0.0.1", 0)
    async with server:
        with ssh_server.frozen(), pytest.raises(ConnectionLost):
            await host.open_tcp("127.0.0.1", server.sockets[0].getsockname()[1])
        async with asyncio.timeout(PATIENCE_S):
            await closed.wait()
    await host.close()


async def test_a_restarted_server_is_reached_again_with_the_same_object(
    host: SshHost, ssh_server: SshServer
) -> None:
    ssh_server.restart()
    await host.connect()
    shell = await host.run_shell()
    await shell.write(b"echo back\n")
    assert await read_until(shell, b"\n") == b"back\n"


async def test_reconnects_leave_nothing_behind(ssh_server: SshServer) -> None:
    """Even when the connection crashed: a program that lives on its stdin ends with it."""
    started = []
    for turn in range(10):
        host = SshHost("gpu-box")
        await host.connect()
        shell = await host.run_shell()
        await shell.write(b"echo $$; exec cat >/dev/null\n")
        started.append(int(await read_until(shell, b"\n")))
        if turn % 2:
            ssh_server.kill_sessions()
        await host.close()
    await eventually(lambda: not any(map(alive, started)), "programs are left behind")


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_nothing_is_printed_or_logged(
    ssh_server: SshServer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    host = SshHost("gpu-box")
    await host.connect()
    await host.run_shell()
    ssh_server.kill_sessions()
    await host.close()
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
