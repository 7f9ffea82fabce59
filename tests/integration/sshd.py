"""A real OpenSSH server on a loopback port, with keys, ssh_config and known_hosts of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.integration.waiting import wait_until

SSHD = "/usr/sbin/sshd"

SERVER_OPTIONS = {
    "UsePAM": "no",
    "StrictModes": "no",
    "PermitRootLogin": "yes",
    "PasswordAuthentication": "no",
    "KbdInteractiveAuthentication": "no",
    "LogLevel": "VERBOSE",
    "PidFile": "none",
    "PrintMotd": "no",
    "MaxStartups": "100",
}


class SshServer:
    """sshd in `folder`: start it, stop it, freeze it, and write the client's files for it.

    `home` is the client's home folder: tests set HOME to it, so that `~/.ssh` is home/.ssh.
    """

    def __init__(self, folder: Path, home: Path, options: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.home = home
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.port = free_port()
        self.options = {**SERVER_OPTIONS, **(options or {})}
        self.host_key = folder / "host_ed25519"
        self.client_key = home / ".ssh" / "id_ed25519"
        self.config = home / ".ssh" / "config"
        self.known_hosts = home / ".ssh" / "known_hosts"
        self._daemon: subprocess.Popen[bytes] | None = None
        self._prepare()

    def start(self) -> None:
        """Start and wait until it accepts connections."""
        lines = [f"{name} {value}" for name, value in self.options.items()]
        config = self.folder / "sshd_config"
        config.write_text("\n".join([*lines, ""]))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        command = [SSHD, "-D", "-e", "-f", str(config), "-h", str(self.host_key)]
        command += ["-o", f"ListenAddress=127.0.0.1:{self.port}"]
        command += ["-o", f"AuthorizedKeysFile={self.folder / 'authorized_keys'}"]
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._accepts, f"sshd does not start: {self.log.read_text()}")

    def stop(self) -> None:
        """Stop listening and end every connection."""
        if not self._daemon:
            return
        self.kill_sessions()
        self._daemon.kill()
        self._daemon.wait()
        self._daemon = None

    def restart(self) -> None:
        """Stop and start again on the same port."""
        self.stop()
        self.start()

    @property
    def log(self) -> Path:
        """What sshd says."""
        return self.folder / "sshd.log"

    def sessions(self) -> list[int]:
        """The sshd processes of open connections, not what they run."""
        if not self._daemon:
            return []
        return [pid for pid in descendants(self._daemon.pid) if _name(pid).startswith("sshd")]

    def kill_sessions(self) -> None:
        """End every connection without a word, as a crash would. What they run lives on."""
        self._signal(signal.SIGKILL)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing is answered on open connections, as when the network drops every packet."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def trust(self) -> None:
        """Put the host key into the client's known_hosts."""
        with self.known_hosts.open("a") as file:
            file.write(f"[127.0.0.1]:{self.port} {public_line(self.host_key)}\n")

    def authorize(self, key: Path) -> None:
        """Let `key` in."""
        with (self.folder / "authorized_keys").open("a") as file:
            file.write(key.with_name(f"{key.name}.pub").read_text())

    def add_alias(self, alias: str, **options: str) -> None:
        """Add a Host block to the client's ssh_config; options given win."""
        block = {"HostName": "127.0.0.1", "Port": str(self.port), "User": self.user, **options}
        with self.config.open("a") as file:
            file.write(
                "\n".join([f"Host {alias}", *(f"    {name} {value}" for name, value in block.items()), ""])
            )

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config.parent.mkdir(parents=True, exist_ok=True)
        make_key(self.host_key)
        if not self.client_key.exists():
            make_key(self.client_key)
        self.authorize(self.client_key)

    def _accepts(self) -> bool:
        with (
            contextlib.suppress(ConnectionRefusedError),
            socket.create_connection(("127.0.0.1", self.port), 1),
        ):
            return True
        return False

    def _signal(self, number: int) -> None:
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Make a key pair; returns `path`."""
    bits = ["-b", "2048"] if kind == "rsa" else []
    command = ["ssh-keygen", "-q", "-t", kind, *bits, "-N", passphrase, "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


def certify(public: Path, authority: Path, principal: str, *options: str) -> None:
    """Sign `public`; the certificate lies beside it. `-h` makes it a host's."""
    command = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-n", principal, *options, str(public)]
    subprocess.run(command, check=True)


def hash_names(known_hosts: Path) -> None:
    """Make every name in a known_hosts file unreadable."""
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known_hosts)], check=True, capture_output=True)


def public_line(key: Path) -> str:
    """`ssh-ed25519 AAAA…` of a key file."""
    kind, body, *_ = key.with_name(f"{key.name}.pub").read_text().split()
    return f"{kind} {body}"


def free_port() -> int:
    """A loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, by /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found, wanted = [], {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted}
        found += sorted(wanted)
    return found


def _name(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


class SshAgent:
    """A real ssh-agent."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "agent.sock"
        self._process = subprocess.Popen(
            ["ssh-agent", "-D", "-a", str(self.socket)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        wait_until(self.socket.exists, "ssh-agent does not start")

    def add(self, key: Path, passphrase: str = "") -> None:
        """Give it a key, with the passphrase that opens the file."""
        answer = self.socket.with_name("askpass")
        answer.write_text(f"#!/bin/sh\necho '{passphrase}'\n")
        answer.chmod(0o700)
        asking = {
            "SSH_ASKPASS": str(answer),
            "SSH_ASKPASS_REQUIRE": "force",
            "SSH_AUTH_SOCK": str(self.socket),
        }
        subprocess.run(["ssh-add", "-q", str(key)], env={**os.environ, **asking}, check=True)

    def stop(self) -> None:
        """End it; its socket stays, dead."""
        self._process.kill()
        self._process.wait()
