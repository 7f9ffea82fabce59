"""Known causes: which line gives which away, and what it says to do."""

# ruff: noqa: E501 - log lines are quoted whole

from collections.abc import Sequence

import pytest

from console.domain.causes import CAUSES, Cause, cause_of, next_step
from console.domain.incident import Incident
from console.domain.logevidence import after_line
from console.domain.readiness import Evidence
from console.domain.server import Role
from console.domain.startup import Phase
from console.services.loglines import LogReader

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 94.97 GiB"
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
HEADER = "[2026-11-02 09:03:00 {}] Scheduler hit an exception: Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("line", "phase", "cause"),
    [
        ("sglang serve: error: unrecognized arguments: --disaggregation-decode-tp 4", "launching", "flag-unknown"),
        ("launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode", "launching", "flag-ambiguous"),
        ("sglang serve: error: argument --moe-runner-backend: invalid choice: 'marlinn'", "launching", "flag-value"),
        ("sglang serve: error: the following arguments are required: --model-path", "launching", "flag-missing"),
        ("OSError: /models/x does not appear to have a file named config.json.", "launching", "model-missing"),
        ("ValueError: The checkpoint you are trying to load has model type `deepseek_v4`", "launching", "model-unknown"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", "loading", "checkpoint-damaged"),
        ("ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use", "warming up", "port-taken"),
        ("Server error: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8998): address already in use", "launching", "bootstrap-port-taken"),
        ("torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 31000", "launching", "nccl-port-taken"),
        ("RuntimeError: Address already in use (os error 98)", "launching", "router-port-taken"),
        (OOM, "loading", "memory-weights"),
        (OOM, "capturing graphs", "memory-graphs"),
        (OOM, None, "memory-serving"),
        ("Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 512.00 MiB.", "launching", "memory-graphs"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "loading", "memory-kv"),
        ("RuntimeError: Prefill out of memory. Try to lower your batch size.", None, "memory-prefill"),
        ("[ 8200.1] Out of memory: Killed process 6120 (sglang::schedul) total-vm:512000000kB", None, "memory-host"),
        ("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.", "launching", "memory-unbalanced"),
        (ILLEGAL, None, "illegal-access"),
        ("[ 8124.0] NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus.", None, "gpu-lost"),
        ("[ 8124.0] NVRM: Xid (PCI:0000:41:00): 31, pid=6120, MMU Fault", None, "xid"),
        ("tvm.error.InternalError: Assertion error (/deepgemm/csrc/apis/hyperconnection.hpp:56): Unsupported architecture", "loading", "gpu-architecture"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12040).", "launching", "driver-mismatch"),
        ("RuntimeError: CUDA error: invalid device ordinal", "launching", "gpu-missing"),
        ("RuntimeError: CUDA error: device-side assert triggered", None, "cuda-error"),
        ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled cuda error", None, "nccl"),
        ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)", None, "collective-timeout"),
        ("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:43121", None, "peer-ended"),
        ("[2026-11-02 09:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", None, "watchdog"),
        ("OSError: [Errno 28] No space left on device: '/var/log/core'", None, "disk-full"),
        ("PermissionError: [Errno 13] Permission denied: '/models/x/config.json'", "launching", "permission-denied"),
        ("ModuleNotFoundError: No module named 'sglang'", "launching", "import-error"),
        ("ImportError: libnvrtc.so.13: cannot open shared object file: No such file or directory", "launching", "import-error"),
        ("RuntimeError: KV cache dtype mismatch: prefill server has kv_cache_dtype=fp8_e4m3, but decode server has kv_cache_dtype=bfloat16.", None, "roles-differ"),
        ("nixl_cu12._bindings.nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT", None, "nixl-disconnected"),
        ("[2026-11-02 09:00:00 TP0] Prefill bootstrap failed for request rank=0 req.rid='8c2d'", None, "bootstrap-failed"),
        ("[2026-11-02 09:00:00 TP0] Decode transfer failed for request rank=0 with exception KVTransferError", None, "kv-transfer-failed"),
        ("[2026-11-02 09:00:00 TP0] Lost connection with prefill instance (bootstrap_addr: 127.0.0.1:8998), 3 requests affected", None, "prefill-lost"),
        ("Killed", None, "killed"),
        ("/usr/bin/bash: line 1:  5857 Killed                  python3 -m sglang.launch_server", None, "killed"),
        ("[1]+  Killed                  python3 -m sglang.launch_server", None, "killed"),
        ("[2026-11-02 09:00:00] Subprocess scheduler_0 (pid=6120) crashed with exit code -9. Triggering SIGQUIT", None, "killed"),
        ("server exited with code 137", None, "killed"),
        ("Killed: 9 requests were dropped", None, None),
        ("RuntimeError: something new", None, None),
    ],
)  # fmt: skip
def test_a_line_gives_its_cause_away(line: str, phase: Phase | None, cause: str | None) -> None:
    found = cause_of(line, phase)
    assert (found and found.id) == cause


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_every_row_can_be_reached_and_reads_as_a_sentence(cause: Cause) -> None:
    phase = cause.phases[0] if cause.phases else None
    ids = {found.id for marker in cause.markers if (found := cause_of(marker, phase, cause.frames))}
    assert cause.id in ids
    for said in (cause.sentence, cause.next):
        assert not said.endswith(".")
        assert not said[0].isspace()


