"""What the agent costs on a GPU host, against nvidia-smi doing the same: CPU time, start-up left out.

    python3 tests/perf/agent_cost.py                                the GPU sampler alone
    python3 tests/perf/agent_cost.py -- python3 -m console.agent    and the whole agent

It needs nothing but Python 3.8 and, for NVML, pynvml. It exits with 1 when the last one measured takes more
than a third of `nvidia-smi -lms 1000`. Measure with the GPUs at work: plain nvidia-smi takes 5 ms a second
for a busy H200, but 66 ms for one that nobody uses.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SETTLE_S = 5.0
BEAT_S = 2.0
GOAL = 1 / 3

SAME_FIELDS = (
    "index,uuid,name,pci.bus_id,mig.mode.current,utilization.gpu,power.draw.average,power.draw.instant,"
    "enforced.power.limit,memory.used,memory.total,temperature.gpu,clocks.current.sm,clocks_throttle_reasons.active"
)
SMI = ["nvidia-smi", "-lms", "1000"]
PLAIN = " ".join(SMI)
SMI_QUERY = ["nvidia-smi", "--query-gpu=" + SAME_FIELDS, "--format=csv", "-lms", "1000"]


def run_sampler() -> None:
    """The thing measured when no command is given: the sampler, and its report as JSON once a second."""
    sys.path.insert(0, str(REPOSITORY))
    from console.agent.gpus import GpuSampler

    sampler = GpuSampler(1.0)
    sampler.start()
    while True:
        time.sleep(1.0)
        print(json.dumps(sampler.report()), flush=True)


def tree(pid: int) -> list[int]:
    """A process and those that descend from it."""
    children = " ".join(Path(path).read_text() for path in glob.glob(f"/proc/{pid}/task/*/children"))
    return [pid, *(below for child in children.split() for below in tree(int(child)))]


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, to the nanosecond where the kernel keeps schedstat, else to 10 ms."""
    stats = [Path(path).read_text().split() for path in glob.glob(f"/proc/{pid}/task/*/schedstat")]
    if stats:
        return sum(int(stat[0]) for stat in stats) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def keep_alive(process: subprocess.Popen[bytes]) -> None:
    """Send the beats without which the agent ends; other programs do not read them."""
    beat = json.dumps({"op": "beat"}).encode()
    frame = struct.pack(">II", len(beat), 0) + beat
    assert process.stdin is not None
    try:
        while process.poll() is None:
            process.stdin.write(frame)
            process.stdin.flush()
            time.sleep(BEAT_S)
    except (BrokenPipeError, ValueError):
        pass


def drain(process: subprocess.Popen[bytes], seen: list[bytes]) -> None:
    """Read what it prints, as a console would, and keep the last of it."""
    assert process.stdout is not None
    while True:
        data = process.stdout.read1(65536)  # type: ignore[attr-defined] # a BufferedReader
        if not data:
            return
        seen[:] = [data]


def measure(command: list[str], seconds: float) -> float:
    """CPU milliseconds that a command takes in each second, once it has settled."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY)
    seen: list[bytes] = []
    for work in (lambda: keep_alive(process), lambda: drain(process, seen)):
        threading.Thread(target=work, daemon=True).start()
    try:
        time.sleep(SETTLE_S)
        began, before = time.monotonic(), sum(map(cpu_s, tree(process.pid)))
        time.sleep(seconds)
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} ended with {process.returncode}: {b''.join(seen)!r}")
        after = sum(map(cpu_s, tree(process.pid)))
        return 1000.0 * (after - before) / (time.monotonic() - began)
    finally:
        process.kill()
        process.wait()


def main() -> int:
    """Measure one after the other, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to measure each (default 60)")
    parser.add_argument("--sampler", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help="what to measure besides")
    options = parser.parse_args()
    if options.sampler:
        run_sampler()
    measured = {
        PLAIN: SMI,
        "nvidia-smi --query-gpu=... -lms 1000": SMI_QUERY,
        "the GPU sampler at 1 Hz": [sys.executable, str(Path(__file__).resolve()), "--sampler"],
    }
    if options.command:
        measured[" ".join(options.command)] = options.command
    costs: dict[str, float] = {}
    for name, command in measured.items():
        costs[name] = measure(command, options.seconds)
        share = costs[name] / costs[PLAIN]
        print(f"{name:38s} {costs[name]:8.3f} ms of CPU a second, {share:6.3f} of nvidia-smi", flush=True)
    print(f"{'meets' if share <= GOAL else 'MISSES'} the goal of a third: {share:.3f}")
    return 0 if share <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
