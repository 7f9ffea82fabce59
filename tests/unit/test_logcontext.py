"""What lines mean beside their neighbours: a failure as one, text of users as data, a stop as no crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.domain.logclass import LinePattern
from console.domain.logcontext import LogContext
from console.domain.loghead import KEPT_LINES
from console.domain.logline import LogLine
from console.domain.logpatterns import PLAIN
from console.domain.logprompt import DOUBTFUL_LINES
from console.services.loglines import LogReader

CORPUS = Path(__file__).parent.parent / "cases" / "log_lines.jsonl"
READY = "The server is fired up and ready to roll!"


def read(text: str) -> list[LogLine]:
    """The lines of a log as they are in the end, read one at a time."""
    reader = LogReader()
    reads = [reader.feed(f"{line}\n".encode()) for line in text.removesuffix("\n").split("\n")]
    reads.append(reader.end())
    lines = {line.number: line for read in reads for line in (*read.lines, *read.revised)}
    return list(lines.values())


def seen(text: str) -> list[tuple[str, int | None]]:
    """Class and head of each line."""
    return [(line.line_class, line.head) for line in read(text)]


def classes(text: str) -> list[str]:
    return [line.line_class for line in read(text)]


def corpus() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def logged(cases: list[dict[str, Any]]) -> str:
    return "".join(f"{case['line']}\n" for case in cases)


def incidents() -> list[list[dict[str, Any]]]:
    """The labelled lines, those of one incident together."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for number, case in enumerate(corpus()):
        groups.setdefault(case.get("group", str(number)), []).append(case)
    return list(groups.values())


class TestLabelledLines:
    @pytest.mark.parametrize("cases", incidents(), ids=lambda cases: cases[0]["line"][:60])
    def test_each_has_its_class_among_its_neighbours(self, cases: list[dict[str, Any]]) -> None:
        assert classes(logged(cases)) == [case["class"] for case in cases]

    def test_each_has_its_class_in_one_log_of_all(self) -> None:
        """Hours apart and of several servers: nothing is taken for a consequence or a part of another."""
        assert classes(logged(corpus())) == [case["class"] for case in corpus()]


