"""The console's benchmark and sglang's own client, asked for the same load of the same server.

shape = Shape(input_tokens=64, output_tokens=32, concurrency=4, requests=16)
ours, theirs = by_console(shape), by_sglang(shape, port, folder)
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

from console.domain.bench.prompts import prompts
from console.remote.local import LocalHost
from console.remote.sglang import SglangClient
from console.remote.tunnel import HostTransport
from console.services.bench_load import calibrate_on
from tests.realstack.stack import HOME

LIMIT_S = 180.0

Figures = dict[str, Any]
"""One line of the JSONL that sglang's client writes; the console prints the same fields and more."""


class Shape(NamedTuple):
    """The load, the same for both."""

    input_tokens: int
    output_tokens: int
    concurrency: int
    requests: int


def by_console(shape: Shape) -> Figures:
    """`bench` on `gpu-box`. Raises AssertionError."""
    done = run(
        [
            *(sys.executable, "-m", "console", "--host", "gpu-box", "bench", "--yes", "--json"),
            *("-c", str(shape.concurrency), "--prompts", str(shape.requests)),
            *("--input", str(shape.input_tokens), "--output", str(shape.output_tokens)),
        ]
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def by_sglang(shape: Shape, port: int, folder: Path) -> Figures:
    """sglang's client, with prompts made as the console makes them. Raises AssertionError."""
    return sglangs_client(asyncio.run(_prompts(shape, port)), shape, port, folder)


def sglangs_client(prompts: Iterable[str], shape: Shape, port: int, folder: Path) -> Figures:
    """The same with any prompts.

    Its warm-up sends its first prompt and measures it again, from the prefix cache: it starts without one.
    """
    asked, told = folder / "prompts.jsonl", folder / "result.jsonl"
    asked.write_text("".join(map(_conversation, prompts)))
    told.unlink(missing_ok=True)
    run(
        [
            *(HOME / "venv/bin/python", "-m", "sglang.benchmark.serving", "--backend", "sglang-oai"),
            *("--base-url", f"http://127.0.0.1:{port}", "--model", HOME / "model"),
            *("--dataset-name", "custom", "--dataset-path", asked),
            *("--sharegpt-output-len", str(shape.output_tokens), "--num-prompts", str(shape.requests)),
            *("--max-concurrency", str(shape.concurrency), "--warmup-requests", "0"),
            *("--output-file", told, "--disable-tqdm"),
        ],
        PYTHONPATH=str(HOME / "shims"),
    )
    figures: Figures = json.loads(told.read_text())
    return figures


def run(words: list[str | Path], **variables: str) -> subprocess.CompletedProcess[str]:
    """A client to its end. Raises AssertionError with what it said, where that is no success."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | variables)
    if done.returncode:
        raise AssertionError(f"{words[1:4]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


async def _prompts(shape: Shape, port: int) -> tuple[str, ...]:
    async with aclosing(SglangClient(HostTransport(LocalHost()))) as client:
        calibration = await calibrate_on(client, port)
    return prompts(shape.requests, shape.input_tokens, random.Random(), calibration)


def _conversation(prompt: str) -> str:
    said = [{"content": prompt}, {"content": "an answer of more than one token"}]
    return json.dumps({"conversations": said}) + "\n"
