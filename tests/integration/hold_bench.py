"""A stand-in for the console: connect to `gpu-box`, and measure a server there until the end or until killed.

    hold_bench.py PORT JOURNAL

The server is one of tests/unit/streaming_server.py; the result is kept in the journal.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

from console.domain.bench.benching import BenchAsk
from console.domain.bench.prompts import Calibration
from console.domain.errors import HostError
from console.domain.profile import BenchShape
from console.remote.agent_parcel import AgentOptions
from console.remote.ssh import SshHost
from console.services.bench_store import BenchStore
from console.services.bench_target import BenchTarget
from console.services.measurement import Measurement
from console.services.telemetry import HostWatch, Identity

WORDS = Calibration(fixed=0, per_deck=16, per_filler=1, per_mark=1, varied=True)
ASK = BenchAsk(input_tokens=64, output_tokens=32, prompts=5000)
"""Some minutes: each answer takes a tenth of a second."""
CONCURRENCY = 4


async def measure(watch: HostWatch, port: int, store: BenchStore) -> None:
    target = BenchTarget(
        name=f"single :{port}", port=port, servers={}, shape=BenchShape(), python=sys.executable
    )
    measurement = Measurement(
        watch, target, ASK, CONCURRENCY, seed=1, series="s", host="gpu-box", demo=False, store=store
    )
    with contextlib.suppress(HostError):
        async for _ in measurement.events(asyncio.Event(), WORDS):
            pass


async def hold(port: int, journal: Path) -> None:
    watch = HostWatch(
        Identity(name="gpu-box"), lambda: SshHost("gpu-box"), AgentOptions(interval=0.2), sys.executable
    )
    connected = asyncio.Event()

    async def follow() -> None:
        async for _ in watch.updates():
            with contextlib.suppress(HostError):
                connected.set() if watch.link else None

    following = asyncio.create_task(follow())
    await connected.wait()
    await measure(watch, port, BenchStore(journal))
    following.cancel()
    await asyncio.wait([following])


asyncio.run(hold(int(sys.argv[1]), Path(sys.argv[2])))
