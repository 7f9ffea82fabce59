"""How a server starts: the stages of SGLang 0.5.23 with DeepSeek-V4-Flash, in their order and words."""

from __future__ import annotations

import asyncio
import os
import time
from typing import NamedTuple

from demohost.clock import start_s

from sglang import nccl
from sglang.log import ServerLog, progress_bar, timing
from sglang.memory import DECODE_CAPTURE, PREFILL_CAPTURE, CaptureAdvice, check_capture
from sglang.server_args import ARCHITECTURE, PAGE_SIZE, ServerArgs
from sglang.serving import Serving

_SHARDS = 46
_SHARES = {"args": 0.03, "init": 0.06, "load": 0.42, "pool": 0.03, "capture": 0.28, "serve": 0.02}
"""Of the whole start; the rest is the warm-up."""
_SHARD_STEP = 4
_PREFILL_SIZES = (256, 512, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192)


class _Capture(NamedTuple):
    """What graphs are captured, and the words for it."""

    name: str
    sizes: tuple[int, ...]
    label: str
    setting: str
    advice: CaptureAdvice
    captured: str = ""


class StartUp:
    """Runs the stages up to the HTTP server, which is started between `prepare` and `warm_up`."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._args, self._plan, self._log = serving.args, serving.plan, serving.log
        self._free_gb = self._plan.free_gb

    async def prepare(self) -> None:
        """Everything that comes before the port is opened. Raises DoesNotFitError."""
        began = time.monotonic()
        await self._init_parallel()
        await self._load_weights()
        await self._allocate_pools()
        await self._capture_graphs()
        self._summarise()
        self._serving.startup_times["scheduler_e2e"] = time.monotonic() - began
        self._begin_http()

    async def warm_up(self) -> None:
        """Everything from the open port to the ready line."""
        port = self._args.port % 20000 + 40000
        self._log.uvicorn(
            "INFO", f"Uvicorn running on http://{self._args.host}:{self._args.port} (Press CTRL+C to quit)"
        )
        await _take(1.0 - sum(_SHARES.values()))
        self._log.uvicorn("INFO", f'127.0.0.1:{port} - "GET /model_info HTTP/1.1" 200 OK')
        if self._args.role != "single":
            self._log.line("Start of pd disaggregation warmup ...")
        self._log.uvicorn("INFO", f'127.0.0.1:{port + 2} - "POST /generate HTTP/1.1" 200 OK')
        if self._args.role != "single":
            self._log.line("Disaggregation warmup requests completed for all 1 DP ranks")
            self._log.line("End of disaggregation warmup")
        self._serving.status = "up"
        self._serving.tick()
        self._log.line("The server is fired up and ready to roll!")

    async def _init_parallel(self) -> None:
        began = time.monotonic()
        self._each_rank("Init parallel begin.")
        self._log.line(f"sglang is using nccl=={nccl.VERSION}", rank=0)
        if self._args.tp_size > 1:
            self._tell_nccl()
        await _take(_SHARES["init"])
        self._each_rank(f"Init parallel ends. elapsed={time.monotonic() - began:.2f} s")
        if self._args.tp_size > 2 and not self._args.resolved["disable_custom_all_reduce"]:
            self._log.line(
                "CustomAllreduce is disabled because it's not supported on more than two PCIe-only GPUs. "
                "To silence this warning, specify disable_custom_all_reduce=True explicitly.",
                rank=0,
            )

    def _tell_nccl(self) -> None:
        for rank, pid in enumerate(self._serving.ranks):
            for line in nccl.lines(rank, pid):
                self._log.raw(f"{line}\n")

    async def _load_weights(self) -> None:
        began = time.monotonic()
        self._each_rank(f"Load weight begin. avail mem={self._free_gb:.2f} GB")
        for done in (*range(0, _SHARDS, _SHARD_STEP), _SHARDS):
            elapsed = time.monotonic() - began
            self._log.raw(
                f"Loading safetensors checkpoint shards: {100 * done / _SHARDS:3.0f}% Completed | "
                f"{done}/{_SHARDS} {timing(done, _SHARDS, elapsed)}\n"
            )
            self._serving.publish("loading", self._plan.mib(weights=done / _SHARDS, kv=False, graphs=0), 0.6)
            await _take(_SHARES["load"] * _SHARD_STEP / _SHARDS)
        elapsed = self._serving.startup_times["load_weight"] = time.monotonic() - began
        self._free_gb -= self._plan.weights_gb
        self._each_rank(
            f"Load weight end. elapsed={elapsed:.2f} s, type={ARCHITECTURE}, quant=fp8, "
            f"avail mem={self._free_gb:.2f} GB, mem usage={self._plan.weights_gb:.2f} GB."
        )

    async def _allocate_pools(self) -> None:
        plan = self._plan
        self._log.line(
            f"DSV4 memory calculation: unified=False, unified_fp8=False, dspark_draft_bf16=False, "
            f"bytes_per_full_token={plan.kv_gb * 2**30 / plan.tokens:.2f}, "
            f"available_bytes={plan.kv_gb:.2f} GB, "
            f"c128_state_fixed=0.14 GB, c2_state_fixed=0.00 GB, swa_fixed=0.00 GB, swa_ring_fixed=0.00 GB, "
            f"full_token={plan.tokens}",
            rank=0,
        )
        self._log.line(
            f"DSV4 pool sizes: full={plan.tokens}, swa={plan.swa_tokens}, c4={plan.tokens // 4}, "
            f"c128={plan.tokens // 128}, c4_state=2048, c128_state=32768",
            rank=0,
        )
        await _take(_SHARES["pool"])
        self._free_gb -= plan.kv_gb
        self._each_rank(
            f"KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: {plan.tokens}, "
            f"KV size: {plan.kv_gb:.2f} GB"
        )
        self._each_rank(f"Memory pool end. avail mem={self._free_gb:.2f} GB")

    async def _capture_graphs(self) -> None:
        capture = _capture_of(self._args)
        if not capture.sizes:
            self._log.line(
                "Disable decode CUDA graph because cuda_graph_config resolved decode.backend='disabled'.",
                rank=0,
            )
            return
        began = time.monotonic()
        self._each_rank(
            f"Capture {capture.name} CUDA graph begin. {capture.setting}, avail mem={self._free_gb:.2f} GB"
        )
        await self._draw_capture(capture, began)
        self._free_gb -= self._plan.graph_gb
        elapsed = time.monotonic() - began
        self._each_rank(
            f"Capture {capture.name} CUDA graph end. {capture.captured}elapsed={elapsed:.2f} s, "
            f"mem usage={self._plan.graph_gb:.2f} GB, avail mem={self._free_gb:.2f} GB."
        )

    async def _draw_capture(self, capture: _Capture, began: float) -> None:
        """The bar is repainted by carriage returns and ends in a line end, as tqdm's does."""
        sizes = capture.sizes
        for done, size in enumerate(reversed(sizes)):
            free_gb = self._free_gb - self._plan.graph_gb * done / len(sizes)
            label = f"Capturing {capture.label}={size} avail_mem={free_gb:.2f} GB)"
            held = self._plan.mib(graphs=done / len(sizes))
            self._serving.publish("capturing", held, 0.5)
            check_capture(capture.advice, self._free_gb)
            for drawn in (done, done + 1):
                self._log.raw("\r" + progress_bar(label, drawn, len(sizes), time.monotonic() - began))
                await _take(_SHARES["capture"] / len(sizes) / 2)
        self._log.raw("\n")

    def _summarise(self) -> None:
        resolved = self._args.resolved
        self._log.line(
            f"max_total_num_tokens={self._plan.tokens}, "
            f"chunked_prefill_size={resolved['chunked_prefill_size']}, "
            f"max_prefill_tokens={resolved['max_prefill_tokens']}, "
            f"max_running_requests={resolved['max_running_requests']}, "
            f"context_len={resolved['context_length']}, available_gpu_mem={self._free_gb:.2f} GB",
            rank=0,
        )
        cache = "SWAChunkCache" if self._args.role == "decode" else "SWARadixCache"
        self._log.line(
            f"Tree cache initialized: source=default impl={cache} hybrid_swa=True hybrid_ssm=False "
            "hicache_attached=False",
            rank=0,
        )
        if self._args.role != "single" and resolved["disaggregation_transfer_backend"] == "nixl":
            self._each_rank("NIXL KVManager initialized with backend: UCX")

    def _begin_http(self) -> None:
        self._log.uvicorn("INFO", f"Started server process [{os.getpid()}]")
        self._log.uvicorn("INFO", "Waiting for application startup.")
        self._log.uvicorn("INFO", "Application startup complete.")

    def _each_rank(self, text: str) -> None:
        for rank in range(self._args.tp_size):
            self._log.line(text, rank)