class TestTracebacks:
    def test_four_ranks_that_die_together_are_one_failure(self) -> None:
        """A04: interleaved, a failing signal handler, and a last traceback that is not the cause."""
        lines = read(
            """\
[2026-11-02 05:51:58 TP1] Scheduler hit an exception: Traceback (most recent call last):
  File ".../managers/scheduler.py", line 4639, in run_scheduler_process
[2026-11-02 05:51:58 TP0] Scheduler hit an exception: Traceback (most recent call last):
    scheduler.run_event_loop()
  File ".../managers/scheduler.py", line 4639, in run_scheduler_process
    scheduler.run_event_loop()
RuntimeError: Prefill out of memory. Try to lower your batch size.
[2026-11-02 05:51:58] SIGQUIT received. signum=None, frame=None. It usually means one child failed.
--- Logging error ---
Traceback (most recent call last):
  File "/usr/lib/python3.12/logging/__init__.py", line 1164, in emit
    self.flush()
RuntimeError: reentrant call inside <_io.BufferedWriter name='<stderr>'>
Call stack:
Message: 'SIGQUIT received. signum=None, frame=None. It usually means one child failed.'
torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error
"""
        )
        assert {line.line_class for line in lines} == {"fatal"}
        assert [line.head for line in lines] == [None] + [1] * 15

    def test_a_lone_traceback_is_as_bad_as_its_cause(self) -> None:
        frames = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    main()\n'
        assert seen(frames + "ValueError: no\n") == [("error", None), *[("error", 1)] * 3]
        assert seen(frames + "torch.OutOfMemoryError: CUDA out of memory. Tried\n") == [
            ("fatal", None),
            *[("fatal", 1)] * 3,
        ]

    def test_an_exception_while_another_is_handled_belongs_to_the_first(self) -> None:
        assert seen(
            """\
[2026-06-17 16:25:06] ERROR:    Exception in ASGI application
Traceback (most recent call last):
  File "x.py", line 1, in a
ValueError: one

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "x.py", line 2, in b
KeyError: 'two'
[2026-06-17 16:25:06] a message
"""
        ) == [
            ("error", None),
            *[("error", 1)] * 3,
            ("benign", 1),
            ("error", 1),
            ("benign", 1),
            *[("error", 1)] * 3,
            ("plain", None),
        ]

    def test_a_group_of_exceptions_is_indented_throughout(self) -> None:
        lines = read(
            """\
[2026-06-17 16:25:06] ERROR:    Exception in ASGI application
  + Exception Group Traceback (most recent call last):
  |   File "x.py", line 1, in a
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    | KeyError: 'two'
    +------------------------------------
"""
        )
        assert [line.head for line in lines] == [None] + [1] * 7

    def test_lines_of_others_within_a_traceback_are_their_own(self) -> None:
        assert seen(
            """\
[2026-06-17 16:50:01 DP1 TP2] Scheduler hit an exception: Traceback (most recent call last):
  File "x.py", line 1, in a
[2026-06-17 16:50:01 DP0 TP0] Decode batch, #running-req: 1
gpu7:99:99 [3] NCCL INFO NET/IB : No device found.
    a()
Capturing batches (bs=1):  50%|#####     | 1/2 [00:01<00:01,  1.0s/it]
AssertionError
print() of somebody
"""
        ) == [
            ("fatal", None),
            ("fatal", 1),
            ("stats", None),
            ("benign", None),
            ("fatal", 1),
            ("progress", None),
            ("fatal", 1),
            ("fatal", 1),
        ]

    def test_a_traceback_without_a_cause_does_not_wait_for_ever(self) -> None:
        torn = "[2026-06-17 16:25:06] ERROR:    Traceback (most recent call last):\n"
        others = "[2026-06-17 16:25:07] a message\n" * 100
        assert seen(torn + others + "ValueError: of another\n")[-1] == ("error", None)

    def test_torch_names_the_rank_on_each_line(self) -> None:
        assert seen(
            """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "x.py", line 1, in <module>
[rank0]:     main()
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB
"""
        ) == [("fatal", None), *[("fatal", 1)] * 3]

    def test_advice_below_an_error_belongs_to_it(self) -> None:
        lines = read(
            """\
Process SpawnProcess-1:
Traceback (most recent call last):
  File "process.py", line 314, in _bootstrap
torch.AcceleratorError: CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported at some other API call.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
[rank0]:[W1102 10:12:07.1 P.cpp:1250] Warning: process group has NOT been destroyed
"""
        )
        assert [(line.line_class, line.head) for line in lines] == [
            ("fatal", None),
            *[("fatal", 1)] * 6,
            ("benign", None),
        ]

    def test_a_crash_in_native_code_with_its_dumps_is_one_failure(self) -> None:
        """The server may have been idle for hours, and none of these lines but the last has a date."""
        lines = read(
            """\
[2026-06-17 12:00:00 TP0] Decode batch, #running-req: 1
[rank2]:[E617 16:50:01.003000000 P.cpp:2057] [Rank 2] watchdog thread terminated with exception: x
Exception raised from c10_cuda_check at /pytorch/c10/cuda/CUDAException.cpp:43 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f)

terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 2 PG GUID 3 Rank 2] Process group watchdog thread terminated
Fatal Python error: Aborted

Thread 0x00007f3c2a7fe640 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Extension modules: numpy.core._multiarray_umath, torch._C (total: 120)
[2026-06-17 16:50:03] Subprocess scheduler_2 (pid=6122) crashed with exit code -6. Triggering SIGQUIT
"""
        )
        assert [line.head for line in lines] == [None, None] + [2] * 12
        assert {line.line_class for line in lines[1:]} == {"fatal", "benign"}

    def test_what_fails_long_after_a_failure_is_another(self) -> None:
        """A taken bootstrap port is fatal for the pair, yet that server goes on."""
        port = "[2026-06-17 16:22:01] Server error: error while attempting to bind on address ('::', 8)\n"
        crash = "[2026-06-17 16:{}:40 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        assert seen(port + crash.format("22")) == [("fatal", None), ("fatal", 1)]
        assert seen(port + crash.format("24")) == [("fatal", None), ("fatal", None)]

    def test_a_new_run_owes_nothing_to_the_one_before(self) -> None:
        """A01: a log that is appended to."""
        assert seen(
            """\
[2026-11-02 09:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):
[2026-11-02 09:00:07] server_args=ServerArgs(model_path='/m')
[2026-11-02 09:00:08 TP0] Scheduler hit an exception: Traceback (most recent call last):
"""
        ) == [("fatal", None), ("config", None), ("fatal", None)]

    def test_a_message_that_a_user_has_reclassed_takes_its_frames_along(self) -> None:
        reader = LogReader([LinePattern("benign", "known bug")])
        lines = reader.feed(
            b"[2026-11-02 09:00:00] known bug Traceback (most recent call last):\n  File x\nValueError: y\n"
        ).lines
        assert [line.line_class for line in lines] == ["benign"] * 3


