"""`explain`: the true story of each log, whatever is in it and however its bytes come."""

# ruff: noqa: E501 - log lines are quoted whole

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from console.cli import explain as verb
from console.cli.main import cli
from console.domain.errors import UsageError
from console.domain.timeline import KEPT_ENTRIES, KEPT_RUNS, Story
from console.services.explain import HELD_LINES, Explainer, advice, record, summary
from console.services.loglines import LogReader

CAPTURES = Path(__file__).parent.parent / "captures"
ARGS = "[2026-11-02 09:00:07] server_args=ServerArgs(model_path='/m', tp_size=4, port=30000)"
READY = "[2026-11-02 09:06:40] The server is fired up and ready to roll!"


def story_of(data: bytes | str, *, chunk: int | None = None) -> Story:
    explainer = Explainer()
    raw = data.encode() if isinstance(data, str) else data
    for start in range(0, len(raw), chunk or len(raw) or 1):
        explainer.feed(raw[start : start + (chunk or len(raw))])
    explainer.end()
    return explainer.story()


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["explain", *arguments], input=stdin)


def words(story: Story) -> list[str]:
    """The states of the last run, each once where it repeats."""
    told = [entry.word for entry in story.last.entries]
    return [word for index, word in enumerate(told) if index == 0 or told[index - 1] != word]


STARTED = ["launching", "loading", "warming up", "ready"]


class TestCaptures:
    """Logs of real servers and routers."""

    @pytest.mark.parametrize(
        ("name", "role", "state", "states"),
        [
            ("h200/single.log", "single", "ready", ["launching", "loading", "capturing graphs", "warming up", "ready"]),
            ("cpu/decode.log", "decode", "ready", STARTED),
            ("cpu/prefill.log", "prefill", "ready", STARTED),
            ("cpu/decode.after-restart.log", "decode", "gone", [*STARTED, "degraded", "ready", "stopping", "gone"]),
            ("cpu/prefill.after-restart.log", "prefill", "gone", [*STARTED, "stopping", "gone"]),
            ("cpu/router.log", "router", "stopping", ["launching", "warming up", "error", "ready", "degraded", "ready", "stopping"]),
            ("faults/stopped.log", "single", "gone", [*STARTED, "stopping", "gone"]),
            ("faults/killed-loading.log", "single", "launching", ["launching"]),
        ],
    )  # fmt: skip
    def test_what_went_well_is_told_in_its_steps(
        self, name: str, role: str, state: str, states: list[str]
    ) -> None:
        story = story_of((CAPTURES / name).read_bytes())
        assert len(story.runs) == 1
        assert (story.last.role, story.last.conclusion.state) == (role, state)
        assert words(story) == states
        assert story.last.incident is None

    @pytest.mark.parametrize(
        ("name", "state", "cause", "line"),
        [
            ("model-missing", "failed", "model-missing", 79),
            ("flag-value", "failed", "flag-value", 14),
            ("port-taken", "failed", "port-taken", 50),
            ("nccl-port-taken", "failed", "nccl-port-taken", 74),
            ("bootstrap-port-taken", "failed", "bootstrap-port-taken", 16),
            ("router-port-taken", "failed", "router-port-taken", 26),
            ("scheduler-exception", "failed", None, 106),
            ("scheduler-killed", "crashed", "killed", 58),
        ],
    )
    def test_what_failed_is_told_by_its_first_cause(
        self, name: str, state: str, cause: str | None, line: int
    ) -> None:
        last = story_of((CAPTURES / "faults" / f"{name}.log").read_bytes()).last
        assert last.conclusion.state == state
        assert last.incident is not None
        assert (last.incident.cause and last.incident.cause.id, last.incident.said.number) == (cause, line)

    def test_an_unknown_exception_is_quoted_not_guessed(self) -> None:
        last = story_of((CAPTURES / "faults/scheduler-exception.log").read_bytes()).last
        assert last.incident is not None
        assert last.incident.text == "RuntimeError: 0 active drivers ([]). There should only be one."
        assert "not a known error" in advice(last)

    def test_graph_capture_and_weights_say_what_they_took(self) -> None:
        texts = [entry.text for entry in story_of((CAPTURES / "h200/single.log").read_bytes()).last.entries]
        assert "weights are in, 2.9 GB 0 s" in texts
        assert "target prefill, 66 s" in texts
        assert "after 105 s" in texts


