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


class DoesNotFitError(Exception):
    """The server does not fit on its GPUs. The text is the last line of the real traceback."""


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
        raise DoesNotFitError(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
            f"capacity of {MEMORY_MIB / 1024:.2f} GiB of which {max(0.0, free_gb % 2):.2f} GiB is free."
        )
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
