"""The fields of lines: batch lines as numbers, dumps of settings, and what each kind of line tells."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.logclass import classify
from console.domain.logfields import Fields, fields
from console.services.loglines import LogReader

CASES = Path(__file__).parent.parent / "cases"


def fields_of(line: str) -> Fields:
    """The fields of a line that can be judged alone."""
    return fields(line, classify(line))


def stamped(message: str) -> str:
    return f"[2026-11-02 10:15:42 TP3] {message}"


def labelled() -> list[tuple[str, dict[str, Any], Fields]]:
    """Each labelled line, the fields that it must have, and those that it has in the log of all of them."""
    cases = [
        json.loads(line) for line in (CASES / "log_lines.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    lines = LogReader().feed("".join(f"{case['line']}\n" for case in cases).encode()).lines
    assert len(lines) == len(cases)
    return [
        (case["line"], case["fields"], fields(line.text, line.line_class))
        for case, line in zip(cases, lines, strict=True)
    ]


@pytest.mark.parametrize(("line", "wanted", "found"), labelled(), ids=lambda value: str(value)[:60])
def test_every_labelled_line_has_its_fields(line: str, wanted: dict[str, Any], found: Fields) -> None:
    assert {name: found.get(name) for name in wanted} == wanted
    # 1 == True == 1.0, but not on a screen.
    assert {name: type(found[name]) for name in wanted} == {name: type(wanted[name]) for name in wanted}


@pytest.mark.parametrize(
    ("line", "wanted"), [(line, wanted) for line, wanted, _ in labelled() if "kind" in wanted]
)
def test_a_batch_line_has_no_other_fields(line: str, wanted: dict[str, Any]) -> None:
    assert fields_of(line) == wanted


class TestBatchLines:
    @pytest.mark.parametrize("line", (CASES / "sglang" / "batch_lines.log").read_text().splitlines())
    def test_every_real_one_parses_into_numbers(self, line: str) -> None:
        """SGLang 0.5.15 on an H200 and on a CPU, where the graph is a `cpu graph`."""
        found = fields_of(line)
        numbers = {name: value for name, value in found.items() if name not in ("ts", "ranks", "kind")}
        assert len(numbers) == line.count(": ")
        assert all(isinstance(value, int | float) for value in numbers.values())

    def test_unknown_names_are_kept(self) -> None:
        line = stamped("Decode batch, #running-req: 1, moon phase: 0.25, state: warm, est. BW (GB/s): 7.5")
        assert fields_of(line) == {
            "ts": "2026-11-02 10:15:42",
            "ranks": {"TP": 3},
            "kind": "decode",
            "#running-req": 1,
            "moon phase": 0.25,
            "state": "warm",
            "est. BW (GB/s)": 7.5,
        }

    def test_a_share_in_per_cent_is_a_number(self) -> None:
        assert fields_of(stamped("Decode batch, fwd occupancy: 85.21%"))["fwd occupancy"] == 85.21

    def test_a_line_that_stops_in_the_middle_gives_what_is_whole(self) -> None:
        found = fields_of(stamped("Decode batch, #running-req: 1, #tok"))
        assert found["#running-req"] == 1
        assert "#tok" not in found

    @given(st.dictionaries(st.text("abc #-", min_size=1).map(str.strip).filter(bool), st.integers()))
    def test_pairs_come_in_any_order_and_number(self, pairs: dict[str, int]) -> None:
        line = stamped("Prefill batch" + "".join(f", {name}: {value}" for name, value in pairs.items()))
        found = fields_of(line)
        assert {name: found[name] for name in pairs if name != "kind"} == pairs


class TestSettings:
    DUMP = (CASES / "sglang" / "server_args.log").read_text()

    def test_a_real_dump_is_read_to_its_end(self) -> None:
        """0.5.15: 13 kB; what the role is stands in its last fifth."""
        found = fields_of(self.DUMP.rstrip())
        call = ast.parse(self.DUMP.partition("server_args=")[2], mode="eval").body
        assert isinstance(call, ast.Call)
        assert list(found) == [keyword.arg for keyword in call.keywords]
        for keyword in call.keywords:
            if isinstance(keyword.value, ast.Constant):
                assert found[str(keyword.arg)] == keyword.value.value
        assert found["disaggregation_mode"] == "null"

    def test_both_shapes_say_the_same(self) -> None:
        mapping = "server_args={'model_path': '/m', 'tp_size': 4, 'a': None, 'bs': [1, 2], 'x': {'y': (1,)}}"
        repr_ = "server_args=ServerArgs(model_path='/m', tp_size=4, a=None, bs=[1, 2], x={'y': (1,)})"
        wanted = {"model_path": "/m", "tp_size": 4, "a": None, "bs": "[1, 2]", "x": "{'y': (1,)}"}
        assert fields_of(f"[2026-11-02 10:15:42] {mapping}") == wanted
        assert fields_of(f"[2026-11-02 10:15:42] {repr_}") == wanted

    def test_texts_may_hold_anything(self) -> None:
        line = r"""server_args={'a': "it's, b=1", 'c': 'say \'x=2\', {', 'd': '', 'port': 1}"""
        assert fields_of(line) == {"a": "it's, b=1", "c": "say 'x=2', {", "d": "", "port": 1}

    @pytest.mark.parametrize("length", range(0, 200, 7))
    def test_a_dump_that_was_cut_gives_what_is_whole(self, length: int) -> None:
        whole, cut = fields_of(self.DUMP.rstrip()), fields_of(self.DUMP[:length])
        assert cut.items() <= whole.items()

    @given(st.text(max_size=80))
    def test_nothing_it_may_say_is_too_odd(self, text: str) -> None:
        assert isinstance(fields(f"server_args={text}", "config"), dict)
        assert isinstance(fields(f"server_args=ServerArgs({text}", "config"), dict)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            stamped("Capture draft decode CUDA graph end. bs=[1, 2], elapsed=8.32 s, avail mem=1.5 GB."),
            {
                "stage": "capture",
                "what": "draft decode",
                "bs": "[1, 2]",
                "elapsed_s": 8.32,
                "avail_mem_gb": 1.5,
            },
        ),
        (
            stamped("Load weight end. elapsed=0.23 s, type=LlamaForCausalLM, mem usage=-0.00 GB."),
            {"stage": "weights", "elapsed_s": 0.23, "type": "LlamaForCausalLM", "mem_usage_gb": 0.0, "tp": 3},
        ),
        (
            "model-7.safetensors:  43%|████▎     | 2.10G/4.90G [01:00:10<00:13, 210MB/s]",
            {"percent": 43, "done": 2_100_000_000, "total": 4_900_000_000, "unit": "MB", "elapsed_s": 3610},
        ),
        (
            "Capturing num tokens (num_tokens=8192 avail_mem=129.92 GB):   2%|▏| 1/58 [01:00<57:49, 60s/it]",
            {"stage": "capture", "num_tokens": 8192, "avail_mem_gb": 129.92, "done": 1, "unit": "it"},
        ),
        (
            "[2026-11-02 10:15:42] INFO:     Started server process [2074]",
            {"pid": 2074},
        ),
        (
            '[2026-11-02 10:15:42] INFO:     10.0.0.9:50113 - "POST /v1/x?rid=7 HTTP/1.1" 500 Internal',
            {"client": "10.0.0.9:50113", "method": "POST", "path": "/v1/x?rid=7", "status": 500},
        ),
        (
            stamped("ReqTimeStats(rid=7f3a, bootstrap_room=77, type=decode): transfer_duration=9.50ms"),
            {"rid": "7f3a", "bootstrap_room": 77, "type": "decode", "transfer_duration_ms": 9.5},
        ),
        (
            "[2026-11-02 10:15:42] Subprocess detokenizer (pid=9) crashed with exit code -11. Triggering",
            {"pid": 9, "exit_code": -11},
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 6 has a total"
            " capacity of 94.97 GiB of which 12.00 MiB is free.",
            {"cause": "cuda_oom", "exception": "torch.OutOfMemoryError", "tried_mib": 20.0, "gpu": 6},
        ),
        (
            "sglang serve: error: ambiguous option: --cuda-graph-max-bs could match --x, --y",
            {"option": "--cuda-graph-max-bs"},
        ),
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('::1', 30000): address already"
            " in use",
            {"errno": 98, "host": "::1", "port": 30000, "cause": "port_taken"},
        ),
        (
            "[  77.000001] Memory cgroup out of memory: Killed process 41931 (sglang::detoken) total-vm:1kB",
            {"pid": 41931, "name": "sglang::detoken", "cause": "host_oom"},
        ),
        (
            stamped(
                "Decode handshake failed for request rank=3 decode_req.req.rid='12' x.bootstrap_room=7 with"
            ),
            {"rank": 3, "rid": "12", "room": 7},
        ),
        (
            "gpu7:99:99 [3] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
            {"NCCL_IB_DISABLE": "1"},
        ),
        (
            "2026-11-02 10:15:42 ERROR smg::x: x.rs:1: Failed to select PD pair error=No decode workers",
            {"error": "No decode workers"},
        ),
        (
            "[2026-11-02 10:15:42] Finish: obj=GenerateReqInput(rid='c3', text='exit code 9'), out={}",
            {"rid": "c3", "exit_code": None},
        ),
        ('    raise ValueError(f"{port=}", port=7)', {"port": None}),
    ],
)
def test_what_a_line_tells(line: str, wanted: dict[str, Any]) -> None:
    found = fields_of(line)
    assert {name: found.get(name) for name in wanted} == wanted


@given(st.text(st.characters(exclude_categories=["C"]), max_size=200))
def test_any_text_has_fields_of_plain_values(text: str) -> None:
    for line in (text, stamped(text), stamped(f"Decode batch, {text}")):
        json.dumps(fields(line, classify(line)), allow_nan=False)
