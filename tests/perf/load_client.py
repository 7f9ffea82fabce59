"""What the load generator costs against a plain httpx client, and how fast it may be asked to be.

    python tests/perf/load_client.py [--seconds 3]

First, CPU ms per 1,000 tokens at 16 streams and 5,000 tokens a second (one a chunk), start-up left out: each
client runs a short and a long load, and the difference counts, of all its processes. sglang's own client is
among them where the real stack is built (DSV4_REALSTACK); what it works out at its end is in its cost.

Then the highest rate at which the lag of the generator stays under 1 ms at p95, with one worker and with two.
The server takes a core of its own: on fewer than four, or where others work, the ceiling is that of the
machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from console.agent.loads import LAST, LoadChild  # noqa: E402 # the path comes first
from tests.realstack.stack import HOME as REALSTACK  # noqa: E402
from tests.unit.streaming_server import StreamingServer, paced  # noqa: E402

STREAMS = 16
RATE = 5000
SHORT_S = 0.5
REPEATS = 3
LAG_GOAL_MS = 1.0
RATES = (1000, 2000, 3000, 4000, 5000, 6000, 8000, 10_000, 12_000, 15_000, 20_000, 25_000, 30_000, 40_000)


class Shape(NamedTuple):
    """What a client is to ask for."""

    url: str
    streams: int
    tokens: int
    """Of each stream."""
    gap_s: float

    def prompts(self, rounds: int = 1) -> list[str]:
        """Prompts for the streaming server."""
        return [paced("p", self.tokens, self.gap_s)] * self.streams * rounds


Client = Callable[[Shape], None]
"""Runs one load as a child, and waits for it."""

PLAIN = """
import asyncio, json, sys, time
import httpx

async def ask(client, url, prompt, times):
    body = {"model": "m", "prompt": prompt, "max_tokens": 1, "stream": True}
    async with client.stream("POST", url, json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                chunk = json.loads(line[6:])
                if chunk["choices"] and chunk["choices"][0]["text"]:
                    times.append(time.perf_counter())

async def main():
    url, prompts = json.load(sys.stdin)
    async with httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None)) as client:
        await asyncio.gather(*(ask(client, url, prompt, []) for prompt in prompts))

asyncio.run(main())
"""


def plain_httpx(shape: Shape) -> None:
    """The loop that one would write."""
    command = [sys.executable, "-c", PLAIN]
    subprocess.run(command, input=json.dumps([shape.url, shape.prompts()]).encode(), check=True)


def generator(workers: int, shape: Shape) -> None:
    """Ours."""
    load(shape, workers)


def sglang(shape: Shape) -> None:
    """sglang's own client, in its own environment."""
    # Here, so that a machine without it needs nothing but httpx.
    from tests.realstack import two_clients

    load = two_clients.Shape(7, shape.tokens, shape.streams, shape.streams)
    with tempfile.TemporaryDirectory() as folder:
        done = two_clients.sglangs_client(shape.prompts(), load, urlsplit(shape.url).port or 0, Path(folder))
    assert done["completed"] == shape.streams, done


CLIENTS: dict[str, Client] = {
    "plain httpx, aiter_lines": plain_httpx,
    "load generator, 1 worker": partial(generator, 1),
    "load generator, 2 workers": partial(generator, 2),
    **({"sglang's client": sglang} if (REALSTACK / "stamp").exists() else {}),
}
"""The first is the baseline. Whatever other prompt a client sends is answered with the tokens that it asks
for, 312 a second."""


def load(shape: Shape, workers: int) -> dict[str, Any]:
    """Run the generator; returns its last event."""
    spec = {
        "url": shape.url,
        "model": "m",
        "prompts": shape.prompts(),
        "warmup": [paced("w", 2, 0.0)] * shape.streams,
        "output_tokens": shape.tokens,
        "concurrency": shape.streams,
        "workers": workers,
    }
    child = LoadChild(sys.executable, spec)
    while True:
        select.select([child.stdout, child.stderr], [], [], 1.0)
        child.beat()
        for event in child.events():
            if event["event"] in LAST:
                assert event["event"] == "done", event
                wait_for_end(child.stdout)
                child.close()
                return event


def wait_for_end(fd: int) -> None:
    """The CPU time of processes is known once they have ended and were waited for."""
    os.set_blocking(fd, True)
    while os.read(fd, 4096):
        pass


def cpu_s(client: Client, shape: Shape) -> float:
    """CPU seconds of all processes of a client."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    client(shape)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu_ms_per_1000_tokens(client: Client, url: str, seconds: float) -> float:
    """By the difference of a long load and a short one, each the least of three: what starting takes varies,
    by a second where sglang is imported."""
    gap_s = STREAMS / RATE
    short, long = (Shape(url, STREAMS, int(each / gap_s), gap_s) for each in (SHORT_S, SHORT_S + seconds))
    tokens = (long.tokens - short.tokens) * STREAMS
    least, most = (min(cpu_s(client, shape) for _ in range(REPEATS)) for shape in (short, long))
    return 1000 * (most - least) / (tokens / 1000)


def print_costs(url: str, seconds: float) -> None:
    """The table of costs."""
    if "sglang's client" not in CLIENTS:
        print(f"no SGLang in {REALSTACK}: its client is left out")
    print(f"CPU ms per 1,000 tokens, {STREAMS} streams, {RATE} tokens/s, one a chunk; least of {REPEATS}")
    baseline = 0.0
    for name, client in CLIENTS.items():
        cost = cpu_ms_per_1000_tokens(client, url, seconds)
        baseline = baseline or cost
        print(f"  {name:28} {cost:7.1f}   {cost / baseline:5.2f} x baseline", flush=True)


def print_ceiling(url: str, workers: int, seconds: float) -> None:
    """Lag at rising rates, up to the first that is too fast; each is tried twice, and the better counts."""
    print(f"\n{workers} worker(s): lag of the generator at {STREAMS} streams")
    ceiling = 0.0
    for rate in RATES:
        gap_s = STREAMS / rate
        tokens = int(seconds / gap_s)
        tries = [load(Shape(url, STREAMS, tokens, gap_s), workers) for _ in range(2)]
        best = min(tries, key=lambda each: float(each["lag_p95_ms"]))
        reached = STREAMS * tokens / best["duration_s"]
        lag = best["lag_p95_ms"]
        health = f"p95 {lag:7.2f} ms  max {best['lag_max_ms']:7.1f} ms  CPU {best['cpu_pct']:4.0f} %"
        print(f"  asked {rate:6}/s  reached {reached:7.0f}/s  {health}", flush=True)
        if lag >= LAG_GOAL_MS:
            break
        ceiling = reached
    print(f"  highest rate with p95 under {LAG_GOAL_MS:g} ms: {ceiling:.0f} chunks/s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measuring")
    seconds = parser.parse_args().seconds
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%F %T')}")
    os.chdir(REPOSITORY)
    with StreamingServer() as server:
        print_costs(server.url, seconds)
        for workers in (1, 2):
            print_ceiling(server.url, workers, seconds)


if __name__ == "__main__":
    main()
