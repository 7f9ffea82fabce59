"""The demo's SSH server: loopback only, one user, one key, made for this run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import asyncssh

from console.demo.session import Sessions

HOST = "127.0.0.1"
USERNAME = "demo"
_KEY_TYPE = "ssh-ed25519"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Keys(NamedTuple):
    """Where the client finds what it needs to log in."""

    client_key: Path
    known_hosts: Path


class _Door(asyncssh.SSHServer):
    """Lets in one user by one key, and lets them reach loopback ports."""

    def __init__(self, authorized: asyncssh.SSHAuthorizedKeys) -> None:
        self._authorized = authorized

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        if username == USERNAME:
            self._connection.set_authorized_keys(self._authorized)
        return True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return dest_host in _LOOPBACK


async def listen(folder: Path, sessions: Sessions) -> tuple[asyncssh.SSHAcceptor, Keys]:
    """Start the server on a free loopback port; the keys are written into the folder."""
    host_key, client_key = (asyncssh.generate_private_key(_KEY_TYPE) for _ in range(2))
    authorized = asyncssh.import_authorized_keys(client_key.export_public_key().decode())
    acceptor = await asyncssh.listen(
        HOST,
        0,
        server_factory=lambda: _Door(authorized),
        process_factory=sessions.serve,
        server_host_keys=[host_key],
        encoding=None,
        allow_pty=False,
        agent_forwarding=False,
    )
    keys = Keys(folder / "client_key", folder / "known_hosts")
    client_key.write_private_key(keys.client_key)
    keys.client_key.chmod(0o600)
    public = host_key.export_public_key().decode().strip()
    keys.known_hosts.write_text(f"[{HOST}]:{acceptor.get_port()} {public}\n")
    return acceptor, keys