def announce(args: ServerArgs, log: ServerLog) -> None:
    """What is said before anything is done: all arguments, and what SGLang decides for this model."""
    resolved = args.resolved
    if args.role == "decode" and resolved["disable_radix_cache"]:
        log.line("Radix cache is disabled for decode server")
    log.line(f"Setting swa_full_tokens_ratio to 0.1 for {ARCHITECTURE}.")
    log.line(f"Use dsv4 attention backend for {ARCHITECTURE}, setting page_size to {PAGE_SIZE}.")
    log.line(f"Use {resolved['moe_runner_backend']} as MoE runner backend for {ARCHITECTURE}.")
    log.line(f"Setting KV cache dtype to {resolved['kv_cache_dtype']} for {ARCHITECTURE}.")
    log.line(f"Setting max_running_requests to {resolved['max_running_requests']} for {ARCHITECTURE}.")
    log.line(f"server_args={resolved}")
    log.line("Watchdog TokenizerManager initialized.")


def _capture_of(args: ServerArgs) -> _Capture:
    if args.role == "prefill":
        setting = f"backend=breakable, num_tokens={list(_PREFILL_SIZES)}"
        label = "num tokens (num_tokens"
        return _Capture("target prefill", _PREFILL_SIZES, label, setting, PREFILL_CAPTURE)
    name = "target verify" if args.speculates else "target decode"
    setting = f"backend=full, num_tokens_per_req={max(1, args.draft_tokens)}"
    captured = f"bs={list(args.graph_sizes)}, "
    return _Capture(name, args.graph_sizes, "batches (bs", setting, DECODE_CAPTURE, captured)


async def _take(share: float) -> None:
    await asyncio.sleep(start_s() * max(0.0, share))
