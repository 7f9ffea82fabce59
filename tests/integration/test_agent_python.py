"""The agent as root, under the Python that is configured."""

from __future__ import annotations

import sys

from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.ssh import SshHost
from tests.integration.sshd import SshServer


async def test_of_root(ssh_server: SshServer) -> None:
    host = SshHost("gpu-box")
    await host.connect()
    async with await AgentLink.start(host, AgentOptions(interval=0.2)) as link:
        assert link.hello.user == ssh_server.user
    await host.close()


async def test_the_configured_python_is_used(ssh_server: SshServer) -> None:
    host = SshHost("gpu-box")
    await host.connect()
    async with await AgentLink.start(host, AgentOptions(), sys.executable) as link:
        assert link.hello.python == sys.executable
    await host.close()
