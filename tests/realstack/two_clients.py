"""The console's load generator and sglang's own client, asked for the same load of the same server.

shape = Shape(input_tokens=128, output_tokens=32, concurrency=4, requests=16)
with SglangsClient(folder) as sglangs_client:
    ours, theirs = by_generator(shape, port), sglangs_client.measure(shape, port)
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from console.agent.loads import LoadChild
from console.domain.bench.figures import figures
from console.domain.bench.load import LoadDone, LoadEvent, LoadFailed, LoadRequests, LoadSpec
from console.domain.bench.prompts import prompts
from console.remote.local import LocalHost
from console.remote.sglang import SglangClient
from console.remote.tunnel import HostTransport
from console.services.bench_load import calibrate_on
from tests.realstack.stack import HOME

LIMIT_S = 180.0
PYTHON = HOME / "venv/bin/python"
SHIMS = {"PYTHONPATH": str(HOME / "shims")}
RESULT = "result.jsonl"

Figures = dict[str, Any]
"""By the names that sglang's client gives them in its JSONL."""


class Shape(NamedTuple):
    """The load, the same for both."""

    input_tokens: int
    output_tokens: int
    concurrency: int
    requests: int


def by_generator(shape: Shape, port: int) -> Figures:
    """The load generator as the agent starts it, under SGLang's Python. Raises AssertionError."""
    spec = LoadSpec(
        url=f"http://127.0.0.1:{port}/v1/completions",
        model="default",
        prompts=asyncio.run(made_prompts(shape, port)),
        output_tokens=shape.output_tokens,
        concurrency=shape.concurrency,
    )
    told = list(_events(LoadChild(str(PYTHON), msgspec.to_builtins(spec))))
    done = told[-1]
    assert isinstance(done, LoadDone), done
    timings = [timing for event in told if isinstance(event, LoadRequests) for timing in event.items]
    found = figures(timings, done.duration_s)
    return {
        "completed": found.completed,
        "total_input_tokens": found.total_input_tokens,
        "total_output_tokens": found.total_output_tokens,
        "output_throughput": found.output_throughput,
        "median_ttft_ms": found.ttft_ms.median,
        "median_tpot_ms": found.tpot_ms.median,
    }


def _events(child: LoadChild) -> Iterator[LoadEvent]:
    try:
        while True:
            select.select([child.stdout, child.stderr], [], [], 1.0)
            child.beat()
            for told in child.events():
                event = msgspec.convert(told, LoadEvent)
                yield event
                if isinstance(event, LoadDone | LoadFailed):
                    return
    finally:
        child.close()


class SglangsClient:
    """sglang's own client, imported once for all its loads (sglangs_client.py); `folder` is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "client.log"

    def __enter__(self) -> SglangsClient:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [PYTHON, "-u", Path(__file__).with_name("sglangs_client.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | SHIMS,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def measure(self, shape: Shape, port: int) -> Figures:
        """One load, with prompts made as the console makes them. Raises AssertionError with what it said."""
        asked = asyncio.run(made_prompts(shape, port))
        words = [*map(str, sglangs_words(asked, shape, port, self._folder))]
        asks, answers = self._process.stdin, self._process.stdout
        assert asks is not None
        assert answers is not None
        asks.write(json.dumps(words) + "\n")
        asks.flush()
        assert select.select([answers], [], [], LIMIT_S)[0], self._log.read_text()
        assert answers.readline() == "done\n", self._log.read_text()
        return sglangs_figures(self._folder)


def sglangs_client(asked: Iterable[str], shape: Shape, port: int, folder: Path) -> Figures:
    """One load by sglang's client, started for it alone, with any prompts. Raises AssertionError."""
    run([PYTHON, "-m", "sglang.benchmark.serving", *sglangs_words(asked, shape, port, folder)], **SHIMS)
    return sglangs_figures(folder)


def sglangs_words(asked: Iterable[str], shape: Shape, port: int, folder: Path) -> list[str | Path]:
    """The words to start it with; its prompts are written, and no figures are left of another load.

    Its warm-up sends its first prompt and measures it again, from the prefix cache: it starts without one.
    """
    dataset = folder / "prompts.jsonl"
    dataset.write_text("".join(map(_conversation, asked)))
    (folder / RESULT).unlink(missing_ok=True)
    return [
        *("--backend", "sglang-oai", "--base-url", f"http://127.0.0.1:{port}", "--model", HOME / "model"),
        *("--dataset-name", "custom", "--dataset-path", dataset),
        *("--sharegpt-output-len", str(shape.output_tokens), "--num-prompts", str(shape.requests)),
        *("--max-concurrency", str(shape.concurrency), "--warmup-requests", "0"),
        *("--output-file", folder / RESULT, "--disable-tqdm"),
    ]


def sglangs_figures(folder: Path) -> Figures:
    """What it has written of its load."""
    found: Figures = json.loads((folder / RESULT).read_text())
    return found


def run(words: list[str | Path], **variables: str) -> subprocess.CompletedProcess[str]:
    """A client to its end. Raises AssertionError with what it said, where that is no success."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | variables)
    if done.returncode:
        raise AssertionError(f"{words[1:4]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


async def made_prompts(shape: Shape, port: int) -> tuple[str, ...]:
    """New ones, as the console makes them for the model that is served there."""
    async with aclosing(SglangClient(HostTransport(LocalHost()))) as client:
        calibration = await calibrate_on(client, port)
    return prompts(shape.requests, shape.input_tokens, random.Random(), calibration)


def _conversation(prompt: str) -> str:
    said = [{"content": prompt}, {"content": "an answer of more than one token"}]
    return json.dumps({"conversations": said}) + "\n"
