"""What asyncssh, sockets and resolvers raise, turned into what failed, the likely cause and the next step."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Literal

import asyncssh
import msgspec

from console.domain.errors import AuthenticationFailed, ConnectionFailed, ConnectionLost, HostError
from console.remote.host import reason
from console.remote.ssh.route import Hop

Stage = Literal["keys", "name", "tcp", "proxy", "jump", "greeting", "key exchange", "login"]
"""How far a login to one hop came."""

FOREIGN = (OSError, asyncssh.Error, ValueError, OverflowError)
"""All that a login raises; TimeoutError is an OSError, errors in keys and settings are ValueErrors."""

ENDED = (asyncssh.ConnectionLost, ConnectionResetError, BrokenPipeError)
NOT_SSH = (asyncssh.ProtocolError, asyncssh.ProtocolNotSupported, UnicodeError)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. Its texts are templates, filled in by `explain`."""

    foreign: tuple[type[Exception], ...]
    stages: tuple[Stage, ...] = ()
    """Empty for any stage."""
    code: int | None = None
    """Of a ChannelOpenError; None for any."""
    what: str
    cause: str
    next_step: str

    def fits(self, error: Exception, stage: Stage) -> bool:
        """Whether this line is about `error` at `stage`."""
        return (
            isinstance(error, self.foreign)
            and (not self.stages or stage in self.stages)
            and (self.code is None or self.code == getattr(error, "code", None))
        )


ROWS = (
    Row(
        foreign=(socket.gaierror,),
        what="the name {host} does not resolve",
        cause="{origin}",
        next_step="check the spelling and the network; aliases are Host blocks of ~/.ssh/config",
    ),
    Row(
        foreign=(TimeoutError,),
        stages=("keys",),
        what="the keys in ~/.ssh cannot be read in time",
        cause="the home folder or the SSH agent does not answer",
        next_step="try `ssh-add -l`",
    ),
    Row(
        foreign=FOREIGN,
        stages=("keys",),
        what="known_hosts or the keys cannot be read",
        cause="{detail}",
        next_step="make the file readable",
    ),
    Row(
        foreign=(TimeoutError,),
        stages=("name",),
        what="the name {host} does not resolve in time",
        cause="the name server does not answer",
        next_step="check the network and the VPN",
    ),
    Row(
        foreign=(TimeoutError,),
        stages=("tcp",),
        what="{host}:{port} does not answer",
        cause="the host is down, or a firewall drops the packets",
        next_step="check that the host is up and the VPN is on",
    ),
    Row(
        foreign=(TimeoutError,),
        stages=("jump",),
        what="{via} does not get through to {host}:{port}",
        cause="the host is down, or a firewall drops the packets",
        next_step="check that the host is up",
    ),
    Row(
        foreign=(TimeoutError,),
        stages=("proxy",),
        what="no SSH greeting comes through the ProxyCommand",
        cause="the host or the proxy does not answer",
        next_step="run it by hand: {proxy}",
    ),
    Row(
        foreign=(TimeoutError,),
        stages=("greeting",),
        what="the host accepts TCP but SSH does not answer",
        cause="it is overloaded, or another service has this port",
        next_step="look at the host's console, or try again later",
    ),
    Row(
        foreign=(TimeoutError,),
        what="the login does not finish",
        cause="the host is overloaded, or waits for a name or account server",
        next_step="try `{command}` by hand",
    ),
    Row(
        foreign=(asyncssh.ChannelOpenError,),
        stages=("jump",),
        code=asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
        what="{via} does not let us through to {host}:{port}",
        cause="its sshd forbids forwarding",
        next_step="set AllowTcpForwarding yes for this user there",
    ),
    Row(
        foreign=(asyncssh.ChannelOpenError,),
        stages=("jump",),
        what="{via} cannot reach {host}:{port}",
        cause="{detail}",
        next_step="check that the host is up, and its HostName and Port in ~/.ssh/config",
    ),
    Row(
        foreign=(ConnectionRefusedError,),
        what="{host}:{port} refuses connections",
        cause="no SSH server listens there",
        next_step="check Port in ~/.ssh/config, and sshd on the host",
    ),
    Row(
        foreign=ENDED,
        stages=("proxy",),
        what="the ProxyCommand ended before SSH's greeting",
        cause="it {proxy_end}",
        next_step="run it by hand: {proxy}",
    ),
    Row(
        foreign=ENDED,
        stages=("greeting",),
        what="the connection was closed before SSH's greeting",
        cause="another service has this port, or sshd turns newcomers away (MaxStartups, a ban)",
        next_step="try `{command}` by hand, or again in a minute",
    ),
    Row(
        foreign=(OSError,),
        stages=("name", "tcp", "proxy"),
        what="{host}:{port} cannot be reached",
        cause="{detail}",
        next_step="check the network and the VPN",
    ),
    Row(
        foreign=NOT_SSH,
        stages=("greeting", "proxy"),
        what="what answers at {host}:{port} is not an SSH server",
        cause="{detail}",
        next_step="check HostName and Port in ~/.ssh/config",
    ),
    Row(
        foreign=(asyncssh.KeyExchangeFailed,),
        what="the host and the console have no algorithm in common",
        cause="{detail}",
        next_step="update sshd on the host, or widen Ciphers, MACs or KexAlgorithms in ~/.ssh/config",
    ),
    Row(
        foreign=ENDED,
        stages=("key exchange",),
        what="the host closed the connection during the key exchange",
        cause="perhaps the two sides have no algorithm in common",
        next_step="try `{command}` by hand, and see Ciphers, MACs and KexAlgorithms in ~/.ssh/config",
    ),
    Row(
        foreign=FOREIGN,
        what="the connection ended during the login",
        cause="{detail}",
        next_step="try `{command}` by hand, and see sshd's log on the host",
    ),
)