class TestCases:
    def test_an_appended_log_holds_two_runs(self) -> None:
        """Case A01: yesterday's ready line is history."""
        story = story_of(
            "[2026-11-01 18:02:11] server_args=ServerArgs(model_path='/m', tp_size=4, port=30000)\n"
            "[2026-11-01 18:06:40] The server is fired up and ready to roll!\n"
            "[2026-11-01 22:10:03] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
            f"{ARGS}\n[2026-11-02 09:00:31 TP0] Load weight begin. avail mem=177.41 GB\n"
        )
        assert [(told.first, told.last, told.conclusion.state) for told in story.runs] == [
            (1, 3, "gone"),
            (4, 5, "loading"),
        ]

    def test_a_start_that_stops_at_its_flags_is_a_run_of_its_own(self) -> None:
        usage = (CAPTURES / "faults/flag-value.log").read_bytes()
        story = story_of(f"{ARGS}\n{READY}\n".encode() + usage)
        assert [told.conclusion.state for told in story.runs] == ["crashed", "failed"]
        assert story.last.incident is not None
        assert story.last.incident.cause is not None
        assert story.last.incident.cause.id == "flag-value"

    def test_a_run_that_another_took_the_place_of_has_ended(self) -> None:
        first = story_of(f"{ARGS}\n{READY}\n{ARGS}\n").runs[0]
        assert first.conclusion.state == "crashed"
        assert "killed from outside, or lost" in str(first.conclusion.reason)

    def test_a_port_that_answers_is_not_ready_and_a_failed_warmup_is_the_end(self) -> None:
        """Case A02, first log."""
        story = story_of(
            f"{ARGS}\n"
            "[2026-11-02 10:15:01] INFO:     Application startup complete.\n"
            "[2026-11-02 10:15:01] INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)\n"
            '[2026-11-02 10:15:02] INFO:     127.0.0.1:50112 - "GET /get_model_info HTTP/1.1" 200 OK\n'
            "[2026-11-02 10:25:02] Initialization failed. warmup error: Traceback (most recent call last):\n"
            '  File ".../entrypoints/http_server.py", line 1201, in _execute_server_warmup\n'
            "AssertionError: res=<Response [500]>, res.text='Internal Server Error'\n"
        )
        assert words(story) == ["launching", "silence", "warming up", "silence", "failed"]
        assert story.last.incident is not None
        assert story.last.incident.cause is not None
        assert story.last.incident.cause.id == "warmup-failed"

    def test_harmless_lines_are_no_incident_and_a_real_one_after_them_is_the_first(self) -> None:
        """Case A03."""
        harmless = (
            "[2026-11-02 10:10:01 TP0] Ignore import error when loading sglang.srt.models.glm4v_moe: No module named 'x'\n"
            "[Gloo] Rank 0 is connected to 0 peer ranks. Expected number of connected peer ranks is : 0\n"
            "[rank0]:[W1102 10:12:07.107988995 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed\n"
            '[2026-11-02 10:15:21] INFO:     127.0.0.1:50113 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n'
        )
        quiet = story_of(harmless).last
        assert (quiet.conclusion.state, quiet.incident) == ("launching", None)
        crash = "[2026-11-02 10:16:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: x\n"
        loud = story_of(harmless + crash).last
        assert loud.incident is not None
        assert loud.incident.head.number == 5

    def test_a_bar_without_a_newline_is_where_the_log_ends(self) -> None:
        """Case A05."""
        story = story_of(
            b"Loading safetensors checkpoint shards:   0% Completed | 0/46 [00:00<?, ?it/s]\r"
            b"Loading safetensors checkpoint shards: 100% Completed | 46/46 [02:04<00:00,  2.70s/it]\n\n"
            b"[2026-11-02 10:12:40 TP0] Load weight end. elapsed=125.0 s\n"
            b"\x1b[32mCapturing batches (bs=256)\x1b[0m:   0%|          | 0/36 [00:00<?, ?it/s]\r"
            b"Capturing batches (bs=248): 12%|#2        | 4/36 [00:11<01:24,  2.65s/it]"
        )
        assert story.last.conclusion[:2] == ("capturing graphs", "capturing graphs 4/36 graphs 11 s")

    def test_lines_of_megabytes_and_bytes_that_are_no_text_hide_nothing(self) -> None:
        """Cases A06 and A07."""
        story = story_of(
            b"[2026-11-02 10:10:00] server_args=ServerArgs(" + b"x='y', " * 40_000 + b")\n"
            b"[2026-11-02 10:10:01] Receive: obj=GenerateReqInput(text='" + b"a" * 5_000_000 + b"')\n"
            b"[2026-11-02 10:15:40 TP0] tokenizer sample: \xff\xfe\xc3( end\n"
            b"[2026-11-02 10:15:41 TP0] half of a euro sign: \xe2\x82\n"
            b"[2026-11-02 10:15:42] The server is fired up and ready to roll!\n"
        )
        assert story.last.conclusion.state == "ready"
        assert story.last.last == 5

    def test_the_kernels_word_on_a_killed_process_is_the_cause(self) -> None:
        """Case A10, with the kernel's log below the server's."""
        story = story_of(
            f"{ARGS}\n[2026-11-02 09:04:11 TP2] Load weight begin. avail mem=177.41 GB\n"
            "Loading safetensors checkpoint shards:  61% Completed | 28/46 [01:17<00:48,  2.70s/it]\n"
            "[912345.11] Out of memory: Killed process 41931 (sglang::schedul) total-vm:912345678kB\n"
        )
        assert story.last.conclusion.state == "failed"
        assert story.last.entries[-2].text == "weights, 28/46 shards 77 s"
        assert story.last.incident is not None
        assert story.last.incident.cause is not None
        assert story.last.incident.cause.id == "memory-host"

    def test_a_log_that_just_stops_is_told_as_that(self) -> None:
        """Case A10, without: the log cannot know whether the process lives."""
        result = run("-", stdin=f"{ARGS}\n[2026-11-02 09:04:11 TP2] Load weight begin. avail".encode())
        assert "The log stops in the middle of a line without an error or an order to stop" in result.stdout
        assert "if it is gone, look for `Out of memory: Killed process`" in result.stdout

    def test_a_log_that_begins_in_the_middle_was_serving_there(self) -> None:
        """Case D03: no start in sight, and every request fails."""
        failed = '[2026-11-02 13:00:05] INFO: 127.0.0.1:51002 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'
        last = story_of(
            "[2026-11-02 13:00:02 TP1] Decode instance could be dead, remote mooncake session 192.0.2.11:15838 is not alive\n"
            + failed * 215
        ).last
        assert last.conclusion.state == "degraded"
        assert str(last.conclusion.reason).startswith("215 requests in a row failed")
        assert advice(last).endswith("if requests go on failing, restart the pair, both roles")

    def test_a_lost_peer_sends_to_the_other_roles_log(self) -> None:
        """Case D04, decode's side."""
        last = story_of(
            "[2026-11-02 12:00:21] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.\n"
            "[2026-11-02 12:00:30 TP0] Error fetching prefill parallel info from bootstrap: HTTPConnectionPool(host='127.0.0.1', port=8998): Max retries exceeded\n"
        ).last
        assert last.conclusion.state == "degraded"
        assert last.incident is not None
        assert [found.sort for found in last.incident.consequences] == ["bootstrap-unreachable"]

    def test_a_role_whose_warmup_was_faked_is_ready_and_no_more(self) -> None:
        """Case D09: whether KV moves is the pair's affair."""
        last = story_of(
            f"{ARGS}\n[2026-11-02 09:06:40] End of prefill warmup with status 200, resp: [{{'text': '%'}}]\n{READY}\n"
            "[2026-11-02 12:00:01 TP0] Prefill batch. #new-seq: 1, #new-token: 16384, #queue-req: 0, #transferring-req: 1\n"
        ).last
        assert last.conclusion.state == "ready"


