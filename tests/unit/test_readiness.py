"""Ready is a conclusion: each way to it, and each way out of it."""

# ruff: noqa: E501 - log lines are quoted whole

import pytest

from console.domain.logline import LineClass, LogLine
from console.domain.readiness import (
    STUCK_S,
    Evidence,
    Health,
    RunState,
    after_health,
    after_line,
    after_look,
    after_output,
    after_revision,
    after_work,
    conclude,
)
from console.domain.startup import STALL_LIMIT_S
from console.domain.timeline import written_at
from console.services.loglines import LogReader

ARGS = "[2026-11-02 09:00:07] server_args=ServerArgs(model_path='/m', port=30000)"
READY = "[2026-11-02 09:06:40] The server is fired up and ready to roll!"
CRASH = "[2026-11-02 11:04:19 TP3] Scheduler hit an exception: Traceback (most recent call last):"
CUDA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
SIGTERM = (
    "[2026-11-02 22:10:03] SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
)
SHARDS = "Loading safetensors checkpoint shards:  50% Completed | 23/46 [01:02<01:02,  2.70s/it]"


def read(evidence: Evidence, *texts: str) -> Evidence:
    """The evidence after these lines, classed as the console classes them."""
    for line in LogReader().feed("".join(f"{text}\n" for text in texts).encode()).lines:
        evidence = after_line(evidence, line, written_at(line.text))
    return evidence


def classed(evidence: Evidence, text: str, line_class: LineClass, number: int = 1) -> Evidence:
    return after_line(evidence, LogLine(number, text, line_class), written_at(text))


def ready() -> Evidence:
    return after_health(read(Evidence(), ARGS, READY), "green")


class TestStarting:
    @pytest.mark.parametrize(
        ("lines", "state", "reason"),
        [
            ([ARGS], "launching", "launching"),
            ([ARGS, "[2026-11-02 09:00:20 TP0] Init parallel begin."], "launching", "launching joining the ranks"),
            ([ARGS, "[2026-11-02 09:00:31 TP2] Load weight begin. avail mem=94.12 GB"], "loading", "loading weights"),
            ([ARGS, SHARDS], "loading", "loading 23/46 shards 62 s"),
            (
                [
                    ARGS,
                    "[2026-11-02 09:02:31 TP0] Load weight end. elapsed=85.31 s, type=DeepseekV4ForCausalLM,"
                    " quant=fp8, avail mem=52.30 GB, mem usage=41.82 GB.",
                ],
                "loading",
                "loading weights are in, 41.8 GB 85 s",
            ),
            (
                [
                    ARGS,
                    "[2026-11-02 09:03:00 TP0] Capture target decode CUDA graph begin. backend=full, bs=[1, 2]",
                    "Capturing batches (bs=248 avail_mem=9.42 GB):  12%|#2        | 4/36 [00:11<01:24,  2.65s/it]",
                ],
                "capturing graphs",
                "capturing graphs target decode, 4/36 graphs 11 s",
            ),
            ([ARGS, "[2026-11-02 09:06:00] INFO:     Application startup complete."], "warming up", "warming up HTTP server"),
        ],
    )  # fmt: skip
    def test_each_phase_says_how_far_it_is(self, lines: list[str], state: RunState, reason: str) -> None:
        assert conclude(read(Evidence(), *lines))[:2] == (state, reason)

    def test_a_slow_rank_does_not_turn_the_clock_back(self) -> None:
        evidence = read(
            Evidence(),
            ARGS,
            "[2026-11-02 09:03:00 TP0] Capture target decode CUDA graph begin. backend=full, bs=[1, 2]",
            "[2026-11-02 09:03:01 TP3] Load weight end. elapsed=86.0 s, avail mem=52.30 GB, mem usage=41.82 GB.",
        )
        assert conclude(evidence).state == "capturing graphs"

    def test_the_leading_rank_may_load_a_draft_model_after_its_graphs(self) -> None:
        evidence = read(
            Evidence(),
            ARGS,
            "[2026-11-02 09:03:00 TP0] Capture target decode CUDA graph begin. backend=full, bs=[1, 2]",
            "[2026-11-02 09:03:09 TP0] Load weight begin. avail mem=9.12 GB",
        )
        assert conclude(evidence).state == "loading"

    def test_the_bar_that_is_still_being_drawn_counts(self) -> None:
        live = LogReader().feed(SHARDS.encode()).live
        assert live is not None
        assert conclude(after_line(read(Evidence(), ARGS), live)).reason == "loading 23/46 shards 62 s"

    def test_the_ready_line_alone_is_not_ready(self) -> None:
        assert conclude(read(Evidence(), ARGS, READY)).state == "warming up"

    def test_a_green_port_without_the_ready_line_is_still_starting(self) -> None:
        state, reason, _ = conclude(after_health(read(Evidence(), ARGS), "green"))
        assert state == "launching"
        assert reason == "launching; the port answers, the ready line has not come"

    @pytest.mark.parametrize("phase", list(STALL_LIMIT_S))
    def test_silence_is_a_stall_after_as_long_as_the_phase_allows(self, phase: str) -> None:
        lines = {
            "launching": ARGS,
            "loading": "[2026-11-02 09:00:31 TP0] Load weight begin. avail mem=94.12 GB",
            "capturing graphs": "[2026-11-02 09:03:00 TP0] Capture cuda graph begin. avail mem=9.51 GB",
            "warming up": "[2026-11-02 09:06:00] INFO:     Application startup complete.",
        }
        evidence = after_output(read(Evidence(), ARGS, lines[phase]), 1000.0)
        limit = STALL_LIMIT_S[phase]  # type: ignore[index] # the keys of the table itself
        assert conclude(evidence, 1000.0 + limit).state == phase
        state, reason, since = conclude(evidence, 1001.0 + limit)
        assert (state, since) == ("stalled", 1000.0)
        assert f"while {phase}" in str(reason)
        assert conclude(after_output(evidence, 1001.0 + limit), 1002.0 + limit).state == phase