class TestRepeats:
    def test_one_message_of_several_ranks_belongs_together(self) -> None:
        message = "Failed to load the fused kernel: no such file"
        log = "".join(f"[2026-11-02 10:10:01 TP{rank}] {message}\n" for rank in (0, 3, 1))
        assert seen(log) == [("warning", None), ("warning", 1), ("warning", 1)]

    def test_the_same_rank_again_is_no_repeat(self) -> None:
        assert seen("[2026-11-02 10:10:01 TP0] Failed x\n" * 2) == [("warning", None)] * 2

    def test_minutes_later_it_is_another_event(self) -> None:
        log = "[2026-11-02 10:10:01 TP0] Failed x\n[2026-11-02 10:12:01 TP1] Failed x\n"
        assert seen(log) == [("warning", None)] * 2


class TestPythonWarnings:
    def test_the_source_line_below_a_warning_belongs_to_it(self) -> None:
        assert seen(
            """\
/opt/x/launch_server.py:55: UserWarning: 'sglang serve' is the recommended entrypoint.
  Example: sglang serve --model-path <model> [options]
  warnings.warn(
Traceback (most recent call last):
"""
        ) == [("benign", None), ("benign", 1), ("benign", 1), ("error", None)]


class TestLoggedPrompts:
    HEAD = "[2026-06-17 16:58:00] Receive: obj=GenerateReqInput(rid='c3', text='Explain this:\n"

    def test_a_prompt_of_several_lines_is_data_whatever_it_says(self) -> None:
        log = f"""{self.HEAD}\
[2026-06-17 16:58:00] {READY}
Traceback (most recent call last):
RuntimeError: CUDA out of memory. Tried
[2026-06-17 16:59:00 TP0] Scheduler hit an exception: Traceback (most recent call last):
', sampling_params={{'max_new_tokens': 8}}, stream=False)
[2026-06-17 16:58:02] {READY}
"""
        assert seen(log) == [("benign", None), *[("benign", 1)] * 5, ("ready", None)]

    def test_a_pasted_log_is_older_than_the_request(self) -> None:
        pasted = "[2026-06-01 10:00:00 TP0] Scheduler hit an exception: x\n" * (2 * DOUBTFUL_LINES)
        assert set(classes(self.HEAD + pasted + "')\n")) == {"benign"}

    @pytest.mark.parametrize(
        "line",
        [
            "Receive: obj=GenerateReqInput(rid='a', text='it\\'s (unclosed')",
            'Receive: obj=GenerateReqInput(rid="a", text="don\'t", stream=False)',
            "Receive: obj=GenerateReqInput(text='abc' ... 'xyz', image_data=None)",
            "Finish: obj=GenerateReqInput(rid='c'), out={'text': '\"', 'meta_info': {'id': 'c'}}",
            '{"timestamp": "2026", "event": "request.received", "obj": {"text": "it\'s", "stream": false}}',
        ],
    )
    def test_one_line_requests_end_where_they_end(self, line: str) -> None:
        log = f"[2026-06-17 16:58:00] {line}\n[2026-06-17 16:58:01] {READY}\n"
        assert seen(log) == [("benign", None), ("ready", None)]

    def test_a_prompt_that_was_cut_for_display_ends_where_it_ended(self) -> None:
        log = f"[2026-06-17 16:58:00] Receive: obj=G(text='{'a' * 9000}')\n[2026-06-17 16:58:01] {READY}\n"
        assert classes(log) == ["benign", "ready"]
        log = f"[2026-06-17 16:58:00] Receive: obj=G(text='{'a' * 9000}\nKilled\n')\n"
        assert classes(log) == ["benign"] * 3

    def test_a_request_that_was_never_closed_hides_nothing_for_long(self) -> None:
        """The process was killed while it wrote; what comes then is the next run's."""
        own = "[2026-06-17 16:59:00] server_args={'tp_size': 4}\n"
        own += "[2026-06-17 16:59:01 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        own += '  File "x", line 1\n' * 20
        assert classes(self.HEAD + own)[:4] == ["benign", "config", "fatal", "fatal"]

    def test_nor_when_the_next_request_comes(self) -> None:
        own = f"[2026-06-17 16:58:01] {READY}\n[2026-06-17 16:58:02] Receive: obj=G(rid='c4', text='x')\n"
        assert seen(self.HEAD + own) == [("benign", None), ("ready", None), ("benign", None)]

    def test_nor_does_it_when_the_log_ends_first(self) -> None:
        own = "[2026-06-17 16:59:01 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        assert seen(self.HEAD + own + "ValueError: x\n") == [("benign", None), ("fatal", None), ("fatal", 2)]


