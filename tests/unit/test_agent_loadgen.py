"""The load generator against a server that streams at known times, as the agent starts it."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from console.agent.loadanswer import Answer
from console.agent.loaddeck import Deck
from console.agent.loadstats import PROBE_S, LoopLag
from console.domain.bench.load import LoadSpec
from tests.unit.running_load import LIMIT_S, Load
from tests.unit.streaming_server import DONE, StreamingServer, event, paced, scripted, text, usage

Begin = Callable[..., Load]


@pytest.fixture(scope="module")
def server() -> Iterator[StreamingServer]:
    with StreamingServer() as server:
        yield server


@pytest.fixture
def begin(server: StreamingServer) -> Iterator[Begin]:
    """Begins loads, and ends them after the test."""
    loads = []

    def begin(*prompts: str, python: str = sys.executable, **fields: Any) -> Load:
        spec = {"url": server.url, "model": "m", "output_tokens": 4, "concurrency": 1, **fields}
        loads.append(Load(LoadSpec(prompts=prompts, **spec), python))
        return loads[-1]

    yield begin
    for load in loads:
        load.child.close()


@pytest.fixture
def run(begin: Begin) -> Begin:
    """Runs a load to its end."""
    return lambda *prompts, **fields: begin(*prompts, **fields).to_its_end()


def lives(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def all_gone(pids: tuple[int, ...], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while any(map(lives, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def median_ms(differences: list[float]) -> float:
    return 1000 * statistics.median(differences)


def compare(load: Load, log: dict[str, Any], prefix: str) -> dict[str, float]:
    """Median differences to what the server wrote when, in ms."""
    ttft, latency, gaps = [], [], []
    for request in load.requests:
        entry = log[f"{prefix}{request.index}"]
        written = entry["written"]
        assert len(request.chunks) == len(written) - 1, "the last piece has no text"
        assert request.ttft is not None
        ttft.append(request.ttft - (written[0] - entry["received"]))
        latency.append(request.latency - (written[-1] - entry["received"]))
        ours, theirs = pairwise(request.chunks), pairwise(written[:-1])
        gaps += [abs((b - a) - (d - c)) for (a, b), (c, d) in zip(ours, theirs, strict=True)]
    return {"ttft": median_ms(ttft), "latency": median_ms(latency), "gap": median_ms(gaps)}


def measured(load: Load, log: dict[str, Any], prefix: str) -> dict[str, float]:
    """The differences, and how much of them the generator itself says that it may have caused."""
    return {**compare(load, log, prefix), "lag": load.done.lag_p95_ms}


def is_right(found: dict[str, float]) -> bool:
    """Right to 1 ms, beyond the lag that is told: tests run on machines that are busy with others."""
    lag = found["lag"]
    return all(-0.1 < found[name] <= 1.0 + lag for name in ("ttft", "latency", "gap"))


def least_disturbed(measure: Callable[[int], dict[str, float]]) -> dict[str, float]:
    """The best of up to five measurings: other programs only ever add to a difference."""
    found = [measure(0)]
    while len(found) < 5 and not (is_right(found[-1]) and found[-1]["lag"] < 1.0):
        found.append(measure(len(found)))
    return min(found, key=lambda each: max(each["ttft"], each["latency"], each["gap"]) - each["lag"])


def test_one_stream_is_timed_to_a_millisecond(server: StreamingServer, run: Begin) -> None:
    def measure(number: int) -> dict[str, float]:
        prompts = [paced(f"one{number}-{index}", 40, 0.005, 0.03) for index in range(5)]
        load = run(*prompts, warmup=(paced("warm", 2, 0.001),))
        assert [request.completion_tokens for request in load.requests] == [40] * 5
        return measured(load, server.log(), f"one{number}-")

    found = least_disturbed(measure)
    assert is_right(found), found


def test_16_streams_of_5000_tokens_per_second_together_are_timed_to_a_millisecond(
    server: StreamingServer, run: Begin
) -> None:
    def measure(number: int) -> dict[str, float]:
        # Like answers of different prompts: they neither begin nor end at the same instant.
        prompts = [paced(f"all{number}-{n}", 200 + 10 * (n % 7), 0.0032, 0.02 + 0.007 * n) for n in range(32)]
        load = run(*prompts, warmup=[paced("warm", 2, 0.001)] * 16, concurrency=16)
        assert max(second.in_flight for second in load.seconds) == 16
        return measured(load, server.log(), f"all{number}-")

    found = least_disturbed(measure)
    assert is_right(found), found


def test_the_request_is_what_was_promised(server: StreamingServer, run: Begin) -> None:
    run(paced("asked", 2, 0.0), model="dsv4", output_tokens=77, api_key="k1")
    entry = server.log()["asked"]
    body = dict(entry["body"])
    assert body.pop("prompt")
    assert body == {
        "model": "dsv4",
        "max_tokens": 77,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "ignore_eos": True,
    }
    assert entry["headers"]["authorization"] == "bearer k1"


def test_a_proxy_of_the_environment_is_not_used(run: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    (request,) = run(paced("direct", 2, 0.0)).requests
    assert request.ok


def test_times_begin_with_the_first_dispatch_and_the_duration_ends_with_the_last_answer(run: Begin) -> None:
    load = run(*[paced("d", 5, 0.01)] * 6, warmup=(paced("w", 5, 0.02),), concurrency=2)
    assert load.requests[0].sent == 0.0
    assert load.done.duration_s == pytest.approx(max(request.ended for request in load.requests), abs=2e-5)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_prompt_is_sent_once_and_places_are_never_more_than_asked_for(
    server: StreamingServer, run: Begin, workers: int
) -> None:
    prompts = [paced(f"w{workers}-{number}", 3, 0.002 * (number % 5)) for number in range(60)]
    load = run(*prompts, concurrency=5, workers=workers)
    log = server.log()
    names = [name for name in log if name.startswith(f"w{workers}-")]
    assert sorted(names) == sorted(f"w{workers}-{number}" for number in range(60))
    assert [request.index for request in load.requests] == list(range(60))
    assert {request.worker for request in load.requests} == set(range(workers))
    assert max(log[name]["in_flight"] for name in names) <= 5
    assert len(load.pids) == workers + 1
    assert not load.done.stopped
    assert sum(second.chunks for second in load.seconds) == 180
    assert [second.second for second in load.seconds] == list(range(len(load.seconds)))
    assert (load.seconds[-1].done, load.seconds[-1].of, load.seconds[-1].failed) == (60, 60, 0)


async def all_of(deck: Deck) -> list[int]:
    taken = []
    async with asyncio.timeout(LIMIT_S):
        while (index := await deck.take()) is not None:
            taken.append(index)
    return taken


def test_a_deck_may_be_larger_than_a_pipe() -> None:
    deck = Deck(40_000)
    worker = os.fork()
    if not worker:
        deck.receive()
        os._exit(asyncio.run(all_of(deck)) != list(range(40_000)))
    deck.deal()
    assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 0


def chat(**delta: Any) -> str:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def test_the_clock_starts_at_the_first_text_of_any_kind_and_tokens_are_those_of_usage(
    server: StreamingServer, run: Begin
) -> None:
    pieces: list[str | float] = [": keep-alive\n\n", 0.02, chat(role="assistant", content=""), 0.05]
    pieces += [chat(content=None, reasoning_content="First"), 0.02, chat(content="Paris"), chat()]
    pieces += [usage(14, 180, cached=8), DONE]
    (request,) = run(scripted("chat", *pieces)).requests
    assert request.ok
    assert (request.prompt_tokens, request.completion_tokens, request.cached_tokens) == (14, 180, 8)
    assert len(request.chunks) == 2
    written = server.log()["chat"]["written"]
    assert request.chunks[1] - request.chunks[0] == pytest.approx(written[3] - written[2], abs=0.02)
    assert request.ttft is not None
    assert request.ttft > 0.07


def test_usage_may_ride_on_any_chunk_or_be_missing(run: Begin) -> None:
    riding = event({"choices": [{"text": "a"}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
    load = run(
        scripted("rides", riding, text("b"), DONE),
        scripted("empty choices", text("a"), event({"choices": []}), DONE),
    )
    first, second = load.requests
    assert (first.ok, first.prompt_tokens, first.completion_tokens) == (True, 3, 1)
    assert (second.ok, second.completion_tokens) == (True, None)


def test_a_bundle_is_one_chunk_and_its_finish_reason_is_kept(run: Begin) -> None:
    prompt = scripted("mtp", text("The quick brown fox"), text(" jumps", "length"), usage(8, 13), DONE)
    (request,) = run(prompt).requests
    assert (len(request.chunks), request.completion_tokens, request.finish_reason) == (2, 13, "length")


def test_bytes_may_be_cut_anywhere(run: Begin) -> None:
    stream = text("é").replace("\n", "\r\n") + text("x").replace("data: ", "data:") + usage(1, 2) + DONE
    stream = stream.replace("\\u00e9", "é")
    pieces = stream.encode().decode("ascii", "surrogateescape")
    (request,) = run(scripted("cut", *pieces)).requests
    assert (request.ok, len(request.chunks), request.completion_tokens) == (True, 2, 2)


QUEUE_FULL = {"object": "error", "message": "The request queue is full.", "code": 503}


@pytest.mark.parametrize(
    ("prompt", "failure", "reason", "chunks"),
    [
        (scripted("f", text("a"), text("", "abort"), DONE), "aborted", "the server aborted it", 1),
        (scripted("f", event({"error": QUEUE_FULL}), DONE), "rejected", "queue is full. (code 503)", 0),
        (scripted("f", event(QUEUE_FULL), DONE), "rejected", "queue is full. (code 503)", 0),
        (scripted("f", text("a"), event({"error": QUEUE_FULL}), DONE), "error", "after 1 chunks", 1),
        (scripted("f", text("a"), end="closed"), "cut off", "connection broke off", 1),
        (scripted("f", text("a"), text("b")), "cut off", "without [DONE] (after 2 chunks", 2),
        (scripted("f", DONE), "empty", "without any text", 0),
        (scripted("f", text("a"), text("", "abort"), DONE, end="closed"), "aborted", "aborted it", 1),
        (scripted("f", usage(3, 0), DONE), "empty", "without any text", 0),
        (scripted("f", '{"detail":"slow down"}', status=429), "rejected", "HTTP 429: slow down", 0),
        (scripted("f", "no\nworker", status=503), "rejected", "HTTP 503: no worker", 0),
        (scripted("f", text("a"), "data: {oops\n\n"), "error", "no chunk of a completion: {oops", 1),
        (scripted("f", "data: [1]\n\n"), "rejected", "no chunk of a completion: [1]", 0),
        (scripted("f", text("a"), end="never"), "timed out", "nothing came for 0.3 s", 1),
        (scripted("f", end="never"), "timed out", "nothing came for 0.3 s", 0),
    ],
)
def test_failures_are_told_apart(run: Begin, prompt: str, failure: str, reason: str, chunks: int) -> None:
    good = scripted("good", text("a"), usage(1, 1), DONE)
    load = run(prompt, good, idle_limit_s=0.3)
    failed, after = load.requests
    assert (failed.failure, len(failed.chunks)) == (failure, chunks)
    assert failed.reason is not None
    assert reason in failed.reason
    assert after.ok, "the next one is not disturbed"
    assert load.seconds[-1].failed == 1
    assert not load.done.stopped


def test_what_comes_after_done_changes_nothing(run: Begin) -> None:
    (request,) = run(scripted("late", text("a"), usage(1, 1), DONE, 0.02, end="closed")).requests
    assert request.ok


def test_a_port_at_which_nobody_listens_refuses(run: Begin) -> None:
    load = run("a", "b", "c", url="http://127.0.0.1:9/v1/completions", concurrency=2)
    assert [request.failure for request in load.requests] == ["refused"] * 3
    assert load.requests[0].status is None


def test_the_time_given_cuts_what_is_in_flight(run: Begin) -> None:
    load = run(*[paced("long", 2000, 0.01)] * 3, concurrency=2, total_limit_s=0.4)
    assert [(request.index, request.failure) for request in load.requests] == [(0, "stopped"), (1, "stopped")]
    assert all(request.chunks for request in load.requests)
    assert load.done.stopped
    assert 0.2 <= load.done.duration_s < 5.0


def test_a_warm_up_is_told_but_not_measured(run: Begin) -> None:
    warmup = (scripted("bad", status=503), scripted("fine", text("a"), DONE))
    load = run(paced("x", 3, 0.0), warmup=warmup, concurrency=2)
    assert [request.index for request in load.requests] == [0]
    (warm,) = [second for second in load.seconds if second.second == -1]
    assert (warm.done, warm.failed, warm.of) == (2, 1, 2)


def test_a_warm_up_that_fails_altogether_ends_it(run: Begin) -> None:
    load = run(paced("x", 3, 0.0), warmup=[scripted("bad", "full", status=503)] * 3, concurrency=2, workers=2)
    assert load.failure == "every request of the warm-up failed: HTTP 503: full"
    assert load.requests == []


def test_a_stop_while_it_warms_up_measures_nothing(begin: Begin) -> None:
    load = begin("x", warmup=[paced("long", 5000, 0.01)] * 2, concurrency=2)
    load.until(lambda: load.seconds)
    assert load.seconds[0].second == -1
    load.child.stop()
    load.to_its_end()
    assert load.requests == []
    assert (load.done.stopped, load.done.duration_s) == (True, 0.0)


def test_a_python_without_httpx_is_named(run: Begin, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    load = run("x", python=str(python))
    assert "has no httpx to send requests with: No module named 'httpx'" in load.failure


def test_what_is_no_python_is_told_in_its_own_words(run: Begin, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho broken >&2\nexit 7\n")
    python.chmod(0o755)
    assert run("x", python=str(python)).failure == "the load generator ended with status 7: broken"


def test_an_address_that_is_none_is_told(run: Begin) -> None:
    assert "is no address" in run("x", url="http://127.0.0.1:x/").failure


def test_an_address_that_is_not_of_plain_http_is_told(run: Begin) -> None:
    failure = run("x", url="https://127.0.0.1:9/v1/completions").failure
    assert failure.endswith("/v1/completions is no address for a load: it does not begin with http://")


@pytest.mark.parametrize("way", ["SIGTERM", "the end of stdin"])
def test_a_stop_tells_what_was_measured_and_ends_within_a_second(begin: Begin, way: str) -> None:
    load = begin(*[paced("long", 5000, 0.01)] * 40, concurrency=4, workers=2)
    load.until(lambda: load.seconds)
    begun = time.monotonic()
    if way == "SIGTERM":
        load.child.stop()
    else:
        load.child.hang_up()
    load.to_its_end()
    assert [request.failure for request in load.requests] == ["stopped"] * 4
    assert all(len(request.chunks) > 10 for request in load.requests)
    assert load.done.stopped
    assert time.monotonic() - begun < 1.0
    assert all_gone(load.pids, 1.0)


def test_nobody_who_reads_does_not_stop_the_measuring(server: StreamingServer, begin: Begin) -> None:
    """Far more than a pipe holds is told before anything is read."""
    prompts = [paced(f"unread{number}", 400, 0.001) for number in range(60)]
    load = begin(*prompts, concurrency=20)
    deadline = time.monotonic() + LIMIT_S
    while sum(name.startswith("unread") for name in server.log()) < 60:
        assert time.monotonic() < deadline
        load.child.beat()
        time.sleep(0.05)
    load.to_its_end()
    assert len(load.requests) == 60
    assert all(request.ok and request.latency < 5.0 for request in load.requests)
    assert not load.done.stopped


def test_a_worker_that_dies_ends_it(begin: Begin) -> None:
    load = begin(*[paced("long", 5000, 0.01)] * 4, concurrency=4, workers=2)
    load.until(lambda: load.seconds)
    os.kill(load.pids[1], signal.SIGKILL)
    load.to_its_end()
    assert load.failure == "a worker of the load generator ended before it was done"
    assert [request.failure for request in load.requests] == ["stopped"] * 2, "those of the other are told"
    assert all_gone(load.pids, 1.0)


def test_workers_die_with_their_leader(begin: Begin) -> None:
    load = begin(*[paced("long", 5000, 0.01)] * 4, concurrency=4, workers=2)
    load.until(lambda: load.seconds)
    os.kill(load.pids[0], signal.SIGKILL)
    assert all_gone(load.pids[1:], 1.0)
    assert "status -9" in load.to_its_end().failure


def test_the_lag_of_a_loop_is_measured_by_all_that_it_missed() -> None:
    lag = LoopLag()
    time.sleep(PROBE_S + 0.1)
    lag.probe()
    assert len(lag.lags) >= 10
    assert 0.1 <= lag.lags[0] < LIMIT_S
    assert lag.lags == sorted(lag.lags, reverse=True)
    assert lag.lags[0] - lag.lags[1] == pytest.approx(PROBE_S)
    lag.probe()
    lag.close()


def test_a_client_that_gets_no_time_says_so(begin: Begin) -> None:
    load = begin(*[paced("busy", 300, 0.01)] * 2, concurrency=2)
    load.until(lambda: load.seconds)
    worker = load.pids[1]
    os.kill(worker, signal.SIGSTOP)
    stopped = subprocess.Popen(["sleep", "0.3"])
    stopped.wait()
    os.kill(worker, signal.SIGCONT)
    load.to_its_end()
    assert load.done.lag_max_ms >= 250


def test_a_failure_keeps_its_first_reason() -> None:
    answer = Answer(0)
    answer.fail("timed out", "first", 1.0)
    answer.fail("cut off", "second", 2.0)
    answer.close(3.0)
    told = answer.timing()
    assert (told["failure"], told["reason"], told["ended"]) == ("timed out", "first", 1.0)
