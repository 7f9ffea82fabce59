"""Whatever the login shell is and its start-up files print: sh runs the script, and Python the agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.gpu import Sample
from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.ssh import SshHost
from tests.integration.accounts import Account, account
from tests.integration.sshd import SshServer
from tests.integration.waiting import read_until

NOISE = "*** welcome to gpu-box, 3 users ***"

START_UP_FILES = {
    "bash": ".bashrc",
    "dash": ".profile",
    "fish": ".config/fish/config.fish",
    "tcsh": ".tcshrc",
}

SCRIPT = b"""
model="/models/it's here/DeepSeek-V4-Flash"
X=1; export X
printf 'MARK %s|%s|%s|%s\n' "$model" "${NOT_SET_ANYWHERE:-default}" "$(echo sub 2>&1)" "$0" && exit 5
"""


@pytest.fixture(params=list(START_UP_FILES))
def noisy_account(request: pytest.FixtureRequest) -> Iterator[Account]:
    """A user whose login shell is the parameter, with a start-up file that prints."""
    with account(request.param, {START_UP_FILES[request.param]: f"echo '{NOISE}'\n"}) as made:
        yield made


@pytest.fixture
def account_server(noisy_account: Account, home: Path) -> Iterator[str]:
    """A running sshd that is reached as `gpu-box` under the account; yields the account's name."""
    server = SshServer(noisy_account.folder / "sshd", home)
    server.trust()
    server.add_alias("gpu-box", User=noisy_account.name)
    server.start()
    yield noisy_account.name
    server.stop()


async def test_the_script_runs_in_sh(account_server: str) -> None:
    host = SshHost("gpu-box")
    await host.connect()
    shell = await host.run_shell()
    await shell.write(SCRIPT)
    said = (await read_until(shell, b"MARK")) + await shell.read(1000)
    noise, _, answer = said.partition(b"MARK ")
    assert answer == b"/models/it's here/DeepSeek-V4-Flash|default|sub|/bin/sh\n"
    assert noise.strip() == (NOISE.encode() if "dash" not in account_server else b"")
    assert await shell.ended() == "exited with status 5"
    await host.close()


async def test_the_agent_runs_as_the_account(account_server: str) -> None:
    host = SshHost("gpu-box")
    await host.connect()
    async with await AgentLink.start(host, AgentOptions(interval=0.2)) as link:
        assert link.hello.user == account_server
        assert link.hello.uid != 0
        assert (await first_sample(link)).host.load1 is not None
    await host.close()


async def first_sample(link: AgentLink) -> Sample:
    async with aclosing(link.frames()) as frames:
        async for frame in frames:
            if isinstance(frame, Sample):
                return frame
    raise AssertionError("the link ended")