def test_the_frames_tell_a_marlin_kernel_from_any_other() -> None:
    frame = '  File "/opt/venv/sglang/srt/layers/moe/fused_moe_triton/fused_marlin_moe.py", line 53, in swiglu_limit_func'
    found = cause_of(ILLEGAL, "capturing graphs", [HEADER, frame])
    assert found is not None
    assert found.id == "marlin-expert-parallel"
    assert "--ep-size" in found.next


@pytest.mark.parametrize(
    ("role", "again"),
    [
        ("single", "start it again"),
        ("prefill", "restart the pair, both roles"),
        ("decode", "restart the pair, both roles"),
        ("router", "start the router again"),
        (None, "start it again"),
    ],
)
def test_one_role_of_a_pair_is_never_started_alone(role: Role | None, again: str) -> None:
    assert next_step(cause_of(OOM), role).endswith(f"; then {again}")


def test_what_only_a_pair_can_have_restarts_the_pair_whoever_wrote_it() -> None:
    advice = next_step(cause_of("NIXL_ERR_REMOTE_DISCONNECT"), lives=True)
    assert advice.endswith("; if requests go on failing, restart the pair, both roles")


def test_a_lost_card_is_not_started_again() -> None:
    assert "start it again:" in next_step(cause_of("GPU has fallen off the bus"))
    assert not next_step(cause_of("GPU has fallen off the bus")).endswith("start it again")


def test_a_clients_mistake_restarts_nothing() -> None:
    advice = next_step(cause_of("Invalid request: Disaggregated request received without bootstrap room id."))
    assert "start" not in advice


def failure(lines: Sequence[str]) -> Incident:
    """The first cause that these lines of a server that is starting give."""
    evidence = Evidence()
    for line in LogReader().feed("".join(f"{line}\n" for line in lines).encode()).lines:
        evidence = after_line(evidence, line)
    assert evidence.failure is not None
    return evidence.failure


