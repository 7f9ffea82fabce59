"""The agent starts for every login shell, for root and for others, past whatever start-up files print."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.gpu import Sample
from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.ssh import SshHost
from tests.integration.sshd import SshServer
from tests.integration.test_login_shells import account

__all__ = ["account"]


async def first_sample(link: AgentLink) -> Sample:
    async with aclosing(link.frames()) as frames:
        async for frame in frames:
            if isinstance(frame, Sample):
                return frame
    raise AssertionError("the link ended")


async def test_it_runs_as_the_account_whatever_the_shell(account: tuple[str, Path], home: Path) -> None:
    name, folder = account
    server = SshServer(folder / "sshd", home)
    server.trust()
    server.add_alias("gpu-box", User=name)
    server.start()
    try:
        host = SshHost("gpu-box")
        await host.connect()
        async with await AgentLink.start(host, AgentOptions(interval=0.2)) as link:
            assert link.hello.user == name
            assert link.hello.uid != 0
            assert (await first_sample(link)).host.load1 is not None
        await host.close()
    finally:
        server.stop()


async def test_of_root(ssh_server: SshServer) -> None:
    host = SshHost("gpu-box")
    await host.connect()
    async with await AgentLink.start(host, AgentOptions(interval=0.2)) as link:
        assert link.hello.user == ssh_server.user
    await host.close()


@pytest.mark.parametrize("python", ["/usr/bin/python3", "/bin/python3"])
async def test_the_configured_python_is_used(ssh_server: SshServer, python: str) -> None:
    host = SshHost("gpu-box")
    await host.connect()
    async with await AgentLink.start(host, AgentOptions(), python) as link:
        assert Path(link.hello.python).resolve() == Path(python).resolve()
    await host.close()
