"""Every foreign error becomes a sentence with a place, a cause and a next step."""

from __future__ import annotations

import errno
import socket

import asyncssh
import pytest

from console.domain.errors import AuthenticationFailed, ConnectionFailed, ConnectionLost
from console.remote.ssh.errors import ROWS, Stage, channel_refused, explain, login_refused
from console.remote.ssh.route import Hop

HOP = Hop(
    alias="gpu-box",
    host="10.0.0.7",
    port=2222,
    user="ops",
    key_name="10.0.0.7",
    key_port=2222,
    proxy_command="nc 10.0.0.7 2222",
    settings={},
)

CASES: list[tuple[Exception, Stage, str]] = [
    (socket.gaierror(-2, "Name or service not known"), "name", "the name 10.0.0.7 does not resolve"),
    (TimeoutError(), "keys", "the keys in ~/.ssh cannot be read in time"),
    (PermissionError(13, "", "/home/ops/.ssh/known_hosts"), "keys", "known_hosts or the keys cannot be read"),
    (TimeoutError(), "name", "the name 10.0.0.7 does not resolve in time"),
    (TimeoutError(), "tcp", "10.0.0.7:2222 does not answer"),
    (TimeoutError(), "jump", "bastion does not get through to 10.0.0.7:2222"),
    (TimeoutError(), "proxy", "no SSH greeting comes through the ProxyCommand"),
    (TimeoutError(), "greeting", "the host accepts TCP but SSH does not answer"),
    (TimeoutError(), "key exchange", "the login does not finish"),
    (TimeoutError(), "login", "the login does not finish"),
    (asyncssh.ChannelOpenError(1, "open failed"), "jump", "bastion does not let us through to 10.0.0.7:2222"),
    (asyncssh.ChannelOpenError(2, "Connection refused"), "jump", "bastion cannot reach 10.0.0.7:2222"),
    (ConnectionRefusedError(errno.ECONNREFUSED, ""), "tcp", "10.0.0.7:2222 refuses connections"),
    (OSError(errno.EHOSTUNREACH, ""), "tcp", "10.0.0.7:2222 cannot be reached"),
    (FileNotFoundError(errno.ENOENT, "", "/bin/gone"), "proxy", "10.0.0.7:2222 cannot be reached"),
    (OSError(errno.ENETUNREACH, ""), "tcp", "10.0.0.7:2222 cannot be reached"),
    (asyncssh.ConnectionLost("Connection lost"), "proxy", "the ProxyCommand ended before SSH's greeting"),
    (
        asyncssh.ConnectionLost("Connection lost"),
        "greeting",
        "the connection was closed before SSH's greeting",
    ),
    (
        ConnectionResetError(errno.ECONNRESET, ""),
        "greeting",
        "the connection was closed before SSH's greeting",
    ),
    (
        asyncssh.ProtocolError("Banner line too long"),
        "greeting",
        "what answers at 10.0.0.7:2222 is not an SSH server",
    ),
    (asyncssh.ProtocolNotSupported("SSH-1.5"), "proxy", "what answers at 10.0.0.7:2222 is not an SSH server"),
    (
        asyncssh.KeyExchangeFailed("No matching"),
        "key exchange",
        "the host and the console have no algorithm in common",
    ),
    (
        ConnectionResetError(errno.ECONNRESET, ""),
        "key exchange",
        "the host closed the connection during the key exchange",
    ),
    (asyncssh.MACError("MAC verification failed"), "login", "the connection ended during the login"),
    (asyncssh.ConnectionLost("Connection lost"), "login", "the connection ended during the login"),
    (ValueError("bad key"), "login", "the connection ended during the login"),
    (OverflowError("port must be 0-65535"), "login", "the connection ended during the login"),
]


@pytest.mark.parametrize(("error", "stage", "what"), CASES)
def test_a_sentence_for(error: Exception, stage: Stage, what: str) -> None:
    said = explain(error, stage, HOP, command="ssh gpu-box", via="bastion", proxy_end="exited with status 1")
    assert type(said) is ConnectionFailed
    assert said.what == what
    assert said.where == "gpu-box (10.0.0.7:2222)"
    assert said.cause
    assert said.next_step
    assert not any(mark in str(said) for mark in "{}\n"), "one sentence, every field filled in"


def test_every_row_is_needed() -> None:
    used = {id(next(row for row in ROWS if row.fits(error, stage))) for error, stage, _ in CASES}
    assert [row.what for row in ROWS if id(row) not in used] == []


def test_an_error_without_words_still_says_what_it_is() -> None:
    assert explain(asyncssh.ConnectionLost(""), "login", HOP, command="").cause == "ConnectionLost"


def refused(error: str = "Permission denied", **found: object) -> AuthenticationFailed:
    known = {"tried": (), "problems": (), "locked": None, "password": False, **found}
    return login_refused(asyncssh.PermissionDenied(error), HOP, **known)  # type: ignore[arg-type]  # by name


def test_a_refused_login_says_what_was_tried_and_what_could_not_be() -> None:
    error = refused(tried=["~/.ssh/id_a", "work of the agent"], problems=["~/.ssh/id_b does not exist"])
    assert error.what == "ops was not let in"
    assert error.cause == "tried ~/.ssh/id_a, work of the agent; ~/.ssh/id_b does not exist"


@pytest.mark.parametrize(
    ("found", "next_step"),
    [
        ({}, "ssh-copy-id"),
        ({"locked": "~/.ssh/id_a"}, "`ssh-add ~/.ssh/id_a`"),
        ({"error": "Too many authentication failures"}, "IdentitiesOnly yes"),
    ],
)
def test_the_next_step_of_a_refused_login(found: dict[str, object], next_step: str) -> None:
    assert next_step in refused(**found).next_step  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("code", "reason", "kind", "says"),
    [
        (1, "open failed", ConnectionFailed, "AllowTcpForwarding"),
        (2, "Connection refused", ConnectionFailed, "127.0.0.1:30000: Connection refused"),
        (2, "SSH connection closed", ConnectionLost, "not responding to keepalive"),
    ],
)
def test_a_channel_that_does_not_open(code: int, reason: str, kind: type, says: str) -> None:
    error = channel_refused(
        asyncssh.ChannelOpenError(code, reason),
        "gpu-box",
        "127.0.0.1:30000",
        "Server not responding to keepalive",
    )
    assert type(error) is kind
    assert says in str(error)
