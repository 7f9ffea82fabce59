"""Which keys to log in with, in which order, and why others cannot be used.

Done here rather than by asyncssh, which gives up on an encrypted key file though the agent holds that key,
and on a file that is missing. Nothing asks for a passphrase: an encrypted key is used through the agent.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import asyncssh
import msgspec

from console.remote.ssh.background import in_background

DEFAULT_FILES = tuple(
    f"~/.ssh/{name}" for name in ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
)
AGENT_LIMIT_S = 3.0
"""An agent that does not answer must not use up the time of the login."""


class IdentityRules(msgspec.Struct, frozen=True, kw_only=True):
    """What ssh_config says about keys."""

    files: tuple[str, ...] | None = None
    """IdentityFile; None when the default files are to be tried."""
    certificates: tuple[str, ...] = ()
    only_files: bool = False
    """IdentitiesOnly: keys of the agent are offered only where a file names them."""
    agent: str = ""
    """The agent's socket; empty for no agent."""


class Offer(msgspec.Struct, frozen=True):
    """A key to log in with, and what people call it."""

    pair: asyncssh.SSHKeyPair
    label: str


class KeyFile(msgspec.Struct, frozen=True):
    """A file named by IdentityFile, as found."""

    path: str
    pairs: tuple[asyncssh.SSHKeyPair, ...] = ()
    """What can be offered from the file itself, certificates first."""
    identities: frozenset[bytes] = frozenset()
    """The wire forms of its public key and certificates, by which the agent's copies are found."""
    problem: str = ""
    """Why the file itself is of no use, as a clause."""
    encrypted: bool = False

    def offers(self, held: Sequence[Offer]) -> list[Offer]:
        """Its own keys, or else the agent's copies of them."""
        if self.pairs:
            return [Offer(pair, self.path) for pair in self.pairs]
        return [Offer(offer.pair, f"{self.path} (through the agent)") for offer in held if self.names(offer)]

    def names(self, offer: Offer) -> bool:
        """Whether this key of the agent is this file's."""
        return offer.pair.key_public_data in self.identities


class Identities(msgspec.Struct, frozen=True):
    """The keys to offer, in order, and what kept others from being offered."""

    offers: tuple[Offer, ...] = ()
    problems: tuple[str, ...] = ()
    """A clause for each file, and for the agent."""
    locked: str | None = None
    """The first key file that only its passphrase, or an agent, would open."""


@contextlib.asynccontextmanager
async def find_identities(rules: IdentityRules) -> AsyncIterator[Identities]:
    """Read the key files and ask the agent, whose keys are of use until this is left.

    A server may allow only six tries, so keys that ssh_config names, or that both a default file and the
    agent have, come first; then the agent's others; then what is only in a default file. So does ssh(1), but
    that it puts the agent's others before a named file that is not in the agent.
    """
    files = await in_background(lambda: _read_files(rules))
    async with contextlib.AsyncExitStack() as until_left:
        held, problem = await _ask_agent(rules.agent, until_left)
        useless = [file for file in files if not file.offers(held)]
        problems = [f"{file.path} {file.problem}" for file in useless]
        yield Identities(
            offers=tuple(_in_order(rules, files, held)),
            problems=(*problems, problem) if problem else tuple(problems),
            locked=next((file.path for file in useless if file.encrypted), None),
        )


def _in_order(rules: IdentityRules, files: Sequence[KeyFile], held: Sequence[Offer]) -> list[Offer]:
    first = [file for file in files if rules.files is not None or any(map(file.names, held))]
    last = [file for file in files if file not in first]
    others = [offer for offer in held if not any(file.names(offer) for file in files)]
    return [
        *(offer for file in first for offer in file.offers(held)),
        *([] if rules.only_files else others),
        *(offer for file in last for offer in file.offers(held)),
    ]


def read_key_file(path: str, certificates: tuple[str, ...] = ()) -> KeyFile:
    """Find out what a key file offers. Never raises: what is wrong becomes its `problem`."""
    expanded = Path(os.path.abspath(os.path.expanduser(path)))
    identities = _identities_of(expanded, certificates)
    encrypted = False
    try:
        pairs = asyncssh.load_keypairs([str(expanded)], certlist=_certificates(certificates))
        return KeyFile(path, tuple(pairs), identities)
    except FileNotFoundError:
        problem = "does not exist"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except ValueError as error:
        encrypted = str(error).startswith("Passphrase")
        problem = "is encrypted and no agent has it" if encrypted else _unusable(path, error)
    return KeyFile(path, (), identities, problem, encrypted)


def _unusable(path: str, error: ValueError) -> str:
    return "is a public key and no agent has it" if path.endswith(".pub") else f"cannot be used: {error}"


def _read_files(rules: IdentityRules) -> tuple[KeyFile, ...]:
    if rules.files is not None:
        return tuple(read_key_file(path, rules.certificates) for path in rules.files)
    existing = [path for path in DEFAULT_FILES if Path(os.path.abspath(os.path.expanduser(path))).exists()]
    return tuple(read_key_file(path, rules.certificates) for path in existing)


async def _ask_agent(socket: str, until_left: contextlib.AsyncExitStack) -> tuple[list[Offer], str]:
    """The keys that the agent holds, or why it is of no use."""
    if not socket:
        return [], ""
    try:
        async with asyncio.timeout(AGENT_LIMIT_S):
            agent = await until_left.enter_async_context(await asyncssh.connect_agent(socket))
            return [_offer_of_agent(pair) for pair in await agent.get_keys()], ""
    except TimeoutError:
        return [], f"the agent at {socket} does not answer"
    except (OSError, ValueError) as error:
        return [], f"the agent at {socket} cannot be used: {error}"


def _offer_of_agent(pair: asyncssh.SSHKeyPair) -> Offer:
    return Offer(pair, f"{pair.get_comment(errors='replace') or pair.get_algorithm()} of the agent")


def _identities_of(path: Path, certificates: tuple[str, ...]) -> frozenset[bytes]:
    own = {certificate.public_data for certificate in _certificates((f"{path}-cert.pub", *certificates))}
    public = _public_half(path)
    return frozenset(own | {public}) if public else frozenset(own)


def _certificates(paths: Sequence[str]) -> list[asyncssh.SSHCertificate]:
    found = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            found.append(asyncssh.read_certificate(Path(os.path.abspath(os.path.expanduser(path)))))
    return found


def _public_half(path: Path) -> bytes | None:
    """From FILE.pub, or the file itself if it is public, or the clear part of an OpenSSH private key."""
    for place in (Path(f"{path}.pub"), path):
        with contextlib.suppress(OSError, ValueError):
            return bytes(asyncssh.read_public_key(place).public_data)
    return _public_half_of_private(path)


def _public_half_of_private(path: Path) -> bytes | None:
    """PROTOCOL.key of OpenSSH: magic, cipher, kdf, kdf options, number of keys, first public key."""
    try:
        body = path.read_text("ascii").split("-----BEGIN OPENSSH PRIVATE KEY-----")[1].split("-----END")[0]
        data = base64.b64decode(body).removeprefix(b"openssh-key-v1\0")
    except (OSError, ValueError, IndexError):
        return None
    for _ in ("cipher", "kdf", "kdf options"):
        _, data = _string(data)
    public, _ = _string(data[4:])
    return public or None


def _string(data: bytes) -> tuple[bytes, bytes]:
    """RFC 4251 section 5: four bytes of length, then the string; and what follows it."""
    end = 4 + int.from_bytes(data[:4], "big")
    return data[4:end], data[end:]