class TestReady:
    def test_line_and_green_health_are_ready_since_the_line(self) -> None:
        assert conclude(ready()) == ("ready", None, written_at(READY))

    def test_without_the_log_of_its_start_green_health_is_enough(self) -> None:
        assert conclude(after_health(Evidence(), "green")).state == "ready"

    def test_a_saved_log_is_taken_at_its_word(self) -> None:
        assert conclude(read(Evidence(log_alone=True), ARGS, READY)).state == "ready"

    def test_yesterdays_ready_line_does_not_count(self) -> None:
        evidence = read(Evidence(), ARGS, READY, SIGTERM, ARGS)
        assert conclude(after_health(evidence, "refused")).state == "launching"
        assert not evidence.ready_line

    def test_yesterdays_crash_does_not_paint_today_red(self) -> None:
        evidence = read(Evidence(), ARGS, CRASH, CUDA, ARGS, READY)
        assert conclude(after_health(evidence, "green")).state == "ready"

    def test_a_logged_prompt_with_the_ready_sentence_is_no_news(self) -> None:
        prompt = "[2026-11-02 09:01:00] Receive: obj=GenerateReqInput(text='The server is fired up and ready to roll!')"
        assert not read(Evidence(), ARGS, prompt).ready_line

    def test_a_ready_line_that_turns_out_to_be_data_is_taken_back(self) -> None:
        evidence = classed(read(Evidence(), ARGS), READY, "ready", number=7)
        assert not after_revision(evidence, LogLine(7, READY, "benign")).ready_line

    def test_a_router_waits_for_all_of_its_workers(self) -> None:
        begin = (
            "2026-11-02 09:00:00  INFO smg::server: src/server.rs:794: Starting router on 0.0.0.0:8000 | mode:"
            ' PrefillDecode { prefill_urls: [("http://127.0.0.1:30000", Some(8998))], decode_urls:'
            ' ["http://127.0.0.1:30001"] }'
        )
        one = "2026-11-02 09:00:05  INFO smg::core: src/activate.rs:31: Activated 1 worker(s) (marked as healthy)"
        evidence = read(Evidence(log_alone=True), begin, one)
        assert conclude(evidence)[:2] == ("warming up", "warming up 1/2 workers")
        assert conclude(read(evidence, one)).state == "ready"


