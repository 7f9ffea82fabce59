"""What a stopped deployment left behind."""

from __future__ import annotations

from collections.abc import Iterable

from console.domain.gpu import GpuProcess

from .seen import Seen


def left_behind(seen: Seen) -> str:
    """`2 processes, 202042 MiB still held on GPU 0,1`, or whose processes live where no GPU is held."""
    runs = [part.run for part in seen.parts if part.run.alive]
    ours = {run.pid for run in runs} | {None}
    held = {
        gpu.index: [process for process in gpu.processes or () if process.server_pid in ours]
        for gpu in seen.report.gpus
        if any(gpu.index in run.gpus for run in runs)
    }
    held = {index: processes for index, processes in held.items() if processes}
    if not held:
        return f"processes of {' and '.join(run.name for run in runs)} still live"
    processes = [process for on_gpu in held.values() for process in on_gpu]
    count = len({process.pid for process in processes})
    gpus = ",".join(str(index) for index in sorted(held))
    return f"{count} process{'es' if count > 1 else ''}{_memory(processes)} still held on GPU {gpus}"


def _memory(processes: Iterable[GpuProcess]) -> str:
    known = [process.mem_mib for process in processes if process.mem_mib is not None]
    return f", {sum(known):.0f} MiB" if known else ""
