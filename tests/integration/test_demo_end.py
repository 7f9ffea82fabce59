"""The demo host's end, and its servers' ends: nothing is left behind, whoever ends and however."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.demo_process import Demo, running_demo
from tests.integration.waiting import eventually, wait_until

LIMIT_S = 2.0
STUBBORN = "trap '' HUP TERM; echo on; while :; do sleep 0.1; done"


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with running_demo(tmp_path) as demo:
        wait_until(demo.is_ready, "the demo did not become ready")
        yield demo


def seconds_until_nothing_is_left(demo: Demo) -> float:
    begun = time.monotonic()
    wait_until(lambda: not demo.pids() and not demo.folder.exists(), "something is left")
    return time.monotonic() - begun


def close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def kill_decode(demo: Demo) -> None:
    """Its GPUs are free afterwards."""
    pid = demo.server("decode")["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in demo.pids(), "decode lives on")


ENDS: dict[str, Callable[[subprocess.Popen[bytes]], None]] = {
    "stdin ends": close_stdin,
    "SIGTERM": subprocess.Popen.terminate,
    "kill -9": subprocess.Popen.kill,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_all_is_gone_within_two_seconds(demo: Demo, end: Callable[[subprocess.Popen[bytes]], None]) -> None:
    assert len(demo.pids()) == 13
    end(demo.process)
    assert seconds_until_nothing_is_left(demo) < LIMIT_S
    assert demo.process.wait() in (0, -signal.SIGKILL)


def test_a_start_that_is_cut_short_leaves_nothing(tmp_path: Path) -> None:
    with running_demo(tmp_path, start_s=30) as demo:
        close_stdin(demo.process)
        assert seconds_until_nothing_is_left(demo) < LIMIT_S


def test_a_stopped_server_is_killed(demo: Demo) -> None:
    os.kill(demo.server("decode")["pid"], signal.SIGSTOP)
    close_stdin(demo.process)
    assert seconds_until_nothing_is_left(demo) < LIMIT_S


async def test_a_server_that_was_launched_later_outlives_its_session_but_not_the_demo(demo: Demo) -> None:
    kill_decode(demo)
    server = f"{demo.said['python']} -m sglang.launch_server --model-path /m --tp 4 --base-gpu-id 4 --port 0"
    launch = f"setsid {server} </dev/null >$DSV4_DEMO_FOLDER/later.log 2>&1 & echo $!"
    async with demo.connect() as connection:
        done = await connection.run(launch, check=True)
    pid = int(str(done.stdout))
    await eventually(lambda: "fired up" in demo.log("later"), "the later server did not start")
    assert pid in demo.pids()
    close_stdin(demo.process)
    assert seconds_until_nothing_is_left(demo) < LIMIT_S


async def test_a_session_that_is_left_ends_its_command(demo: Demo) -> None:
    others = set(demo.pids())
    async with demo.connect() as connection:
        process = await connection.create_process(STUBBORN)
        await process.stdout.readline()
    await eventually(lambda: not set(demo.pids()) - others, "the command lives on")


async def test_an_open_session_does_not_hold_up_the_end(demo: Demo) -> None:
    async with demo.connect() as connection:
        process = await connection.create_process(STUBBORN)
        await process.stdout.readline()
        close_stdin(demo.process)
        assert await asyncio.to_thread(seconds_until_nothing_is_left, demo) < LIMIT_S


async def test_a_command_that_ends_with_its_stdin_may_do_so_by_itself(demo: Demo) -> None:
    mark = demo.folder / "mark"
    async with demo.connect() as connection:
        process = await connection.create_process(f"echo on; cat >/dev/null; echo done >{mark}")
        await process.stdout.readline()
    await eventually(lambda: mark.exists() and mark.read_text() == "done\n", "it was killed too early")


def test_sigterm_drains_a_server(demo: Demo) -> None:
    pid = demo.server("prefill")["pid"]
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: pid not in demo.pids(), "the server did not end")
    tail = demo.log("prefill").partition("SIGTERM received. signum=None frame=None. Draining")[2]
    assert "Gracefully exiting... Remaining number of requests 0." in tail
    assert f"kill_process_tree called: parent_pid={pid}, include_parent=False" in tail


def test_a_rank_takes_its_server_along(demo: Demo) -> None:
    decode = demo.server("decode")
    os.kill(decode["ranks"][2], signal.SIGKILL)
    wait_until(lambda: not {decode["pid"], *decode["ranks"]} & set(demo.pids()), "the server lives on")
    assert f"Subprocess scheduler_2 (pid={decode['ranks'][2]}) crashed with exit code -9." in demo.log(
        "decode"
    )
    assert "SIGQUIT received. signum=None, frame=None." in demo.log("decode")


def test_without_decode_nothing_flows(demo: Demo) -> None:
    wait_until(lambda: demo.server("prefill")["intensity"] > 0, "prefill does not work")
    kill_decode(demo)
    wait_until(lambda: demo.server("prefill")["intensity"] == 0, "prefill still works")


async def test_the_router_says_that_decode_is_gone(demo: Demo) -> None:
    router = demo.router_port()
    body = {"prompt": "Hello", "max_tokens": 4}
    kill_decode(demo)
    status, answer = await demo.ask(router, "/v1/completions", body)
    assert (status, json.loads(answer)["error"]["code"]) == (502, "decode_server_error")
    checks = "HTTP health check failed for"
    await eventually(lambda: demo.log("router").count(checks) >= 3, "the router does not check")
    status, answer = await demo.ask(router, "/v1/completions", body)
    assert (status, json.loads(answer)["error"]["code"]) == (503, "server_selection_failed")
    assert (await demo.ask(router, "/readiness"))[0] == 503
    assert (await demo.ask(router, "/health"))[0] == 200


def test_decode_notices_that_prefill_is_gone(demo: Demo) -> None:
    wait_until(lambda: demo.server("decode")["intensity"] > 0, "decode does not work")
    port = demo.flag("prefill", "--disaggregation-bootstrap-port")
    os.kill(demo.server("prefill")["pid"], signal.SIGKILL)
    lost = f"Lost connection with prefill instance (bootstrap_addr: 127.0.0.1:{port})"
    wait_until(lambda: lost in demo.log("decode"), "decode noticed nothing")


async def test_a_taken_port_ends_a_server_after_its_start(demo: Demo) -> None:
    kill_decode(demo)
    port = demo.flag("prefill", "--port")
    server = f"{demo.said['python']} -m sglang.launch_server --model-path /m --tp 4 --base-gpu-id 4"
    async with demo.connect() as connection:
        done = await connection.run(f"{server} --port {port}")
    assert done.exit_status == 3
    complained = str(done.stderr)
    address = (
        f"[Errno 98] error while attempting to bind on address ('127.0.0.1', {port}): address already in use"
    )
    assert complained.index("Application startup complete.") < complained.index(address)


async def test_gpus_in_use_are_too_full_for_another_server(demo: Demo) -> None:
    async with demo.connect() as connection:
        done = await connection.run(
            f"{demo.said['python']} -m sglang.launch_server --model-path /m --tp 4 --port 0"
        )
    assert done.exit_status == 128 + signal.SIGKILL
    assert "torch.OutOfMemoryError: CUDA out of memory." in str(done.stderr)
    assert "Received sigquit from a child process." in str(done.stderr)


def test_two_demos_do_not_meet(demo: Demo, tmp_path: Path) -> None:
    with running_demo(tmp_path) as other:
        assert other.said["port"] != demo.said["port"]
        assert not set(other.pids()) & set(demo.pids())
        close_stdin(other.process)
        wait_until(lambda: not other.pids(), "the other demo lives on")
        assert len(demo.pids()) == 13