def explain(
    error: Exception, stage: Stage, hop: Hop, *, command: str, via: str = "", proxy_end: str = ""
) -> HostError:
    """The HostError for what was raised at `stage` of a login to `hop`.

    `command` would make it by hand, `via` is the jump host, `proxy_end` why the ProxyCommand ended.
    """
    row = next(row for row in ROWS if row.fits(error, stage))
    in_config = f"it is the HostName of {hop.alias} in ~/.ssh/config"
    words = {
        "host": hop.host,
        "port": hop.port,
        "origin": in_config if hop.host != hop.alias else f"~/.ssh/config has no HostName for {hop.alias}",
        "command": command,
        "proxy": hop.proxy_command,
        "proxy_end": proxy_end,
        "via": via,
        "detail": detail(error),
    }
    what, cause, next_step = (text.format(**words) for text in (row.what, row.cause, row.next_step))
    return ConnectionFailed(what, where=str(hop), cause=cause, next_step=next_step)


def detail(error: Exception) -> str:
    """What a foreign error says of itself, without its number."""
    if isinstance(error, OSError):
        return reason(error) or type(error).__name__
    return getattr(error, "reason", "") or str(error) or type(error).__name__


def login_refused(
    error: Exception,
    hop: Hop,
    *,
    tried: Sequence[str],
    problems: Sequence[str],
    locked: str | None,
    password: bool,
) -> AuthenticationFailed:
    """The host let `hop.user` in with none of the keys `tried`.

    `problems` tell of keys that could not be tried, `locked` is an encrypted one, `password` whether the host
    would take one.
    """
    causes = [f"tried {', '.join(tried)}" if tried else "there was no key to try", *problems]
    if password:
        causes.append("it would take a password, which the console does not use")
    if "Too many" in str(error):
        next_step = f"give {hop.alias} in ~/.ssh/config its IdentityFile, and IdentitiesOnly yes"
    elif locked:
        next_step = f"`ssh-add {locked}`"
    else:
        next_step = f"`ssh-copy-id` your key to {hop.user}, or correct User and IdentityFile in ~/.ssh/config"
    return AuthenticationFailed(
        f"{hop.user} was not let in", where=str(hop), cause="; ".join(causes), next_step=next_step
    )


def channel_refused(error: asyncssh.ChannelOpenError, host: str, target: str, loss: str) -> HostError:
    """A shell or a TCP connection, `target`, that was asked for on a connection that was up."""
    if error.reason == "SSH connection closed":
        return ConnectionLost("the connection was lost", where=host, cause=loss)
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return ConnectionFailed(
            f"the host does not let us connect to {target}",
            where=host,
            cause="its sshd forbids forwarding",
            next_step="set AllowTcpForwarding yes for this user in its sshd_config",
        )
    return ConnectionFailed(f"{target}: {error.reason}", where=host)


def not_opened(host: str, target: str, limit_s: float) -> ConnectionLost:
    """Nothing was heard of `target` for `limit_s` seconds."""
    return ConnectionLost(
        f"the host does not answer for {target}", where=host, cause=f"nothing was heard for {limit_s:.0f} s"
    )