class TestFirstCause:
    def test_four_ranks_that_die_together_are_one_incident(self) -> None:
        """Case A04."""
        incident = failure(
            [
                HEADER.format("TP1"),
                '  File ".../managers/scheduler.py", line 4639, in run_scheduler_process',
                HEADER.format("TP0"),
                "    scheduler.run_event_loop()",
                '  File ".../managers/scheduler.py", line 4639, in run_scheduler_process',
                "    scheduler.run_event_loop()",
                "RuntimeError: Prefill out of memory. Try to lower your batch size.",
                "[2026-11-02 09:03:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
                "--- Logging error ---",
                "Traceback (most recent call last):",
                '  File "/usr/lib/python3.12/logging/__init__.py", line 1164, in emit',
                "    self.flush()",
                "RuntimeError: reentrant call inside <_io.BufferedWriter name='<stderr>'>",
                "Call stack:",
                "Message: 'SIGQUIT received. signum=None, frame=None. It usually means one child failed.'",
                "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
            ]
        )
        assert incident.ranks == ("TP1", "TP0")
        assert incident.text == "RuntimeError: Prefill out of memory. Try to lower your batch size."
        assert (incident.head.number, incident.said.number) == (1, 7)
        assert [line.number for line in incident.lines] == [1, 2, 3, 4, 5, 6, 7]
        assert [(found.sort, found.first.number) for found in incident.consequences] == [
            ("child-died", 8),
            ("signal-handler", 13),
            ("peer-ended", 16),
        ]

    def test_the_rank_that_lost_another_is_not_the_cause_although_it_spoke_first(self) -> None:
        incident = failure(
            [
                HEADER.format("TP0"),
                "torch.distributed.DistBackendError: NCCL error in: x.cpp:3690, unhandled cuda error",
                HEADER.format("TP2"),
                '  File "x.py", line 1, in forward',
                ILLEGAL,
            ]
        )
        assert incident.ranks == ("TP2", "TP0")
        assert incident.said.text == ILLEGAL
        assert [line.number for line in incident.lines] == [3, 4, 5]
        assert [found.sort for found in incident.consequences] == ["nccl"]

    def test_an_nccl_error_alone_is_the_cause(self) -> None:
        incident = failure([HEADER.format("TP0"), "RuntimeError: NCCL error: unhandled cuda error"])
        assert incident.cause is not None
        assert incident.cause.id == "nccl"

    def test_a_report_of_death_gives_way_to_what_explains_it(self) -> None:
        incident = failure(
            [
                "[2026-11-02 09:03:00] Received sigquit from a child process. It usually means the child failed.",
                HEADER.format("TP0"),
                OOM,
            ]
        )
        assert incident.text == OOM

    def test_of_chained_exceptions_the_last_says_most(self) -> None:
        incident = failure(
            [
                HEADER.format("TP0"),
                OOM,
                "",
                "During handling of the above exception, another exception occurred:",
                "",
                "Traceback (most recent call last):",
                '  File "x.py", line 9, in capture',
                "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.",
                "Possible solutions:",
                "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
            ]
        )
        assert incident.text.startswith("Exception: Capture cuda graph failed")
        assert incident.cause is not None
        assert incident.cause.id == "memory-graphs"
        assert incident.lines[-1].text.startswith("1. set --mem-fraction-static")

    def test_the_title_of_a_stack_dump_gives_way_to_the_timeout_below_it(self) -> None:
        incident = failure(
            [
                "[2026-11-02 09:03:00 TP0] Scheduler debug info:",
                "[2026-11-02 09:03:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
                "[2026-11-02 09:03:05] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
            ]
        )
        assert incident.cause is not None
        assert incident.cause.id == "watchdog"

    def test_a_crash_inside_nixl_is_told_from_other_crashes(self) -> None:
        incident = failure(
            [
                "Fatal Python error: Segmentation fault",
                "",
                "Current thread 0x00007f3c2a7fe640 (most recent call first):",
                '  File "/opt/venv/lib/python3.11/site-packages/nixl_cu12/_api.py", line 780 in add_remote_agent',
            ]
        )
        assert incident.cause is not None
        assert incident.cause.id == "nixl-crash"

    def test_a_traceback_of_thousands_of_frames_is_kept_in_part(self) -> None:
        frames = [f'  File "x.py", line {number}, in f' for number in range(5000)]
        incident = failure([HEADER.format("TP0"), *frames, ILLEGAL])
        assert incident.lines[0].number == 1
        assert incident.lines[-1].text == ILLEGAL
        assert len(incident.lines) == 40

    def test_a_flood_of_consequences_is_a_counter(self) -> None:
        sigquit = "[2026-11-02 09:03:05] SIGQUIT received. signum=None, frame=None. It usually means one child failed."
        incident = failure([HEADER.format("TP0"), ILLEGAL, *[sigquit] * 1000])
        assert [(found.sort, found.count) for found in incident.consequences] == [("child-died", 1000)]
