"""Which key a host must show: known_hosts as sshd(8) describes it under SSH_KNOWN_HOSTS FILE FORMAT.

Read here rather than by asyncssh, which raises the same error for an unknown, a changed and a revoked key,
forgets `@revoked [host]:port` lines, and trusts a key that is known only for the address. Nothing is asked or
stored: accepting a key is a decision, made once with ssh(1).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from console.domain.errors import HostKeyChanged, HostKeyUnknown

DEFAULT_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts")

PLAIN_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
CERTIFICATE_SUFFIX = "-cert-v01@openssh.com"


class PublicKey(msgspec.Struct, frozen=True):
    """A public key: its type as in `ssh-ed25519`, and its wire form."""

    key_type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As ssh-keygen(1) prints it: `ED25519 SHA256:…`."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"{self.short_type} SHA256:{digest}"

    @property
    def short_type(self) -> str:
        """`ED25519`, `ECDSA` or `RSA`."""
        return self.key_type.removeprefix("ssh-").partition("-")[0].upper()

    def line(self) -> str:
        """As in a key file: `ssh-ed25519 AAAA…`."""
        return f"{self.key_type} {base64.b64encode(self.blob).decode()}"


class KnownKey(msgspec.Struct, frozen=True):
    """One line of a known_hosts file."""

    marker: str
    """`@cert-authority`, `@revoked` or empty."""
    names: str
    """Comma-separated patterns, or one hashed name."""
    key: PublicKey
    place: str
    """`FILE:LINE`."""

    def matches(self, name: str) -> bool:
        """Whether the line is about `name`, which is `host` or `[host]:port`."""
        if self.names.startswith("|"):
            return _is_hash_of(name, self.names)
        patterns = self.names.lower().split(",")
        refused = any(_glob(pattern[1:], name) for pattern in patterns if pattern.startswith("!"))
        return not refused and any(_glob(pattern, name) for pattern in patterns)


class HostTrust(msgspec.Struct, frozen=True):
    """What known_hosts says about one host."""

    name: str
    """As looked up: `host` or `[host]:port`."""
    keys: tuple[KnownKey, ...] = ()
    keys_of_any_port: tuple[KnownKey, ...] = ()
    """Known for the host without a port. They serve a port that has no keys of its own, as in ssh(1)."""
    authorities: tuple[KnownKey, ...] = ()
    revoked: tuple[KnownKey, ...] = ()

    @property
    def trusted(self) -> tuple[KnownKey, ...]:
        """The keys that the host may show."""
        return self.keys or self.keys_of_any_port

    def algorithms(self) -> list[str]:
        """The algorithms to ask for: those of known keys first, so that one of these is shown."""
        known = {entry.key.key_type for entry in self.trusted}
        plain = sorted(PLAIN_ALGORITHMS, key=lambda name: _key_type(name) not in known)
        certificates = [name + CERTIFICATE_SUFFIX for name in PLAIN_ALGORITHMS] if self.authorities else []
        return certificates + plain

    def refuse(self, shown: PublicKey, where: str, accept: str) -> HostKeyUnknown | HostKeyChanged:
        """The error for a key that is not trusted; `accept` is the command that lets a person accept it."""
        if self.keys:
            return self._changed(shown, where, accept)
        cause = f"no known_hosts file has a key for {self.name}"
        if self.authorities:
            cause = f"{self.authorities[0].place} wants a certificate, and the host showed a plain key"
        key_file = f"/etc/ssh/ssh_host_{shown.short_type.lower()}_key.pub"
        return HostKeyUnknown(
            f"the host key is not known: {shown.fingerprint}",
            where=where,
            cause=cause,
            next_step=f"compare it with the host's own (`ssh-keygen -lf {key_file}` there), "
            f"then run `{accept}` once and accept it",
        )

    def refuse_authority(self, authority: PublicKey, where: str) -> HostKeyUnknown:
        """The error for a host certificate signed by somebody unknown."""
        return HostKeyUnknown(
            f"the host's certificate is signed by an unknown authority: {authority.fingerprint}",
            where=where,
            cause=f"known_hosts names other authorities for {self.name}",
            next_step=f"add `@cert-authority {self.name} {authority.line()}` to known_hosts if you trust it",
        )

    def refuse_unverifiable(self, said: str, where: str) -> HostKeyUnknown | HostKeyChanged:
        """The error for what asyncssh refuses without showing the key: revoked keys and bad certificates."""
        if "revoked" in said:
            return self.refuse_revoked(where)
        return HostKeyUnknown("the host's certificate is not valid", where=where, cause=said)

    def refuse_revoked(self, where: str) -> HostKeyChanged:
        """The error for a revoked key."""
        return HostKeyChanged(
            "the host key is revoked",
            where=where,
            cause=f"marked @revoked at {', '.join(entry.place for entry in self.revoked)}",
            next_step="do not connect; ask who revoked it",
        )

    def _changed(self, shown: PublicKey, where: str, accept: str) -> HostKeyChanged:
        known = next((entry for entry in self.keys if entry.key.key_type == shown.key_type), self.keys[0])
        file = known.place.rpartition(":")[0]
        return HostKeyChanged(
            f"HOST KEY CHANGED to {shown.fingerprint}, known is {known.key.fingerprint} ({known.place})",
            where=where,
            cause="the host was reinstalled, or somebody is in between",
            next_step=f"only if you know why: `ssh-keygen -R '{self.name}' -f {file}`, then `{accept}`",
        )


def trust_for(files: Iterable[str], host: str, port: int) -> HostTrust:
    """What `files` say about `host`; a file that is not there says nothing. Raises OSError."""
    entries = [entry for file in files for entry in read_known_hosts(file)]
    plain = host.lower()
    name = plain if port == 22 else f"[{plain}]:{port}"
    here = [entry for entry in entries if entry.matches(name)]
    anywhere = [entry for entry in entries if entry.matches(plain)]
    return HostTrust(
        name=name,
        keys=_marked("", here),
        keys_of_any_port=_marked("", anywhere),
        authorities=_marked("@cert-authority", here) or _marked("@cert-authority", anywhere),
        revoked=_marked("@revoked", [*here, *anywhere]),
    )


def _marked(marker: str, entries: list[KnownKey]) -> tuple[KnownKey, ...]:
    return tuple(dict.fromkeys(entry for entry in entries if entry.marker == marker))


def read_known_hosts(file: str) -> list[KnownKey]:
    """The lines of one file; lines that make no sense are passed over, as ssh(1) does. Raises OSError."""
    try:
        text = Path(os.path.expanduser(file)).read_text("utf-8", "replace")
    except FileNotFoundError:
        return []
    lines = enumerate(text.splitlines(), start=1)
    return [entry for number, line in lines if (entry := _known_key(line, f"{file}:{number}"))]


def _known_key(line: str, place: str) -> KnownKey | None:
    fields = line.split()
    marker = fields.pop(0) if line.lstrip().startswith("@") else ""
    if len(fields) < 3 or fields[0].startswith("#") or marker not in ("", "@cert-authority", "@revoked"):
        return None
    try:
        blob = base64.b64decode(fields[2], validate=True)
    except ValueError:
        return None
    return KnownKey(marker, fields[0], PublicKey(fields[1], blob), place)


def _is_hash_of(name: str, hashed: str) -> bool:
    """HMAC-SHA1 of the name under a random salt: `|1|SALT|HASH`, both base64."""
    try:
        _, magic, salt, digest = hashed.split("|")
        expected = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
        return magic == "1" and hmac.compare_digest(expected, base64.b64decode(digest))
    except ValueError:
        return False


def _glob(pattern: str, name: str) -> bool:
    """Only `*` and `?` are special: in `[host]:port` the brackets stand for themselves."""
    parts = (".*" if char == "*" else "." if char == "?" else re.escape(char) for char in pattern)
    return re.fullmatch("".join(parts), name) is not None


def _key_type(algorithm: str) -> str:
    return "ssh-rsa" if algorithm.startswith("rsa-") else algorithm
