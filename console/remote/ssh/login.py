"""One hop: the socket, the greeting, the host key, the login; and how far it came when it failed."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import asyncssh
import msgspec

from console.domain.errors import HostError
from console.remote.ssh.background import in_background
from console.remote.ssh.dial import ProxyCommand, dial, resolve
from console.remote.ssh.errors import ENDED, Stage, detail, explain, login_refused
from console.remote.ssh.host_keys import HostTrust, KnownKey, PublicKey, trust_for
from console.remote.ssh.identities import Identities, Offer, find_identities
from console.remote.ssh.route import Hop

CIPHERS = "^aes128-gcm@openssh.com"
"""First, for it costs half the processor time of the default chacha20 and is nearly twice as fast."""


class Keepalive(msgspec.Struct, frozen=True):
    """A host that says nothing for `interval_s` times `count` and one interval more counts as lost."""

    interval_s: float = 5.0
    count: int = 3


class Login(asyncssh.SSHClient):
    """A login to one hop: what asyncssh asks of it, and what it came to."""

    def __init__(self, hop: Hop, command: str, via: Login | None = None) -> None:
        self.hop = hop
        self.connection: asyncssh.SSHClientConnection | None = None
        """The connection, once logged in."""
        self.loss = ""
        """Why the connection was lost."""
        self._command = command
        self._via = via
        self._proxy = ProxyCommand(hop.proxy_command) if hop.proxy_command else None
        self._stage: Stage = "keys"
        self._trust = HostTrust(hop.host)
        self._identities = Identities()
        self._offers: Iterator[Offer] = iter(())
        self._tried: list[str] = []
        self._password_asked = False
        self._key_refused: HostError | None = None
        self._speaking: asyncssh.SSHClientConnection | None = None

    async def open(self, keepalive: Keepalive, limit_s: float) -> None:
        """Connect and log in. Raises FOREIGN errors, for `explain`."""
        hop = self.hop
        self._trust = await in_background(lambda: trust_for(hop.known_hosts, hop.key_name, hop.key_port))
        async with find_identities(hop.identities) as self._identities:
            self._offers = iter(self._identities.offers)
            sock = await self._reach()
            try:
                self.connection = await self._log_in(sock, keepalive, limit_s)
            except BaseException:
                if sock:
                    sock.close()
                raise

    async def explain(self, error: Exception) -> HostError:
        """The HostError for what `open` raised."""
        if self._key_refused:
            return self._key_refused
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return self._trust.refuse_unverifiable(str(error), str(self.hop))
        if isinstance(error, asyncssh.PermissionDenied) or "Too many authentication failures" in str(error):
            return login_refused(
                error,
                self.hop,
                tried=self._tried,
                problems=self._identities.problems,
                locked=self._identities.locked,
                password=self._password_asked,
            )
        return explain(
            error,
            self._stage_reached(),
            self.hop,
            command=self._command,
            via=str(self._via.hop) if self._via else "",
            proxy_end=await self._proxy.why() if self._proxy and isinstance(error, ENDED) else "",
        )

    async def close(self) -> None:
        """End the connection and what it ran through."""
        if self.connection:
            self.connection.close()
            await self.connection.wait_closed()
        if self._proxy:
            await self._proxy.close()

    async def _reach(self) -> socket.socket | None:
        """A socket to speak SSH on; None if that is to be a channel of the hop before."""
        if self._via:
            self._stage = "jump"
            return None
        if self._proxy:
            self._stage = "proxy"
            return await self._proxy.start()
        self._stage = "name"
        addresses = await resolve(self.hop.host, self.hop.port, self.hop.family)
        self._stage = "tcp"
        return await dial(addresses, self.hop.bind)

    async def _log_in(
        self, sock: socket.socket | None, keepalive: Keepalive, limit_s: float
    ) -> asyncssh.SSHClientConnection:
        trust = self._trust
        settings = dict(self.hop.settings)
        if not self.hop.own_ciphers:
            settings["encryption_algs"] = CIPHERS
        if not self.hop.own_host_key_algorithms:
            settings["server_host_key_algs"] = trust.algorithms()
        return await asyncssh.connect(
            **settings,
            sock=sock,
            tunnel=self._via.connection if self._via else None,
            proxy_command=None,
            client_factory=lambda: self,
            client_keys=None,
            known_hosts=tuple(map(_importable, (trust.trusted, trust.authorities, trust.revoked))),
            x509_trusted_certs=None,
            agent_forwarding=False,
            # SshHost sets the limit; asyncssh's wait_for would, before Python 3.12, swallow a cancellation
            # that comes with the end of the login.
            connect_timeout=None,
            login_timeout=limit_s,
            keepalive_interval=keepalive.interval_s,
            keepalive_count_max=keepalive.count,
        )

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """asyncssh: there is something to speak SSH on."""
        self._speaking = conn
        if not self._proxy:
            self._stage = "greeting"

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """asyncssh: the host shows a key that is not trusted."""
        self._key_refused = self._trust.refuse(_public(key), str(self.hop), self._command)
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """asyncssh: the host shows a certificate of an authority that is not trusted."""
        self._key_refused = self._trust.refuse_authority(_public(key), str(self.hop))
        return False

    def begin_auth(self, username: str) -> None:
        """asyncssh: the host key is good."""
        self._stage = "login"

    def public_key_auth_requested(self) -> asyncssh.SSHKeyPair | None:
        """asyncssh: the host wants a key, or another one."""
        offer = next(self._offers, None)
        if not offer:
            return None
        self._tried.append(offer.label)
        return offer.pair

    def password_auth_requested(self) -> None:
        """asyncssh: the host would take a password."""
        self._password_asked = True

    def kbdint_auth_requested(self) -> None:
        """asyncssh: the host would ask questions."""
        self._password_asked = True

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncssh: the connection is gone."""
        self.loss = detail(exc) if exc else "it was closed"

    def _stage_reached(self) -> Stage:
        greeted = self._speaking and self._speaking.get_extra_info("server_version")
        return "key exchange" if greeted and self._stage in ("greeting", "proxy") else self._stage


def _public(key: asyncssh.SSHKey) -> PublicKey:
    return PublicKey(key.get_algorithm(), key.public_data)


def _importable(known: tuple[KnownKey, ...]) -> list[asyncssh.SSHKey]:
    """The keys of a type that asyncssh can check."""
    keys = []
    for entry in known:
        with contextlib.suppress(asyncssh.KeyImportError):
            keys.append(asyncssh.import_public_key(entry.key.line()))
    return keys