class TestBounds:
    def test_the_story_of_a_crash_loop_is_bounded(self) -> None:
        crash = "[2026-11-02 09:03:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: x\n"
        story = story_of(f"{ARGS}\n{crash}" * 120)
        assert (len(story.runs), story.earlier_runs) == (KEPT_RUNS, 120 - KEPT_RUNS)
        assert story.last.last == 360

    def test_a_server_that_goes_up_and_down_for_days_is_told_in_part(self) -> None:
        down = "[2026-11-02 10:00:00 TP0] Lost connection with prefill instance (bootstrap_addr: x), 3 requests affected\n"
        up = '[2026-11-02 10:00:01] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK\n'
        last = story_of(f"{ARGS}\n{READY}\n" + (down + up) * 500).last
        assert len(last.entries) == KEPT_ENTRIES
        assert last.left_out > 0
        assert last.entries[0].word == "launching"
        assert last.entries[-1].number == last.last

    def test_no_more_lines_are_held_than_may_change(self) -> None:
        explainer = Explainer()
        given_out = sum(len(explainer.feed(b"x\n" * 1000)) for _ in range(50))
        assert given_out == 50_000 - HELD_LINES
        assert len(explainer.end()) == HELD_LINES

    @given(
        st.lists(
            st.sampled_from(
                [
                    b"\n",
                    b"\r",
                    b"\xff",
                    b"\x1b[2J",
                    b"Traceback (most recent call last):\n",
                    b"RuntimeError: x\n",
                    b"Killed\n",
                ]
            )
            | st.sampled_from(
                [
                    f"{ARGS}\n".encode(),
                    f"{READY}\n".encode(),
                    b"[2026-11-02 11:04:19 TP3] Scheduler hit an exception: Traceback (most recent call last):\n",
                ]
            )
            | st.binary(max_size=30),
            max_size=40,
        ),
        st.integers(1, 50),
    )
    def test_the_story_is_the_same_however_the_bytes_come(self, parts: list[bytes], chunk: int) -> None:
        data = b"".join(parts)
        if data:
            assert summary(story_of(data, chunk=chunk)) == summary(story_of(data))


