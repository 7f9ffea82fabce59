"""The server's metrics: names, labels, help texts and buckets of SGLang 0.5.23 (srt/observability)."""

from __future__ import annotations

from demohost.exposition import Histogram, Labels, Metric, Series, page

_TTFT = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_E2E = (*_TTFT, 600, 1200, 1800, 2400)
_ITL = (
    *(0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080),
    *(0.100, 0.200, 0.400, 0.600, 0.800, 1, 2, 4, 6, 8),
)
_QUEUE = (0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 60, 100, 300, 1000, 3000)
_PROMPT = (
    *(100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12500),
    *(15000, 20000, 30000, 40000, 60000, 100000, 200000, 400000, 800000, 1e6),
)
_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)

_GAUGES = {
    "num_running_reqs": "The number of running requests.",
    "num_queue_reqs": "The number of requests in the waiting queue.",
    "num_grammar_queue_reqs": "The number of requests in the grammar waiting queue.",
    "gen_throughput": "The generation throughput (token/s).",
    "cache_hit_rate": "The prefix cache hit rate.",
    "decode_sum_seq_lens": "The sum of all sequence lengths in decode.",
    "token_usage": "The token usage.",
    "full_token_usage": "The token usage for full attention layers.",
    "swa_token_usage": "The token usage for SWA layers.",
    "num_used_tokens": "The number of used tokens.",
    "kv_available_tokens": "Number of free token slots in the KV cache pool.",
    "kv_evictable_tokens": "Number of evictable (radix-cached) token slots in the KV cache pool.",
    "kv_used_tokens": "Number of actively used token slots in the KV cache pool.",
    "spec_accept_length": "Mean acceptance length of speculative decoding "
    "(accepted drafts + bonus token per forward).",
    "spec_accept_rate": "Speculative acceptance rate (`accepted drafts / proposed drafts` in batch).",
    "num_retracted_reqs": "The number of retracted requests.",
    "num_paused_reqs": "The number of paused requests by async weight sync.",
    "num_prefill_bootstrap_queue_reqs": "The number of requests in the prefill bootstrap queue.",
    "num_prefill_inflight_queue_reqs": "The number of requests in the prefill inflight queue.",
    "num_decode_prealloc_queue_reqs": "The number of requests in the decode prealloc queue.",
    "num_decode_transfer_queue_reqs": "The number of requests in the decode transfer queue.",
    "utilization": "The utilization.",
    "is_cuda_graph": "Whether the batch is using CUDA graph.",
    "max_total_num_tokens": "Maximum total number of tokens in the KV cache pool.",
    "page_size": "KV cache page size in tokens.",
    "num_pages": "Number of KV cache pages.",
    "context_len": "Maximum context length.",
    "weight_memory_usage_gb": "Memory used by model weights in GB.",
    "kv_cache_memory_usage_gb": "Memory used by the KV cache pools in GB.",
    "startup_available_gpu_memory_gb": "Available GPU memory in GB at startup.",
}


class Metrics:
    """All metrics of one server. Those of the scheduler carry its rank, those of the HTTP process do not."""

    def __init__(self, engine_type: str, model_name: str) -> None:
        self._common: Labels = (("engine_type", engine_type), ("model_name", model_name))
        self._rank: Labels = (("moe_ep_rank", "0"), ("pp_rank", "0"), ("tp_rank", "0"))
        self.gauges = {
            name: Series("gauge", f"sglang:{name}", help_text) for name, help_text in _GAUGES.items()
        }
        self.realtime_tokens = _counter(
            "realtime_tokens_total",
            "Total number of tokens processed (updated on each log interval). "
            "mode: prefill_compute, prefill_cache, decode.",
        )
        self.bootstrap_failed = _counter(
            "num_bootstrap_failed_reqs_total", "The number of bootstrap failed requests."
        )
        self.transfer_failed = _counter(
            "num_transfer_failed_reqs_total", "The number of transfer failed requests."
        )
        self.queue_time = Histogram(
            "sglang:queue_time_seconds", _QUEUE, "Histogram of queueing time in seconds."
        )
        self.transfer_speed = Histogram(
            "sglang:kv_transfer_speed_gb_s",
            (0.1, 0.5, 1, 5, 10, 25, 50, 100, 200, 400),
            "Histogram of KV cache transfer speed in GB/s.",
        )
        self.transfer_latency = Histogram(
            "sglang:kv_transfer_latency_ms", (*_MS, 5000), "Histogram of KV cache transfer latency in ms."
        )
        self.transfer_total = Histogram(
            "sglang:kv_transfer_total_mb",
            (1, 5, 10, 50, 100, 500, 1000, 5000, 10000),
            "Histogram of KV cache transfer size in MB.",
        )
        self.transfer_bootstrap = Histogram(
            "sglang:kv_transfer_bootstrap_ms", _MS, "Histogram of KV transfer bootstrap time in ms."
        )
        self.transfer_alloc = Histogram(
            "sglang:kv_transfer_alloc_ms", _MS, "Histogram of KV transfer allocation waiting time in ms."
        )
        self.ttft = Histogram(
            "sglang:time_to_first_token_seconds", _TTFT, "Histogram of time to first token in seconds."
        )
        self.itl = Histogram(
            "sglang:inter_token_latency_seconds", _ITL, "Histogram of inter-token latency in seconds."
        )
        self.e2e = Histogram(
            "sglang:e2e_request_latency_seconds", _E2E, "Histogram of End-to-end request latency in seconds"
        )
        self.prompt_lengths = Histogram(
            "sglang:prompt_tokens_histogram", _PROMPT, "Histogram of prompt token length."
        )
        self.generation_lengths = Histogram(
            "sglang:generation_tokens_histogram", _PROMPT, "Histogram of generation token length."
        )
        self.prompt_tokens = _counter("prompt_tokens_total", "Number of prefill tokens processed.")
        self.generation_tokens = _counter("generation_tokens_total", "Number of generation tokens processed.")
        self.cached_tokens = _counter(
            "cached_tokens_total", "Number of cached prompt tokens by source (device/host/storage)."
        )
        self.requests = _counter("num_requests_total", "Number of requests processed.")
        self.aborted = _counter("num_aborted_requests_total", "Number of requests aborted.")
        self.startup_time = Series(
            "gauge", "sglang:startup_time_seconds", "Engine startup duration by phase in seconds."
        )
        self.http_requests = _counter(
            "http_requests_total", "Total number of HTTP requests by endpoint and method"
        )
        self.http_responses = _counter(
            "http_responses_total", "Total number of HTTP responses by endpoint and status code"
        )

    def page(self) -> str:
        """The page of /metrics."""
        scheduler: list[Metric] = [
            *self.gauges.values(),
            *(self.realtime_tokens, self.bootstrap_failed, self.transfer_failed, self.queue_time),
            *(self.transfer_speed, self.transfer_latency, self.transfer_total),
            *(self.transfer_bootstrap, self.transfer_alloc),
        ]
        tokenizer: list[Metric] = [
            *(self.ttft, self.itl, self.e2e, self.prompt_lengths, self.generation_lengths),
            *(self.prompt_tokens, self.generation_tokens, self.cached_tokens),
            *(self.requests, self.aborted, self.startup_time),
        ]
        return (
            page(scheduler, self._common + self._rank)
            + page(tokenizer, self._common)
            + page([self.http_requests, self.http_responses])
        )


def _counter(name: str, help_text: str) -> Series:
    return Series("counter", f"sglang:{name}", help_text)