class TestNoLatch:
    def test_a_later_fatal_line_takes_ready_away_and_tells_how_long_it_was_ready(self) -> None:
        """Case A02, second log."""
        began = "[2026-11-02 11:03:10] The server is fired up and ready to roll!"
        evidence = after_health(read(Evidence(), ARGS, began), "green")
        state, reason, since = conclude(read(evidence, CRASH, CUDA))
        assert (state, since) == ("crashed", written_at(CRASH))
        assert str(reason).startswith("was ready for 69 s, then TP3: ")
        assert str(reason).endswith(CUDA)

    def test_a_failure_before_the_ready_line_makes_it_a_lie(self) -> None:
        """Case C03, as SGLang 0.5.15 does it: the warm-up is answered by whoever holds the port."""
        taken = (
            "[2026-11-02 09:00:30] ERROR:    [Errno 98] error while attempting to bind on address"
            " ('0.0.0.0', 30000): address already in use"
        )
        evidence = after_health(read(Evidence(), ARGS, taken, READY), "green")
        assert conclude(evidence).state == "failed"
        assert evidence.failure is not None
        assert evidence.failure.cause is not None
        assert evidence.failure.cause.id == "port-taken"

    @pytest.mark.parametrize("line_class", ["fatal", "error"])
    def test_a_failed_pd_warmup_is_a_failure_although_the_ready_line_follows(
        self, line_class: LineClass
    ) -> None:
        failed = "[2026-11-02 09:06:30] Disaggregation warmup failed (mode=decode), status codes: [500]"
        evidence = read(classed(read(Evidence(), ARGS), failed, line_class), READY)
        assert conclude(after_health(evidence, "red")).state == "failed"

    def test_the_first_cause_stays(self) -> None:
        sigquit = "[2026-11-02 11:04:19] SIGQUIT received. signum=None, frame=None. It usually means one child failed."
        assert read(Evidence(), ARGS, CRASH, CUDA, sigquit).fatal == CUDA

    def test_a_fatal_line_that_turns_out_harmless_is_taken_back(self) -> None:
        evidence = classed(
            ready(), "[2026-11-02 10:00:00] Subprocess scheduler_0 (pid=9) crashed", "fatal", number=9
        )
        assert conclude(evidence).state == "crashed"
        assert conclude(after_revision(evidence, LogLine(9, "", "benign"))).state == "ready"

    @pytest.mark.parametrize(
        ("answers", "state"), [(["red"], "ready"), (["red", "red"], "failed"), (["red", "green"], "ready")]
    )
    def test_one_slow_answer_is_no_death(self, answers: list[Health], state: str) -> None:
        evidence = ready()
        for answer in answers:
            evidence = after_health(evidence, answer, "health 503")
        assert conclude(evidence).state == state

    def test_one_slow_answer_does_not_hide_that_nothing_moves(self) -> None:
        evidence = after_work(ready(), pending=3, moving=False, at=1000.0)
        evidence = after_health(evidence, "red", "health 503")
        assert conclude(evidence, 1001.0).state == "ready"
        assert conclude(evidence, 1001.0 + STUCK_S).state == "stalled"

    def test_a_process_held_by_a_signal_is_told_as_such(self) -> None:
        state, reason, _ = conclude(after_look(ready(), alive=True, kernel_state="T"))
        assert state == "stalled"
        assert "SIGSTOP" in str(reason)

    def test_work_of_which_nothing_moves_is_stuck(self) -> None:
        evidence = after_work(ready(), pending=0, moving=False, at=1000.0)
        evidence = after_work(evidence, pending=3, moving=False, at=1002.0)
        assert conclude(evidence, 1000.0 + STUCK_S).state == "ready"
        assert conclude(evidence, 1001.0 + STUCK_S)[:2] == (
            "stalled",
            "no token for 46 s, with 3 requests at hand",
        )
        assert conclude(after_work(evidence, pending=3, moving=True, at=1046.0), 1047.0).state == "ready"

    @pytest.mark.parametrize("pending", [0, None])
    def test_an_idle_server_and_one_without_metrics_are_not_stuck(self, pending: int | None) -> None:
        evidence = after_work(ready(), pending=pending, moving=False, at=1000.0)
        evidence = after_work(evidence, pending=pending, moving=False, at=9000.0)
        assert conclude(evidence, 9001.0).state == "ready"


