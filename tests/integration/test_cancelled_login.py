"""A login that is given up at the very moment it succeeds."""

from __future__ import annotations

import asyncio

import pytest

from console.remote.ssh import SshHost
from console.remote.ssh.login import Login
from tests.integration.waiting import PATIENCE_S


@pytest.mark.usefixtures("ssh_server")
@pytest.mark.parametrize("turns", range(5))
async def test_a_cancellation_at_the_end_of_a_login_is_heeded(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """So many turns of the loop after the server has let us in; swallowed, the watch would never end."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[bool] = loop.create_future()

    def cancel_after(left: int) -> None:
        if left:
            loop.call_soon(cancel_after, left - 1)
        else:
            asked.set_result(connecting.cancel())

    monkeypatch.setattr(Login, "auth_completed", lambda _: cancel_after(turns))
    host = SshHost("gpu-box")
    connecting = asyncio.create_task(host.connect())
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait({connecting})
        assert connecting.cancelled() == await asked
    await host.close()
