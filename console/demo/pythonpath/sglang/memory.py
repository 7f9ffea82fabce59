"""How a server divides the memory of each of its GPUs. GB are 2**30 bytes, as in SGLang."""

from __future__ import annotations

from typing import NamedTuple

from demohost.cards import MEMORY_MIB, RESERVED_MIB, gpu_count

from sglang.server_args import PAGE_SIZE, ServerArgs

MODEL_GB = 167.28
"""All weights together; each GPU holds its share."""
CONTEXT_GB = 0.85
TOKENS_PER_GB = 9204
SWA_SHARE = 0.1
_GRAPH_GB_EACH = 0.012
_GRAPH_GB_BASE = 0.35
_CAPTURE_GB = 2.0
"""What a capture needs for itself while it runs; a mem-fraction-static of 0.97 leaves more, 0.98 less."""


class CaptureAdvice(NamedTuple):
    """How a failed capture is told, in the words of 0.5.23 (srt/model_executor/runner_backend_utils)."""

    failure: str
    text: str


_ISSUE = "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose "

DECODE_CAPTURE = CaptureAdvice(
    "Capture cuda graph failed",
    "Possible solutions:\n"
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n"
    "3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. "
    f"(Not recommended. Huge performance loss)\n{_ISSUE}",
)
PREFILL_CAPTURE = CaptureAdvice(
    "Capture prefill CUDA graph failed",
    "Fail when using backend: breakable for prefill runner.\nPossible suggestions:\n"
    "1. disable the prefill CUDA graph by --cuda-graph-backend-prefill=disabled\n"
    "2. if it is an OOM problem, set --mem-fraction-static to a smaller value "
    "(e.g., 0.8 or 0.7) or set --cuda-graph-max-bs-prefill to a smaller value "
    f"(e.g., 2048)\n{_ISSUE}",
)


class DoesNotFitError(Exception):
    """The server does not fit on its GPUs. The text is the log's below the head of the traceback."""


class MemoryPlan(NamedTuple):
    """What will be held on each GPU once the server serves."""

    free_gb: float
    """Before the weights."""
    weights_gb: float
    kv_gb: float
    graph_gb: float
    tokens: int
    """What the KV cache takes."""

    @property
    def swa_tokens(self) -> int:
        """What the sliding-window part of the KV cache takes."""
        return int(self.tokens * SWA_SHARE)

    def mib(self, *, weights: float = 1.0, kv: bool = True, graphs: float = 1.0) -> float:
        """Memory held with that share of the weights loaded, and so on."""
        held = CONTEXT_GB + self.weights_gb * weights + (self.kv_gb if kv else 0.0) + self.graph_gb * graphs
        return held * 1024


def plan_memory(args: ServerArgs, held_mib: float) -> MemoryPlan:
    """Divide a GPU on which others hold `held_mib`. Raises DoesNotFitError."""
    if max(args.gpus) >= gpu_count():
        raise DoesNotFitError("torch.AcceleratorError: CUDA error: invalid device ordinal")
    free_gb = (MEMORY_MIB - RESERVED_MIB - held_mib) / 1024 - CONTEXT_GB
    weights_gb = MODEL_GB / args.tp_size
    if weights_gb > free_gb:
        raise DoesNotFitError(f"torch.OutOfMemoryError: {_out_of_memory(max(0.0, free_gb % 2))}")
    kv_gb = free_gb * args.mem_fraction - weights_gb
    if kv_gb <= 0:
        raise DoesNotFitError(
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: mem_fraction_static={args.mem_fraction}"
        )
    return MemoryPlan(
        free_gb=free_gb,
        weights_gb=weights_gb,
        kv_gb=kv_gb,
        graph_gb=_GRAPH_GB_BASE + _GRAPH_GB_EACH * len(args.graph_sizes),
        tokens=int(kv_gb * TOKENS_PER_GB) // PAGE_SIZE * PAGE_SIZE,
    )


def check_capture(advice: CaptureAdvice, free_gb: float) -> None:
    """Is there room on a GPU to capture graphs? Raises DoesNotFitError."""
    if free_gb < _CAPTURE_GB:
        raise DoesNotFitError(f"Exception: {advice.failure}: {_out_of_memory(free_gb)}\n{advice.text}")


def _out_of_memory(free_gb: float) -> str:
    return (
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        f"{MEMORY_MIB / 1024:.2f} GiB of which {free_gb:.2f} GiB is free."
    )
