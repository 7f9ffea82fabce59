"""This machine as the host."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.domain.errors import ConnectionFailed, ConnectionLost
from console.remote.local import LocalHost
from tests.integration.sshd import free_port
from tests.integration.waiting import eventually, read_until, wait_until


def alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_shell_takes_a_script_and_gives_its_output_and_its_end() -> None:
    host = LocalHost()
    await host.connect()
    shell = await host.run_shell()
    await shell.write(b"pwd; echo oops >&2; exit 7\n")
    assert (await read_until(shell, b"\n")).decode().strip() == os.environ["HOME"]
    assert await shell.read(1) == b""
    assert shell.at_eof()
    assert await shell.ended() == "exited with status 7: oops"
    await host.close()


async def test_a_killed_shell_is_told_by_its_signal() -> None:
    host = LocalHost()
    shell = await host.run_shell()
    await shell.write(b"echo $$; kill -9 $$\n")
    shell_pid = int(await read_until(shell, b"\n"))
    assert await shell.read(1) == b""
    assert await shell.ended() == "was ended by SIGKILL"
    await eventually(lambda: not alive(shell_pid), "the shell is still there")
    with pytest.raises(ConnectionLost):
        await shell.write(b"echo\n")
    await host.close()


async def test_every_byte_arrives_both_ways() -> None:
    sent = os.urandom(2_000_000)
    host = LocalHost()
    shell = await host.run_shell()
    await shell.write(b"echo ready; exec cat\n")
    assert await read_until(shell, b"\n") == b"ready\n"

    async def receive() -> bytes:
        seen = b""
        while len(seen) < len(sent):
            seen += await shell.read(20_000)
        return seen

    _, received = await asyncio.gather(shell.write(sent), receive())
    assert received == sent
    await host.close()


async def test_a_shell_is_a_session_of_its_own() -> None:
    """Ctrl+C in the console's terminal must not reach it."""
    host = LocalHost()
    shell = await host.run_shell()
    await shell.write(b"echo $$\n")
    pid = int(await read_until(shell, b"\n"))
    assert os.getsid(pid) == pid != os.getsid(0)
    await host.close()


@pytest.mark.parametrize("program", ["exec cat >/dev/null", "trap '' TERM HUP; sleep 60 & wait"])
async def test_closing_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Neither a program that ends with its stdin, nor one that does not care."""
    monkeypatch.setattr("console.remote.local.GRACE_S", 0.3)
    host = LocalHost()
    shell = await host.run_shell()
    await shell.write(f"echo $$; {program}\n".encode())
    pid = int(await read_until(shell, b"\n"))
    await host.close()
    assert not alive(pid)
    assert await shell.read(100) == b""


async def test_closing_only_the_shell_ends_it_too() -> None:
    host = LocalHost()
    shell = await host.run_shell()
    await shell.write(b"echo $$; exec cat\n")
    pid = int(await read_until(shell, b"\n"))
    shell.close()
    shell.close()
    await eventually(lambda: not alive(pid), "the shell is still there")
    await host.close()


def test_a_console_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from console.remote.local import LocalHost\n"
        "async def main():\n"
        "    shell = await LocalHost().run_shell()\n"
        "    await shell.write(b'echo $$; exec cat >/dev/null\\n')\n"
        "    print((await shell.read(100)).decode(), flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    console = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert console.stdout
    with console.stdout:
        pid = int(console.stdout.readline())
    assert alive(pid)
    console.kill()
    console.wait()
    wait_until(lambda: not alive(pid), "the shell is still there")


async def test_tcp() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    host = LocalHost()
    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    async with server:
        stream = await host.open_tcp("127.0.0.1", server.sockets[0].getsockname()[1])
        await stream.write(b"hello\n")
        assert await read_until(stream, b"\n") == b"HELLO\n"
        assert await stream.read(1) == b""
        assert stream.at_eof()
        await host.close()


async def test_a_refused_target_is_told_with_its_reason() -> None:
    port = free_port()
    with pytest.raises(ConnectionFailed, match=f"^local: 127.0.0.1:{port}: Connection refused"):
        await LocalHost().open_tcp("127.0.0.1", port)
