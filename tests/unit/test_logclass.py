"""What one line says, judged alone: wordings by family, of many models, ranks, versions and paths."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain import (
    logclass,
    logcontext,
    logfacts,
    logfields,
    logline,
    logprefix,
    logprompt,
    printable,
)
from console.domain.logclass import LinePattern, classify, judge_with
from console.domain.logline import LineClass
from console.domain.logprefix import prefix_of, rank_numbers, rank_of
from console.domain.worstcase import shape_of
from console.services import loglines

READY = "The server is fired up and ready to roll!"


def stamped(message: str) -> str:
    return f"[2026-11-02 10:15:42 TP0] {message}"


def is_of(line_class: LineClass, *lines: str) -> list[tuple[LineClass, str]]:
    return [(line_class, line) for line in lines]


START_UP = (
    *is_of(
        "progress",
        stamped("Init torch distributed ends. elapsed=17.02 s, mem usage=1.94 GB"),
        stamped("Load weight begin. avail mem=139.13 GB"),
        stamped("Memory pool end. avail mem=3.05 GB"),
        stamped(
            "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 99, KV size: 1 GB"
        ),
        stamped("Capture draft decode CUDA graph begin. backend=full, num_tokens_per_bs=1, avail mem=1 GB"),
        stamped("Capture draft cuda graph begin. This can take up to several minutes. avail mem=9.51 GB"),
        "[2026-11-02 10:15:42] INFO:     Started server process [17]",
        "INFO:     Application startup complete.",
        "[2026-11-02 10:15:42] Start of pd disaggregation warmup ...",
        "Fetching 163 files:  17%|█▋        | 28/163 [02:11<09:47,  4.35s/it]",
        "model-00007.safetensors:  43%|████▎     | 2.10G/4.90G [00:10<00:13, 210MB/s]",
        "  0%|          | 0/58 [00:00<?, ?it/s]",
        "gpu7:99:99 [3] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 8 - Init COMPLETE",
        "2026-11-02 10:15:42  INFO smg::server: server.rs:985: Router ready | workers: []",
        "2026-11-02 10:15:42 NIXL INFO    _api.py:268 Initialized NIXL agent: 89ca6eed",
    ),
    *is_of(
        "config",
        "[2026-11-02 10:15:42] server_args=ServerArgs(model_path='/m', log_level='error')",
        stamped("Use flashinfer_mxfp4 as MoE runner backend for DeepseekV4ForCausalLM."),
        stamped("Setting KV cache dtype to fp8_e4m3 for DeepseekV4ForCausalLM."),
        "[2026-11-02 10:15:42] sglang is using nccl==2.27.7",
        "NCCL version 2.27.7+cuda12.9",
        "gpu7:99:99 [3] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels",
        "gpu7:99:99 [3] NCCL INFO Channel 05/0 : 3[3] -> 4[4] via P2P/CUMEM",
        "gpu7:99:99 [3] NCCL INFO NCCL_DEBUG set by environment to INFO.",
    ),
    *is_of("ready", f"[2026-11-02 10:15:42] {READY}", f"[2026-11-02 10:15:42.001] {READY}"),
)

HARMLESS = is_of(
    "benign",
    "",
    "   ",
    stamped("Ignore import error when loading sglang.srt.models.glm4v_moe: No module named 'x'"),
    "[Gloo] Rank 0 is connected to 0 peer ranks. Expected number of connected peer ranks is : 0",
    stamped("Using FP8 KV cache but no scaling factors provided. Defaulting to 1.0."),
    stamped("CustomAllreduce is disabled because it's not supported on more than two PCIe-only GPUs."),
    stamped("Using default MoE kernel config. Performance might be sub-optimal! Config file not found at /x"),
    "gpu-box:41890:41890 [0] NCCL INFO PROFILER/Plugin: Could not find: libnccl-profiler.so.",
    "gpu-box:1:1 [7] NCCL INFO NET/IB : No device found.",
    "[rank0]:[W1102 10:12:07.1079 P.cpp:1250] Warning: process group has NOT been destroyed before",
    "[rank3]:[W1102 10:12:07.1 P.cpp:1] Warning: destroy_process_group() was not called before program exit",
    stamped('INFO:     127.0.0.1:50112 - "GET /v1/error_codes HTTP/1.1" 200 OK'),
    stamped('INFO:     10.0.0.9:50113 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request'),
    stamped('INFO:     127.0.0.1:50113 - "GET /health HTTP/1.1" 503 Service Unavailable'),
    stamped('INFO:     127.0.0.1:50113 - "GET /health_generate HTTP/1.1" 503 Service Unavailable'),
    "/opt/x/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked semaphore",
    stamped("Watchdog DetokenizerManager initialized."),
    stamped("Health check request received during shutdown. Returning 503."),
    stamped("kill_process_tree called: parent_pid=1, include_parent=False, pid=77"),
    "2026-11-02 10:15:42  WARN smg::workflow::event: event.rs:233: Step failed step_id=x will_retry=true",
    "/bin/bash: line 12: 99 Terminated              python -m sglang.launch_server",
    "Terminated",
    "[2026-11-02 10:15:42] Scheduler or DataParallelController 12 terminated with 0",
    "nohup: ignoring input",
)

DATA = is_of(
    "benign",
    stamped(f"Receive: obj=GenerateReqInput(text='{READY}')"),
    stamped("Receive: obj=GenerateReqInput(text='Scheduler hit an exception: ')"),
    stamped("Receive OpenAI: obj={'messages': [{'content': 'CUDA error: out of memory. '}]}"),
    "[2026-11-02 10:15:42] Finish: obj=GenerateReqInput(rid='1'), out={'text': 'Killed'}",
    '[2026-11-02 10:15:42] {"timestamp": "2026-11-02T10:15:42", "event": "request.finished", "x": "Killed"}',
)

FAILURES = (
    *is_of(
        "fatal",
        stamped("DetokenizerManager hit an exception: Traceback (most recent call last):"),
        stamped("Disaggregation warmup failed (mode=decode), status codes: [500]"),
        stamped("End of prefill disaggregation mode warmup with status 500, resp: x"),
        stamped("TokenizerManager watchdog timeout (self.watchdog_timeout=60.0, self.soft=False)"),
        stamped("Watchdog timeout (self.watchdog_timeout=300)"),
        "[2026-11-02 10:15:42] Subprocess detokenizer (pid=9) crashed with exit code -11. Triggering SIGQUIT",
        "[2026-11-02 10:15:42] Scheduler or DataParallelController 12 terminated with -9",
        "[2026-11-02 10:15:42] ERROR:    [Errno 98] error while attempting to bind on address ('::', 8)",
        "RuntimeError: Address already in use (os error 98)",
        "ValueError: Page size mismatch: decode server has page_size=64, but prefill server has 32.",
        "torch.AcceleratorError: CUDA error: device-side assert triggered",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 6 has a total",
        "OSError: /m/x is not a local folder and is not a valid model identifier listed on 'https://hf.co'",
        "[rank5]:[E1102 10:12:07.1 P.cpp:1] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(",
        "gpu7:99:99 [3] misc/x.cc:1 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "[  77.000001] NVRM: Xid (PCI:0000:01:00): 13, pid='<unknown>', name=<unknown>",
        "[  77.000001] NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.",
        "[  77.000001] Memory cgroup out of memory: Killed process 41931 (sglang::detoken) total-vm:1kB",
        "Segmentation fault (core dumped)",
        "/tmp/run.sh: line 3:    41 Aborted                 (core dumped) python3 -m sglang.launch_server",
        "[1]+  Killed                  python -m sglang.launch_server",
        "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-x",
        "sglang serve: error: the following arguments are required: --model-path/--model",
        "/opt/venv/bin/python: No module named sglang",
        "thread 'main' panicked at src/main.rs:12:5:",
    ),
    *is_of(
        "error",
        stamped('INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error'),
        "ERROR:    Exception in ASGI application",
        "ERROR:asyncio:Task exception was never retrieved",
        "Traceback (most recent call last):",
        "Exception in thread Thread-7 (_bootstrap_thread):",
        "Process SpawnProcess-3:",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for X",
        stamped("KVTransferError(bootstrap_room=8123): Aborted by AbortReq"),
        "2026-11-02 10:15:42 ERROR smg::x: x.rs:1: Failed to select PD pair error=No available",
        "2026-11-02 10:15:42  WARN smg::core::worker: w.rs:9: HTTP health check failed for http://h:1/health:",
        "2026-11-02 10:15:42,345 - ERROR - autotuner.py:256 - flashinfer.jit: cannot build",
        "[1718640000.123456] [gpuhost:6120 :0]  tcp_ep.c:1240 UCX  ERROR tcp_ep 0x1: failed",
        "OSError: [Errno 28] No space left on device",
    ),
    *is_of(
        "warning",
        stamped("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)"),
        stamped("Failed to do what nobody has seen before"),
        stamped("Grammar compilation failed for rid 7"),
        stamped("Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.4 -> 0.9"),
        "[2026-11-02 10:15:42] Schedulers still alive 15s after ShutdownReq, killing them…",
        "WARNING:  Current configuration will not reload",
        "W1102 10:12:07.000000 9372 torch/x.py:630] something nobody has seen before",
        "gpu7:99:99 [3] NCCL INFO Channel 05/0 : 3[3] -> 4[4] via SHM/direct/direct",
        "2026-11-02 10:15:42  WARN smg::policies: p.rs:1: something nobody has seen before",
        "2026-11-02 10:15:42  INFO smg::core: c.rs:1: Circuit breaker state transition: closed -> open w=x",
        "'--disable-piecewise-cuda-graph' is deprecated and will be removed in a future release.",
    ),
)

NOTHING_SPECIAL = is_of(
    "plain",
    READY,
    stamped(f"User said: [2026-11-02 10:15:42] {READY}"),
    f"[2026-11-02 10:15:42] [2026-11-02 10:15:42] {READY}",
    '    raise RuntimeError("CUDA out of memory. Tried")',
    '  File "/opt/venv/x/error.py", line 12, in fail',
    stamped("a message that no table knows"),
    "2026-11-02 10:15:42  INFO smg::x: x.rs:1: nothing special",
)


@pytest.mark.parametrize(("expected", "line"), [*START_UP, *HARMLESS, *DATA, *FAILURES, *NOTHING_SPECIAL])
def test_class(expected: LineClass, line: str) -> None:
    assert classify(line) == expected


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=200))
def test_any_text_has_a_class_and_none_is_ready(text: str) -> None:
    assert classify(text) != "ready"


class TestPatternsOfTheUser:
    def test_the_first_that_fits_holds(self) -> None:
        patterns = [LinePattern("error", "spill"), LinePattern("benign", "spill to disk")]
        assert judge_with(patterns, "spill to disk").line_class == "error"

    def test_an_expression_is_asked_where_the_literal_stands(self) -> None:
        patterns = [LinePattern("warning", "took", re.compile(r"took \d{4,} ms"))]
        classes = [judge_with(patterns, stamped(f"took {ms} ms")).line_class for ms in ("12", "12345")]
        assert classes == ["plain", "warning"]

    def test_what_the_line_means_to_its_neighbours_stays(self) -> None:
        patterns = [LinePattern("benign", "SIGTERM")]
        assert judge_with(patterns, stamped("SIGTERM received. x")) == ("benign", "stop")

    def test_a_logged_prompt_stays_data(self) -> None:
        patterns = [LinePattern("fatal", "marker")]
        assert judge_with(patterns, stamped("Receive: obj=X(text='marker')")).line_class == "benign"


class TestPrefix:
    @pytest.mark.parametrize(
        ("line", "stamp", "ranks", "message"),
        [
            ("[2026-11-02 10:15:42] x", "2026-11-02 10:15:42", "", "x"),
            ("[2026-11-02 10:15:42 TP3] x", "2026-11-02 10:15:42", "TP3", "x"),
            ("[2026-11-02 10:15:42.123 DP1 TP0 EP7] x", "2026-11-02 10:15:42.123", "DP1 TP0 EP7", "x"),
            (
                "[2026-11-02 10:15:42 DP0 ATTN_CP2 MOE_DP1] x",
                "2026-11-02 10:15:42",
                "DP0 ATTN_CP2 MOE_DP1",
                "x",
            ),
            ("[rank2]: RuntimeError: x", None, "rank2", "RuntimeError: x"),
            ("2026-11-02 10:15:42  INFO smg::x: y", "2026-11-02 10:15:42", "", "INFO smg::x: y"),
            ("no prefix at all", None, "", "no prefix at all"),
            ("[TP0] Decode batch", None, "", "[TP0] Decode batch"),
        ],
    )
    def test_stamp_ranks_and_message(self, line: str, stamp: str | None, ranks: str, message: str) -> None:
        prefix = prefix_of(line)
        assert (prefix.stamp, prefix.ranks, line[prefix.end :]) == (stamp, ranks, message)
        assert rank_of(line) == (ranks or None)

    def test_the_numbers_of_ranks(self) -> None:
        assert rank_numbers("DP1 ATTN_CP0 TP12") == {"DP": 1, "ATTN_CP": 0, "TP": 12}


def own_expressions() -> list[re.Pattern[str]]:
    modules = (logclass, logcontext, logfields, logline, logprefix, logprompt, printable, loglines)
    named = [value for module in modules for value in vars(module).values() if isinstance(value, re.Pattern)]
    return [*named, *(pattern for _, pattern in logfacts.FACTS), logfacts.SETTING]


@pytest.mark.parametrize("pattern", own_expressions(), ids=lambda pattern: pattern.pattern[:40])
def test_no_expression_is_slow_on_the_lines_that_are_worst_for_it(pattern: re.Pattern[str]) -> None:
    """A06: a quadratic one takes 0.1 s on these, a cubic one minutes."""
    began = time.process_time()
    for line in shape_of(pattern.pattern).worst_lines(2048):
        pattern.findall(line)
    assert time.process_time() - began < 2.0


def test_a_router_that_is_asked_before_it_is_ready_makes_no_error() -> None:
    line = (
        '2026-11-30 02:27:37 ERROR http_request{method=GET uri=/readiness version=HTTP/1.1 module="smg"'
        ' request_id="req-W" status_code=503 latency=144}: smg::response: middleware.rs:349: request failed'
    )
    assert classify(line) == "benign"
    assert classify(line.replace("/readiness", "/v1/completions")) == "error"