class TestHealthChecks:
    FAILED = "[2026-06-17 17:00:20] Health check failed. Server couldn't get a response from detokenizer\n"

    @pytest.mark.parametrize(
        "sign",
        [
            "[2026-06-17 17:00:24 TP0] Prefill batch, #new-seq: 1, #new-token: 8192\n",
            "[2026-06-17 17:00:24 DP3 TP0] Decode batch, #running-req: 1\n",
            '[2026-06-17 17:00:24] INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK\n',
        ],
    )
    def test_a_sign_of_life_makes_it_a_busy_server(self, sign: str) -> None:
        busy = (
            '[2026-06-17 17:00:20] INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 503 Service Unavailable\n'
        )
        assert classes(self.FAILED + busy + self.FAILED + sign)[:3] == ["warning", "benign", "warning"]

    def test_silence_leaves_it_an_error(self) -> None:
        late = "[2026-06-17 17:05:00 TP0] Decode batch, #running-req: 1\n"
        hung = "[2026-06-17 17:05:00 TP0] Scheduler watchdog timeout (self.soft=False)\n"
        assert classes(self.FAILED + late) == ["error", "stats"]
        assert classes(self.FAILED + hung) == ["error", "fatal"]

    def test_after_a_failure_it_is_a_consequence(self) -> None:
        crash = "[2026-06-17 17:00:00 TP0] Scheduler hit an exception: x\n"
        assert seen(crash + self.FAILED) == [("fatal", None), ("error", 1)]


class TestStops:
    ORDER = "[2026-06-17 17:10:00] SIGTERM received. signum=None frame=None. Draining requests\n"
    ENDS = """\
[2026-06-17 17:10:06] kill_process_tree called: parent_pid=1, include_parent=True, pid=1
[2026-06-17 17:10:06] Subprocess scheduler_0 (pid=6120) crashed with exit code -15. Triggering SIGQUIT
[2026-06-17 17:10:06] SIGQUIT received. signum=None, frame=None. It usually means one child failed.
/usr/bin/bash: line 1:  5857 Killed                  python3 -m sglang.launch_server
"""

    def test_ends_in_an_ordered_stop_are_no_crash(self) -> None:
        assert classes(self.ORDER + self.ENDS) == ["warning", *["benign"] * 4]

    def test_without_an_order_they_are(self) -> None:
        """`kill_process_tree` alone is said in every stop, and beside a failure a part of it."""
        assert seen(self.ENDS) == [("benign", None), ("fatal", None), ("fatal", 2), ("fatal", 2)]

    def test_ranks_that_lose_each_other_in_a_stop_are_worth_a_warning(self) -> None:
        lost = """\
[2026-06-17 17:10:06 TP1] Scheduler hit an exception: Traceback (most recent call last):
  File "x.py", line 1, in a
RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer
"""
        assert seen(self.ORDER + lost) == [("warning", None), ("warning", None), *[("warning", 2)] * 2]

    def test_a_stop_that_came_to_nothing_excuses_nothing_for_ever(self) -> None:
        later = "[2026-06-17 17:20:00] Subprocess scheduler_0 (pid=1) crashed with exit code -9. x\n"
        assert classes(self.ORDER + later) == ["warning", "fatal"]

    def test_a_long_drain_is_a_stop_all_the_while(self) -> None:
        drain = "".join(
            f"[2026-06-17 17:{10 + second // 60}:{second % 60:02}] Gracefully exiting... Remaining number\n"
            for second in range(0, 600, 5)
        )
        end = "[2026-06-17 17:20:03] Subprocess scheduler_0 (pid=1) crashed with exit code -15. x\n"
        assert classes(self.ORDER + drain + end)[-1] == "benign"

    def test_a_request_that_was_cancelled_is_no_order(self) -> None:
        cancelled = """\
[2026-06-17 17:10:00] ERROR:    Exception in ASGI application
Traceback (most recent call last):
asyncio.exceptions.CancelledError
"""
        assert classes(cancelled + self.ENDS)[:5] == ["warning"] * 3 + ["benign", "fatal"]

    def test_ctrl_c_is_an_order_too(self) -> None:
        stopped = 'Traceback (most recent call last):\n  File "x.py", line 1, in a\nKeyboardInterrupt\n'
        assert classes(stopped + self.ENDS) == ["warning"] * 3 + ["benign"] * 4


