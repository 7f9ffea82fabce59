"""On a GPU host: a launched process that holds GPU memory is seen, stopped, and its memory seen given back.

    python3 tests/perf/gpu_release.py [MiB]

Speaks with a real agent as the console does, and needs nothing but Python 3.8, pynvml and libcuda. Prints how
long each part took; exits with 1 when the memory was not seen, or not seen to be free.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
LENGTHS = struct.Struct(">II")
LIMIT_S = 30.0

HOLD = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[1]) << 20)) == 0
print("held", flush=True)
time.sleep(600)
"""


class Agent:
    """A real agent, asked one thing after the other."""

    def __init__(self, state: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "console.agent"],
            cwd=REPOSITORY,
            env={**os.environ, "DSV4_AGENT_STATE": state},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._number = 0

    def ask(self, op: str, **fields: Any) -> Any:
        """The value of an answer."""
        self._number += 1
        text = json.dumps({"op": op, "id": self._number, **fields}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(LENGTHS.pack(len(text), 0) + text)
        self._process.stdin.flush()
        while True:
            header = self._frame()
            if header.get("id") != self._number or header.get("more"):
                continue
            if header.get("error"):
                raise SystemExit(f"{op}: {header['error']}")
            return header.get("value")

    def _frame(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        head, body = LENGTHS.unpack(self._process.stdout.read(LENGTHS.size))
        header: dict[str, Any] = json.loads(self._process.stdout.read(head))
        self._process.stdout.read(body)
        return header

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def held_mib(agent: Agent, run: str) -> tuple[float, float]:
    """(MiB that the run holds by the list of processes, MiB in use) on all GPUs."""
    gpus = agent.ask("holders", ports=[])["gpus"]
    mine = [h["mem_mib"] or 0.0 for gpu in gpus for h in gpu["holders"] if h["process"]["run"] == run]
    return sum(mine), sum(gpu["mem_used_mib"] for gpu in gpus)


def until(agent: Agent, run: str, wanted: Any, what: str) -> float:
    """Seconds until the GPUs are as wanted."""
    began = time.monotonic()
    while time.monotonic() - began < LIMIT_S:
        held, used = held_mib(agent, run)
        if wanted(held, used):
            took = time.monotonic() - began
            print(f"{what}: {took:.2f} s (run holds {held:.0f} MiB, in use {used:.0f} MiB)")
            return took
        time.sleep(0.05)
    raise SystemExit(f"{what}: not within {LIMIT_S:.0f} s (run holds {held:.0f} MiB, in use {used:.0f} MiB)")


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
    with tempfile.TemporaryDirectory() as state:
        agent = Agent(state)
        facts = agent.ask("inspect", paths=["/"], pythons=[sys.executable], disks=[], sudo=False)
        print(f"driver {facts['driver']}, {facts['mem_available_mib']:.0f} MiB available")
        _, before = held_mib(agent, "none")
        print("lock:", agent.ask("lock", by="gpu@perf", what="gpu_release"))
        began = time.monotonic()
        run = {
            "id": "gpu-release.single",
            "deployment": "gpu-release",
            "profile": "none",
            "name": "single",
            "role": "single",
            "argv": [sys.executable, "-c", HOLD, str(size)],
            "environment": {},
            "gpus": [0],
            "port": 1,
            "ports": [],
            "by": "gpu@perf",
            "sudo": False,
        }
        record = agent.ask("launch", run=run)
        print(f"launch: {1000 * (time.monotonic() - began):.0f} ms, pid {record['pid']}")
        until(agent, run["id"], lambda held, used: used - before >= size, "memory in use seen after launch")
        until(agent, run["id"], lambda held, used: held >= size, "the run named as its holder after that")
        print("signal:", agent.ask("signal", runs=[run["id"]], processes=[], signal="KILL"))
        until(agent, run["id"], lambda held, used: used - before < 1024, "memory seen free after SIGKILL")
        until(agent, run["id"], lambda held, used: held == 0, "the run off the list after that")
        agent.close()


if __name__ == "__main__":
    main()
