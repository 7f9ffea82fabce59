"""A stand-in for the console: connect to `gpu-box`, print the agent's pid, and hold the link until killed."""

import asyncio
import sys
from contextlib import aclosing

from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.ssh import SshHost


async def hold() -> None:
    host = SshHost("gpu-box")
    await host.connect()
    async with await AgentLink.start(host, AgentOptions(interval=0.2), sys.executable) as link:
        print(link.hello.pid, flush=True)
        async with aclosing(link.frames()) as frames:
            async for _ in frames:
                pass


asyncio.run(hold())