class TestHangs:
    DUMP = """\
[2026-06-17 17:00:00 TP0] Scheduler debug info:
self.cur_batch.batch_size()=3
[2026-06-17 17:00:01 TP0] Pyspy dump for PID 6120 (py-spy dump --native --pid 6120):
Process 6120: sglang::scheduler_TP0
Thread 6120 (active): "MainThread"
    run_batch (sglang/srt/managers/scheduler.py:2100)
"""
    TIMEOUT = (
        "[2026-06-17 17:00:01 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft={})\n"
    )
    END = "[2026-06-17 17:00:06] SIGQUIT received. signum=None, frame=None. It usually means\n"

    def test_a_dump_and_its_end_are_one_failure(self) -> None:
        assert seen(self.DUMP + self.TIMEOUT.format(False) + self.END) == [
            ("fatal", None),
            *[("fatal", 1)] * 7,
        ]

    def test_the_soft_watchdog_only_warns(self) -> None:
        after = "[2026-06-17 17:00:09 TP0] Scheduler hit an exception: x\n"
        assert seen(self.DUMP + self.TIMEOUT.format(True) + after) == [
            ("warning", None),
            *[("warning", 1)] * 6,
            ("fatal", None),
        ]


class TestReadiness:
    def test_a_ready_line_after_a_failed_warm_up_is_not_believed(self) -> None:
        failed = "[2026-06-17 17:00:20] Disaggregation warmup failed (mode=decode), status codes: [500]\n"
        begun = "[2026-06-17 17:05:00] server_args={'tp_size': 4}\n"
        ready = f"[2026-06-17 17:05:20] {READY}\n"
        assert classes(failed + ready) == ["fatal", "warning"]
        assert classes(failed + begun + ready) == ["fatal", "config", "ready"]


class TestRouters:
    URLS = 'mode: PrefillDecode { prefill_urls: [("http://h:1", Some(8998))], decode_urls: ["http://h:2"] }'
    BEGUN = (
        f"2026-06-17 16:30:00  INFO smg::server: server.rs:794: Starting router on 0.0.0.0:8000 | {URLS}\n"
    )
    STEP = (
        "2026-06-17 16:30:01  WARN smg::workflow::event: event.rs:233: Step failed step_id=x will_retry={}\n"
    )
    JOINED = (
        "2026-06-17 16:30:03  INFO smg::core: activate.rs:31: Activated 1 worker(s) (marked as healthy)\n"
    )

    def test_failing_steps_are_normal_while_a_worker_loads(self) -> None:
        log = self.BEGUN + self.STEP.format("true") + self.JOINED + self.STEP.format("true")
        assert classes(log) == ["config", "benign", "ready", "benign"]

    def test_they_are_not_when_all_workers_are_in(self) -> None:
        assert classes(self.BEGUN + 2 * self.JOINED + self.STEP.format("true"))[-1] == "warning"

    def test_nor_when_it_gives_up(self) -> None:
        assert classes(self.BEGUN + self.STEP.format("false"))[-1] == "error"


class TestBounds:
    def test_a_traceback_without_end_is_not_kept(self) -> None:
        reader = LogReader()
        reader.feed(b"Traceback (most recent call last):\n" + b"  File\n" * (10 * KEPT_LINES))
        revised = reader.feed(b"RuntimeError: CUDA error: x\n").revised
        assert len(revised) == KEPT_LINES

    def test_a_log_that_says_nothing_special_costs_no_state(self) -> None:
        context = LogContext()
        quiet = {name: value for name, value in vars(context).items() if name != "revised"}
        for number in range(1000):
            context.feed(number, "a line", PLAIN)
        assert {name: value for name, value in vars(context).items() if name != "revised"} == quiet
        assert context.revised == []
