"""A server once it is up: its engine and reporter kept going, its state shown to metrics, HTTP and GPUs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from demohost import real_requests, state
from demohost.load import CACHED_TOKENS, PROMPT_TOKENS

from sglang.engine import TRANSFER_GB_S, Engine
from sglang.log import ServerLog
from sglang.memory import MemoryPlan
from sglang.metrics import Metrics
from sglang.peers import Peers
from sglang.reporter import Reporter
from sglang.server_args import CONTEXT_LENGTH, PAGE_SIZE, ServerArgs

Status = Literal["starting", "up", "stopping"]


class Serving:
    """Everything that belongs to one server."""

    def __init__(
        self, folder: Path, args: ServerArgs, plan: MemoryPlan, ranks: tuple[int, ...], log: ServerLog
    ) -> None:
        now = time.time()
        self.args, self.plan, self.log = args, plan, log
        self.status: Status = "starting"
        self.startup_times: dict[str, float] = {}
        self.metrics = Metrics(args.engine_type, args.served_model_name)
        self.engine = Engine(args, plan, self.metrics, now)
        self.reporter = Reporter(args, plan, self.engine, log, now)
        self.ranks = ranks
        """The pid of each rank."""
        self._folder = folder
        self._peers = Peers(folder, args, log)

    @property
    def cache_hit_rate(self) -> float:
        """Of the prefix cache, as of now."""
        on = self.args.role != "decode" and self.engine.load.prompt_tok_s > 0
        return CACHED_TOKENS / PROMPT_TOKENS if on else 0.0

    @property
    def accept_rate(self) -> float:
        """Share of drafted tokens that are accepted."""
        return (self.args.accept_length - 1) / (self.args.draft_tokens - 1) if self.args.speculates else 0.0

    def tick(self) -> None:
        """Do what was to do since the last tick, and say so."""
        now = time.time()
        if self.engine.real:
            real_requests.note(self._folder)
        self.engine.advance(now, self._flowing(now))
        self.reporter.report(now)
        self.publish(self.status_phase, self.plan.mib())

    def _flowing(self, now: float) -> bool:
        """Do simulated users' requests come?"""
        complete = self.status == "up" and self._peers.complete(self.engine.running)
        return complete and not real_requests.are_recent(self._folder, now)

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """One real request is being worked on. Other servers see it before anything is counted of it."""
        real_requests.note(self._folder)
        with self.engine.occupied():
            yield

    @property
    def status_phase(self) -> state.Phase:
        """The status in the words of the GPUs."""
        return "stopping" if self.status == "stopping" else "serving"

    def publish(self, phase: state.Phase, mem_mib: float, intensity: float | None = None) -> None:
        """Show the GPUs what is done to them."""
        pid = os.getpid()
        state.publish(
            self._folder,
            state.Occupant(
                pid=pid,
                start_ticks=state.start_ticks(pid) or 0,
                role=self.args.role,
                gpus=self.args.gpus,
                ranks=self.ranks,
                phase=phase,
                intensity=self.engine.intensity if intensity is None else intensity,
                warmth=self.engine.warmth,
                mem_mib=mem_mib,
                bootstrap_port=self.args.bootstrap_port if self.args.role == "prefill" else None,
            ),
        )

    def metrics_page(self) -> str:
        """The page of /metrics, as of now."""
        engine, plan, gauges = self.engine, self.plan, self.metrics.gauges
        waiting = self.disaggregation()
        values: dict[str, float] = {
            "num_running_reqs": engine.running,
            "num_queue_reqs": engine.queued,
            "gen_throughput": self.reporter.gen_tok_s,
            "cache_hit_rate": self.cache_hit_rate,
            "decode_sum_seq_lens": engine.used_tokens,
            "token_usage": round(engine.usage, 2),
            "full_token_usage": engine.usage,
            "swa_token_usage": engine.usage * 0.5,
            "num_used_tokens": engine.used_tokens,
            "kv_used_tokens": engine.used_tokens,
            "kv_available_tokens": plan.tokens - engine.used_tokens,
            "spec_accept_length": self.args.accept_length if self.args.speculates else 0.0,
            "spec_accept_rate": self.accept_rate,
            "num_prefill_bootstrap_queue_reqs": waiting["prefill_bootstrap_queue_reqs"],
            "num_prefill_inflight_queue_reqs": waiting["prefill_inflight_queue_reqs"],
            "num_decode_prealloc_queue_reqs": waiting["decode_prealloc_queue_reqs"],
            "num_decode_transfer_queue_reqs": waiting["decode_transfer_queue_reqs"],
            "is_cuda_graph": float(bool(self.args.graph_sizes)),
            "max_total_num_tokens": plan.tokens,
            "page_size": PAGE_SIZE,
            "num_pages": plan.tokens // PAGE_SIZE,
            "context_len": self.args.resolved["context_length"] or CONTEXT_LENGTH,
            "weight_memory_usage_gb": plan.weights_gb,
            "kv_cache_memory_usage_gb": plan.kv_gb,
            "startup_available_gpu_memory_gb": plan.free_gb * (1 - self.args.mem_fraction),
        }
        for name, gauge in gauges.items():
            gauge.set(values.get(name, 0.0))
        for phase, seconds in self.startup_times.items():
            self.metrics.startup_time.set(seconds, ("phase", phase))
        return self.metrics.page()

    def disaggregation(self) -> dict[str, Any]:
        """The PD queues, as /v1/loads shows them."""
        prefill, decode = self.args.role == "prefill", self.args.role == "decode"
        swell = self.engine.load.swell
        return {
            "mode": self.args.mode,
            "prefill_bootstrap_queue_reqs": round(swell) if prefill else 0,
            "prefill_inflight_queue_reqs": round(1.6 * swell) if prefill else 0,
            "decode_prealloc_queue_reqs": self.engine.queued if decode else 0,
            "decode_transfer_queue_reqs": round(swell) if decode else 0,
            "decode_retracted_queue_reqs": 0,
            "kv_transfer_speed_gb_s": TRANSFER_GB_S if prefill and swell else 0.0,
            "kv_transfer_latency_ms": 54.6 if prefill and swell else 0.0,
        }
