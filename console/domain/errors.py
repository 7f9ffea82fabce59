"""What can go wrong, as one tree.

    ConsoleError
    ├── UsageError            bad command line, settings, theme or profile     exit code 2
    │   ├── SettingsError     config.toml: file, key, what was expected
    │   ├── ThemeError        themes/*.toml, likewise
    │   └── ProfileError      profiles/*.toml, likewise
    ├── ReadOnly              the host must not be changed                     exit code 1
    ├── Locked                somebody else is changing the host               exit code 1
    ├── NotRunning            no such server                                   exit code 3
    │   └── NotReady          it is there, and does not serve yet
    └── HostError             the host cannot be reached or used               exit code 4
        ├── HostKeyUnknown    no known key: fingerprint and how to add it
        ├── HostKeyChanged    another key than the known one: both fingerprints
        ├── AuthenticationFailed
        ├── ConnectionFailed  name, route, port, time-out, not SSH
        ├── ConnectionLost    an open connection died
        ├── AgentFailed       no usable Python, or the agent ended
        └── HostRefused       the agent could not or would not carry out an order
Each carries four parts for people: what failed, where, the likely cause, what to do next.
"""

from __future__ import annotations


class ConsoleError(Exception):
    """An error to be shown as one sentence and a next step, never as a traceback."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", cause: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.cause = cause
        self.next_step = next_step

    def __str__(self) -> str:
        """One line: `where: what: cause. Next: next_step.`, leaving out what is unknown."""
        said = self.sentence
        return f"{said.rstrip('.')}. Next: {self.next_step.rstrip('.')}." if self.next_step else said

    @property
    def sentence(self) -> str:
        """The same without the next step, for where that has a place of its own."""
        return ": ".join(part for part in (self.where, self.what, self.cause) if part)


class UsageError(ConsoleError):
    """The command line or a file of the user's is wrong."""

    exit_code = 2


class SettingsError(UsageError):
    """config.toml cannot be used."""


class ThemeError(UsageError):
    """A theme file cannot be used."""


class ProfileError(UsageError):
    """A profile file cannot be used."""


class ReadOnly(ConsoleError):
    """The host is not to be changed: by the command line, its settings, or the user's own switch."""


class Locked(ConsoleError):
    """Somebody else changes the host at this moment."""


class NotRunning(ConsoleError):
    """The server asked for is not there, or cannot serve."""

    exit_code = 3


class NotReady(NotRunning):
    """The server asked for is on its way up: whoever waits may have it."""


class HostError(ConsoleError):
    """The host cannot be reached or used."""

    exit_code = 4


class HostKeyUnknown(HostError):
    """The host's key is not in known_hosts."""


class HostKeyChanged(HostError):
    """The host's key differs from the known one, or is revoked."""


class AuthenticationFailed(HostError):
    """The host refused every way to log in."""


class ConnectionFailed(HostError):
    """No connection could be made."""


class ConnectionLost(HostError):
    """An open connection ended."""


class AgentFailed(HostError):
    """The agent could not be started, or ended."""


class HostRefused(HostError):
    """The agent could not, or would not, carry out an order; the connection is well."""

    exit_code = 1
