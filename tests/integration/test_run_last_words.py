"""Why a run ended that nobody saw as a server, read from its log by a real agent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from console.remote.agent_link import AgentLink
from console.remote.agent_parcel import AgentOptions
from console.remote.local import LocalHost
from console.services.host_control import LastWords
from console.services.last_words import last_words
from tests.unit.deployed import DECODE_RUN


async def read(log: Path) -> LastWords | None:
    host = LocalHost()
    await host.connect()
    async with await AgentLink.start(host, AgentOptions(interval=0.2), sys.executable) as link:

        async def listen() -> None:
            async for _ in link.frames():
                pass

        listening = asyncio.create_task(listen())
        try:
            return await last_words(link, msgspec.structs.replace(DECODE_RUN, log=str(log)))
        finally:
            listening.cancel()
            await asyncio.wait([listening])
            await host.close()


def died(log: Path, *words: str) -> None:
    """A process that ends at once, with its log."""
    with open(log, "ab") as output:
        assert subprocess.run([sys.executable, *words], stdout=output, stderr=output).returncode == 1


async def test_a_package_that_is_missing_is_named_with_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    died(log, "-c", "import no_such_package")
    words = await read(log)
    assert words is not None
    assert words.sentence.startswith("the Python environment lacks something")
    assert words.next is not None
    assert words.next.endswith("then restart the pair, both roles")


async def test_what_is_no_known_error_is_told_in_its_own_words(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    died(log, "-m", "no_such_module.launch_server")
    words = await read(log)
    assert words is not None
    assert "No module named" in words.sentence


async def test_a_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    log.write_text("a line of no meaning\n" * 50_000)
    died(log, "-c", "import no_such_package")
    words = await read(log)
    assert words is not None
    assert words.sentence.startswith("the Python environment lacks something")


@pytest.mark.parametrize("content", [None, "", "\n \n"])
async def test_a_log_that_says_nothing(content: str | None, tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    if content is not None:
        log.write_text(content)
    assert await read(log) is None
