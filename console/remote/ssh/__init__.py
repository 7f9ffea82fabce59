"""SSH, through asyncssh, which is imported nowhere else but by the demo's server.

host        SshHost: connect, shells, TCP connections
route       ssh_config -> the hops
login       one hop: socket, host key, keys
host_keys   known_hosts; identities: keys and agent; dial: names, sockets, ProxyCommand
channels    streams over the connection
errors      foreign errors -> HostError
"""

import logging

from console.remote.ssh.host import SshHost
from console.remote.ssh.login import Keepalive

__all__ = ["Keepalive", "SshHost"]

# asyncssh tells each step at INFO. Nothing may print into the terminal that the console draws on.
logging.getLogger("asyncssh").setLevel(logging.WARNING)