class TestDegraded:
    """Case D03: health is green, and every request fails."""

    SIGN = (
        "[2026-11-02 13:00:02 TP1] Decode instance could be dead, remote mooncake session 192.0.2.11:15838"
        " is not alive"
    )
    FAILED = (
        '[2026-11-02 13:00:05] INFO:     127.0.0.1:51002 - "POST /v1/chat/completions HTTP/1.1"'
        " 500 Internal Server Error"
    )
    SERVED = '[2026-11-02 13:10:05] INFO:     127.0.0.1:51002 - "POST /v1/chat/completions HTTP/1.1" 200 OK'

    def test_the_first_sign_and_the_number_of_failed_requests_are_told(self) -> None:
        state, reason, since = conclude(read(ready(), self.SIGN, *[self.FAILED] * 215))
        assert (state, since) == ("degraded", written_at(self.SIGN))
        assert str(reason).startswith(
            "215 requests in a row failed: TP1: prefill holds its decode server for dead"
        )

    def test_the_flood_is_one_consequence_with_a_counter(self) -> None:
        trouble = read(ready(), self.SIGN, *[self.FAILED] * 215).trouble
        assert trouble is not None
        assert [(consequence.sort, consequence.count) for consequence in trouble.consequences] == [
            ("requests-fail", 215)
        ]

    def test_a_request_that_is_served_ends_it(self) -> None:
        assert conclude(read(ready(), self.SIGN, *[self.FAILED] * 5, self.SERVED)).state == "ready"

    def test_tokens_that_flow_end_it_where_requests_are_not_logged(self) -> None:
        evidence = read(ready(), self.SIGN)
        assert conclude(after_work(evidence, pending=1, moving=True, at=1.0)).state == "ready"

    def test_prompts_that_flow_prove_no_transfer(self) -> None:
        evidence = after_health(read(Evidence(role="prefill"), ARGS, READY, self.SIGN), "green")
        assert conclude(after_work(evidence, pending=1, moving=True, at=1.0)).state == "degraded"

    def test_a_few_failed_requests_are_no_state(self) -> None:
        assert conclude(read(ready(), *[self.FAILED] * 2)).state == "ready"

    def test_a_clients_mistake_is_none_of_the_servers(self) -> None:
        mistake = (
            "[2026-11-02 13:00:02 TP0] Invalid request: Disaggregated request received without bootstrap"
            " room id. req.rid='ab12'"
        )
        assert conclude(read(ready(), mistake)).state == "ready"

    def test_a_dead_thread_breaks_a_server_that_looks_healthy(self) -> None:
        """Case D08: the process lives, both health checks are green, every request hangs."""
        evidence = read(
            ready(),
            "Exception in thread Thread-3 (bootstrap_thread):",
            "Traceback (most recent call last):",
            '  File "/opt/venv/lib/python3.11/threading.py", line 1045, in _bootstrap_inner',
            "ValueError: Page size mismatch: decode server has page_size=64, but prefill server has page_size=32."
            " Both servers must use the same --page-size value.",
        )
        assert conclude(after_health(evidence, "green")).state == "crashed"
        assert evidence.failure is not None
        assert evidence.failure.cause is not None
        assert evidence.failure.cause.id == "roles-differ"


class TestEnd:
    def test_a_stop_is_told_while_it_goes_on(self) -> None:
        left = "[2026-11-02 22:10:03] Gracefully exiting... Remaining number of requests 2. Remaining requests x."
        assert conclude(read(ready(), SIGTERM, left))[:2] == ("stopping", "told to stop, 2 requests left")

    def test_what_a_stop_in_order_prints_is_no_failure(self) -> None:
        child = "[2026-11-02 22:10:04] Subprocess scheduler_0 (pid=9) crashed with exit code -15. Triggering SIGQUIT"
        evidence = classed(read(ready(), SIGTERM), child, "fatal")
        assert conclude(after_look(evidence, alive=False))[:2] == ("gone", "stopped in order")

    def test_nor_is_it_when_the_child_is_reported_before_the_order(self) -> None:
        child = "[2026-11-02 22:10:03] Subprocess scheduler_0 (pid=9) crashed with exit code -15. Triggering SIGQUIT"
        evidence = read(classed(ready(), child, "fatal"), SIGTERM)
        assert conclude(after_look(evidence, alive=False))[:2] == ("gone", "stopped in order")

    @pytest.mark.parametrize(
        ("exit_code", "said"),
        [
            (None, "killed from outside, or lost"),
            (137, "killed from outside (signal 9)"),
            (-9, "killed from outside (signal 9)"),
            (1, "ended with exit code 1"),
        ],
    )
    def test_death_in_silence_while_loading(self, exit_code: int | None, said: str) -> None:
        """Case A10: neither loading, nor hung, nor ended in the ordinary way."""
        evidence = after_output(read(Evidence(), ARGS, SHARDS), 1000.0)
        state, reason, _ = conclude(after_look(evidence, alive=False, exit_code=exit_code), 1001.0)
        assert state == "failed"
        assert reason == f"{said}: its log ends without an error message, while loading 23/46 shards 62 s"

    def test_death_in_silence_while_serving_is_a_crash(self) -> None:
        evidence = after_look(after_output(ready(), 1000.0), alive=False)
        assert conclude(evidence).state == "crashed"

    def test_a_bare_traceback_is_how_python_ends(self) -> None:
        evidence = read(
            Evidence(),
            "Traceback (most recent call last):",
            '  File "/opt/venv/lib/python3.11/site-packages/sglang/launch_server.py", line 67, in <module>',
            "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/nope'.",
        )
        state, reason, _ = conclude(after_look(evidence, alive=False))
        assert state == "failed"
        assert "there is no model at the path" in str(reason)

    def test_exit_code_0_is_no_failure(self) -> None:
        assert conclude(after_look(after_output(ready(), 1.0), alive=False, exit_code=0)).state == "gone"

    def test_a_zombie_is_not_alive(self) -> None:
        assert conclude(after_look(Evidence(), alive=True, kernel_state="Z")).state == "gone"
