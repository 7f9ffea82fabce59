"""Everything between a name and a login that can fail: one sentence, the stage and the hop, no hang."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from console.domain.errors import ConnectionFailed, ConnectionLost
from console.remote.ssh import SshHost
from tests.integration.sshd import SshServer, free_port, public_line
from tests.integration.waiting import PATIENCE_S, eventually, read_until

LIMIT_S = 0.5


async def refusal(alias: str, limit_s: float = 5.0) -> ConnectionFailed:
    """The error of connecting; it must come within the limit and name the alias."""
    start = time.monotonic()
    with pytest.raises(ConnectionFailed) as caught:
        await SshHost(alias, connect_limit_s=limit_s).connect()
    assert time.monotonic() - start < limit_s + 1.5
    assert "Traceback" not in str(caught.value)
    return caught.value


@contextlib.asynccontextmanager
async def impostor(greeting: bytes | None, close: bool = False) -> AsyncIterator[int]:
    """Something that listens and is no SSH server: it says `greeting` for ever, or once and closes."""

    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError):
            while greeting and not close:
                writer.write(greeting)
                await writer.drain()
            if greeting:
                writer.write(greeting)
            if not close:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*filter(None, serving))


async def test_an_unknown_alias(home: Path) -> None:
    error = await refusal("gpu-bxo.invalid")
    assert error.what == "the name gpu-bxo.invalid does not resolve"
    assert error.cause == "~/.ssh/config has no HostName for gpu-bxo.invalid"
    assert "aliases are Host blocks of ~/.ssh/config" in error.next_step


async def test_an_alias_whose_host_name_does_not_resolve(ssh_server: SshServer) -> None:
    ssh_server.add_alias("moved", HostName="gone.invalid")
    error = await refusal("moved")
    assert "gone.invalid" in error.what
    assert error.cause == "it is the HostName of moved in ~/.ssh/config"


async def test_a_closed_port(ssh_server: SshServer) -> None:
    port = free_port()
    ssh_server.add_alias("closed", Port=str(port))
    error = await refusal("closed")
    assert error.what == f"127.0.0.1:{port} refuses connections"
    assert error.where == f"closed (127.0.0.1:{port})"


@pytest.mark.parametrize("port", ["99999", "0"])
async def test_a_port_that_is_none(ssh_server: SshServer, port: str) -> None:
    ssh_server.add_alias("odd", Port=port)
    assert (await refusal("odd")).what == f"port {port} is no port"


async def test_a_config_that_cannot_be_read_is_named_with_its_line(ssh_server: SshServer) -> None:
    ssh_server.config.write_text("Host odd\n    Port twenty-two\n")
    error = await refusal("odd")
    assert f"{ssh_server.config} line 2: Invalid Port integer value: twenty-two" in error.cause


async def test_a_name_server_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait() and [])
    try:
        error = await refusal("gpu-box.example", LIMIT_S)
    finally:
        release.set()
    assert error.what == "the name gpu-box.example does not resolve in time"


def test_a_hanging_name_server_does_not_keep_the_console_from_quitting(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait() and [])
    start = time.monotonic()
    with pytest.raises(ConnectionFailed):
        asyncio.run(SshHost("gpu-box.example", connect_limit_s=0.2).connect())
    assert time.monotonic() - start < 3
    release.set()


async def test_packets_that_are_dropped(ssh_server: SshServer) -> None:
    """A full backlog drops SYNs as a firewall does."""
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        for _ in range(3):
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", port))
        ssh_server.add_alias("dropped", Port=str(port))
        error = await refusal("dropped", LIMIT_S)
    assert error.what == f"127.0.0.1:{port} does not answer"
    assert "VPN" in error.next_step


async def test_a_host_that_accepts_and_stays_silent(ssh_server: SshServer) -> None:
    async with impostor(None) as port:
        ssh_server.add_alias("silent", Port=str(port))
        error = await refusal("silent", LIMIT_S)
    assert error.what == "the host accepts TCP but SSH does not answer"
    assert error.cause.startswith("it is overloaded")


@pytest.mark.parametrize("garbage", [b"\x00\xff\xfe" * 500, b"nothing of note\r\n", b"SSH-1.5-old\r\n"])
async def test_a_port_with_another_service(ssh_server: SshServer, garbage: bytes) -> None:
    async with impostor(garbage) as port:
        ssh_server.add_alias("other", Port=str(port))
        error = await refusal("other")
    assert error.what == f"what answers at 127.0.0.1:{port} is not an SSH server"


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_connection_closed_before_the_greeting(ssh_server: SshServer, greeting: bytes) -> None:
    async with impostor(greeting, close=True) as port:
        ssh_server.add_alias("busy", Port=str(port))
        error = await refusal("busy")
    assert error.what == "the connection was closed before SSH's greeting"
    assert "MaxStartups" in error.cause


async def test_no_cipher_in_common(ssh_server: SshServer) -> None:
    ssh_server.options["Ciphers"] = "aes256-ctr"
    ssh_server.restart()
    ssh_server.add_alias("picky", Ciphers="chacha20-poly1305@openssh.com")
    error = await refusal("picky")
    # sshd sees it too, and its reset may overtake its own offer.
    assert "no algorithm in common" in str(error)
    assert "Ciphers, MACs" in error.next_step


class Undecided(asyncssh.SSHServer):
    """Greets, shows its key, and never says who may come in."""

    async def begin_auth(self, username: str) -> bool:
        await asyncio.Event().wait()
        return True


async def test_a_login_that_does_not_finish(ssh_server: SshServer) -> None:
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Undecided, server_host_keys=[str(ssh_server.host_key)]
    )
    async with server:
        port = server.get_port()
        ssh_server.add_alias("undecided", Port=str(port))
        with ssh_server.known_hosts.open("a") as file:
            file.write(f"[127.0.0.1]:{port} {public_line(ssh_server.host_key)}\n")
        error = await refusal("undecided", LIMIT_S)
    assert error.what == "the login does not finish"
    assert error.next_step == "try `ssh undecided` by hand"


async def test_a_jump_host_whose_target_is_down(ssh_server: SshServer, jump_server: SshServer) -> None:
    port = free_port()
    ssh_server.add_alias("down", Port=str(port), ProxyJump="bastion")
    error = await refusal("down")
    assert error.what == f"jump host bastion (127.0.0.1:{jump_server.port}) cannot reach 127.0.0.1:{port}"
    assert error.cause == "Connection refused"


async def test_a_jump_host_that_forbids_forwarding(ssh_server: SshServer, jump_server: SshServer) -> None:
    jump_server.options["AllowTcpForwarding"] = "no"
    jump_server.restart()
    error = await refusal("behind")
    assert "does not let us through" in error.what
    assert "AllowTcpForwarding" in error.next_step


async def test_a_jump_host_that_is_down(ssh_server: SshServer, jump_server: SshServer) -> None:
    jump_server.stop()
    error = await refusal("behind")
    assert error.where == f"jump host bastion (127.0.0.1:{jump_server.port})"
    assert "refuses connections" in error.what


async def test_a_target_that_is_silent_behind_a_jump_host(
    ssh_server: SshServer, jump_server: SshServer
) -> None:
    async with impostor(None) as port:
        ssh_server.add_alias("mute", Port=str(port), ProxyJump="bastion")
        error = await refusal("mute", 1.5)
    assert error.where == f"mute (127.0.0.1:{port})"
    assert "SSH does not answer" in error.what


async def test_jumps_in_a_circle(ssh_server: SshServer) -> None:
    ssh_server.config.write_text("Host *\n    ProxyJump bastion\n")
    error = await refusal("anything")
    assert "circle" in error.what
    assert "ProxyJump none" in error.next_step


async def test_through_a_jump_host(ssh_server: SshServer, jump_server: SshServer) -> None:
    host = SshHost("behind")
    await host.connect()
    assert host.address == f"{ssh_server.user}@127.0.0.1:{ssh_server.port} via bastion"
    shell = await host.run_shell()
    await shell.write(b"echo $SSH_CONNECTION\n")
    assert str(ssh_server.port).encode() in await read_until(shell, b"\n")
    await host.close()
    await eventually(lambda: not jump_server.sessions(), "the jump connection stays")


async def test_losing_the_jump_host_is_losing_the_host(ssh_server: SshServer, jump_server: SshServer) -> None:
    host = SshHost("behind")
    await host.connect()
    shell = await host.run_shell()
    jump_server.kill_sessions()
    async with asyncio.timeout(3):
        with pytest.raises(ConnectionLost):
            await shell.read(1)
    await host.close()


@pytest.fixture
def relay(tmp_path: Path) -> str:
    """A ProxyCommand that warns on stderr and then relays, as nc would."""
    script = tmp_path / "relay"
    script.write_text(
        f"#!{sys.executable}\n"
        "import os, socket, sys, threading\n"
        "sys.stderr.write('relay: a warning that is no SSH\\n' * 5000); sys.stderr.flush()\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while d := os.read(0, 65536): s.sendall(d)\n"
        "    os._exit(0)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while d := s.recv(65536): os.write(1, d)\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


async def test_a_proxy_command_that_warns(ssh_server: SshServer, relay: str) -> None:
    ssh_server.add_alias("proxied", ProxyCommand=f"{relay} %h %p 2>&2 && true")
    host = SshHost("proxied")
    await host.connect()
    shell = await host.run_shell()
    await shell.write(b"echo through\n")
    assert await read_until(shell, b"\n") == b"through\n"
    await host.close()


async def test_a_proxy_command_that_does_not_exist(ssh_server: SshServer) -> None:
    ssh_server.add_alias("proxied", ProxyCommand="no-such-relay %h %p")
    error = await refusal("proxied")
    assert error.what == "the ProxyCommand ended before SSH's greeting"
    assert "exited with status 127" in error.cause
    assert "no-such-relay: not found" in error.cause
    assert error.next_step == f"run it by hand: no-such-relay 127.0.0.1 {ssh_server.port}"


async def test_a_proxy_command_that_gets_nowhere(ssh_server: SshServer) -> None:
    ssh_server.add_alias("proxied", ProxyCommand="sleep 30")
    error = await refusal("proxied", LIMIT_S)
    assert error.what == "no SSH greeting comes through the ProxyCommand"


async def test_cancelling_a_connect_is_immediate_and_leaves_no_connection(ssh_server: SshServer) -> None:
    arrived, left = asyncio.Event(), asyncio.Event()

    async def wait_in_vain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(wait_in_vain, "127.0.0.1", 0)
    async with server, asyncio.timeout(PATIENCE_S):
        ssh_server.add_alias("silent", Port=str(server.sockets[0].getsockname()[1]))
        connecting = asyncio.create_task(SshHost("silent").connect())
        await arrived.wait()
        start = time.monotonic()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert time.monotonic() - start < 1
        await left.wait()


async def test_a_first_address_that_drops_packets_does_not_use_up_the_time(
    ssh_server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.remote.ssh.dial.ONE_ADDRESS_LIMIT_S", 0.2)
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        both = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", full.getsockname()),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", ssh_server.port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
        host = SshHost("gpu-box", connect_limit_s=5)
        await host.connect()
        await host.close()