class TestCommand:
    @pytest.mark.parametrize("name", ["h200/single.log", "cpu/router.log", "faults/scheduler-exception.log"])
    def test_json_has_one_object_a_line_in_order_and_then_the_summary(self, name: str) -> None:
        result = run(str(CAPTURES / name), "--json")
        assert result.exit_code == 0
        objects = [json.loads(line) for line in result.stdout.splitlines()]
        lines, last = objects[:-1], objects[-1]
        data = (CAPTURES / name).read_bytes()
        assert [line["n"] for line in lines] == list(range(1, data.rstrip(b"\n").count(b"\n") + 2))
        assert all(line.keys() == {"n", "class", "rank", "time", "fields"} for line in lines)
        assert set(last) == {"summary"}
        assert {"state", "first_cause", "next"} <= set(last["summary"])

    def test_a_line_carries_its_rank_its_time_and_its_numbers(self) -> None:
        line = "[2026-06-17 16:24:55 TP0] Decode batch, #running-req: 16, gen throughput (token/s): 561.40, #queue-req: 0"
        (read,) = LogReader().feed(f"{line}\n".encode()).lines
        said: dict[str, Any] = record(read)
        assert (said["class"], said["rank"], said["time"]) == ("stats", "TP0", "2026-06-17 16:24:55")
        assert said["fields"]["#running-req"] == 16

    def test_the_summary_names_the_first_cause_and_what_to_do(self) -> None:
        result = run(str(CAPTURES / "faults/nccl-port-taken.log"), "--json")
        told = json.loads(result.stdout.splitlines()[-1])["summary"]
        assert told["state"] == "failed"
        assert "EADDRINUSE" in told["first_cause"]
        assert "--nccl-port" in told["next"]
        assert told["cause"]["n"] == 74
        assert [found["n"] for found in told["cause"]["consequences"]] == [76, 77]

    def test_a_class_is_the_final_one_even_when_later_lines_decide_it(self) -> None:
        lines = (
            "[2026-11-02 10:00:20] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.\n"
            "[2026-11-02 10:00:22 TP0] Decode batch, #running-req: 16, gen throughput (token/s): 561.40, #queue-req: 0\n"
        )
        result = run("-", "--json", stdin=lines.encode())
        final: dict[int, str] = {}
        reader = LogReader()
        for read in (reader.feed(lines.encode()), reader.end()):
            final |= {line.number: line.line_class for line in (*read.lines, *read.revised)}
        objects = [json.loads(line) for line in result.stdout.splitlines()[:-1]]
        assert {line["n"]: line["class"] for line in objects} == final

    def test_people_get_a_timeline_the_cause_with_its_lines_and_the_next_step(self) -> None:
        result = run(str(CAPTURES / "faults/scheduler-killed.log"))
        assert result.exit_code == 0
        text = result.stdout
        assert "single, lines 1-62, 2026-11-30 01:39:51 to 01:40:53: CRASHED" in text
        assert (
            "  01:40:48  line 58      crashed          was ready for 48 s, then killed from outside" in text
        )
        assert "       58  [2026-11-30 01:40:48] Subprocess scheduler_0" in text
        assert "  then once, from line 59: [2026-11-30 01:40:48] SIGQUIT received." in text
        assert text.splitlines()[-1].startswith("Next: look for `Out of memory: Killed process`")

    def test_a_role_that_is_given_decides_what_to_restart(self) -> None:
        usage = str(CAPTURES / "faults/flag-value.log")
        assert run(usage, "--role", "decode").stdout.rstrip().endswith("restart the pair, both roles.")

    def test_nothing_raw_reaches_the_terminal(self) -> None:
        hostile = (
            b"[2026-11-02 11:04:19 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
            + (
                b"RuntimeError: \x1b[2J\x1b]0;OWNED\x07\x1b]52;c;aGFja2Vk\x07\x9b31m\x08\x00 [red]\xe2\x80\xae\n"
            )
        )
        for arguments in (["-"], ["-", "--json"]):
            printed = run(*arguments, stdin=hostile).stdout
            assert "RuntimeError" in printed
            assert all(char.isprintable() or char == "\n" for char in printed)

    @pytest.mark.parametrize("stdin", [b"", b"\n\n", b"hello\nworld\n", b"\x00\xff" * 500])
    def test_what_is_no_log_is_not_explained(self, stdin: bytes) -> None:
        result = run("-", "--json", stdin=stdin)
        assert result.exit_code == 0
        told = json.loads(result.stdout.splitlines()[-1])["summary"]
        assert (told["state"], told["first_cause"]) == ("unknown", None)
        assert run("-", stdin=stdin).exit_code == 0

    def test_a_file_that_cannot_be_read_is_one_sentence(self, tmp_path: Path) -> None:
        for path, why in ((tmp_path / "none.log", "No such file"), (tmp_path, "Is a directory")):
            result = run(str(path))
            assert isinstance(result.exception, UsageError)
            assert result.exception.exit_code == 2
            assert why in str(result.exception)

    def test_the_name_of_a_file_may_not_steer_the_terminal_either(self, tmp_path: Path) -> None:
        file = tmp_path / "a\x1b[31m.log"
        file.write_bytes(f"{ARGS}\n".encode())
        assert "\x1b" not in run(str(file)).stdout

    def test_the_file_is_read_in_pieces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "server.log"
        file.write_bytes((CAPTURES / "h200/single.log").read_bytes())
        whole = run(str(file)).stdout
        monkeypatch.setattr(verb, "CHUNK", 100)
        assert run(str(file)).stdout == whole
