"""The demo host over SSH: it is reached, looked at and used like any other host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from prometheus_client.parser import text_string_to_metric_families

from console.services.loglines import LineSplitter, classify
from tests.integration.demo_process import Demo, running_demo
from tests.integration.waiting import eventually, wait_until


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("demo")) as demo:
        wait_until(demo.is_ready, "the demo did not become ready")
        yield demo


def port_of(demo: Demo, role: str) -> int:
    return demo.router_port() if role == "router" else int(demo.flag(role, "--port"))


async def counter(demo: Demo, role: str, name: str, through: Any = None, **labels: str) -> float:
    _, page = await demo.ask(port_of(demo, role), "/metrics", through=through)
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    raise AssertionError(f"no {name} {labels} on the page of {role}")


async def test_a_command_is_a_real_child_with_the_hosts_environment(demo: Demo) -> None:
    async with demo.connect() as connection:
        done = await connection.run("cat; echo $DSV4_DEMO; echo oops >&2; exit 3", input="given ")
    assert done.stdout == f"given {demo.said['env'][0].partition('=')[2]}\n"
    assert (done.stderr, done.exit_status) == ("oops\n", 3)


async def test_bytes_arrive_as_they_are_and_in_full(demo: Demo) -> None:
    sent = bytes(range(256)) * 20_000
    async with demo.connect() as connection:
        done = await connection.run("exec cat", input=sent, encoding=None)
    assert done.stdout == sent


async def test_a_killed_command_is_told_by_its_signal(demo: Demo) -> None:
    async with demo.connect() as connection:
        done = await connection.run("kill -9 $$")
    assert done.exit_signal is not None
    assert done.exit_signal[0] == "KILL"


async def test_a_signal_reaches_the_command(demo: Demo) -> None:
    async with demo.connect() as connection:
        process = await connection.create_process(
            "trap 'echo asked; exit 0' TERM; echo on; while :; do sleep 0.05; done"
        )
        assert await process.stdout.readline() == "on\n"
        process.terminate()
        assert await process.stdout.read() == "asked\n"


async def test_only_the_one_key_and_user_are_let_in(demo: Demo, tmp_path: Path) -> None:
    other = tmp_path / "other"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(other)
    for changes in ({"client_keys": [str(other)]}, {"username": "root"}):
        with pytest.raises(asyncssh.PermissionDenied):
            async with demo.connect(**changes):
                pass


def test_the_folder_is_the_owners_alone(demo: Demo) -> None:
    assert demo.folder.stat().st_mode & 0o777 == 0o700
    assert Path(demo.said["client_key"]).stat().st_mode & 0o777 == 0o600


async def test_only_loopback_can_be_reached_through_it(demo: Demo) -> None:
    async with demo.connect() as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("192.0.2.1", 80)


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_metrics_parse_and_name_the_role(demo: Demo, role: str) -> None:
    status, page = await demo.ask(port_of(demo, role), "/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(page.decode())}
    sample = families["sglang:num_running_reqs"].samples[0]
    assert sample.labels["engine_type"] == role
    assert sample.labels["model_name"] == "DeepSeek-V4-Flash"


async def test_the_load_is_seen_in_metrics_and_logs(demo: Demo) -> None:
    await eventually(lambda: demo.log("decode").count("Decode batch") >= 2, "no decode batches")
    await eventually(lambda: "Prefill batch" in demo.log("prefill"), "no prefill batch")
    assert await counter(demo, "decode", "sglang:realtime_tokens_total", mode="decode") > 0
    assert await counter(demo, "prefill", "sglang:realtime_tokens_total", mode="prefill_compute") > 0
    assert await counter(demo, "decode", "sglang:gen_throughput") > 100


@pytest.mark.parametrize("name", ["prefill", "decode"])
def test_a_healthy_start_has_no_error_for_the_consoles_own_reader(demo: Demo, name: str) -> None:
    start = demo.log(name).partition("The server is fired up")[0].encode()
    lines = LineSplitter().feed(start).lines
    assert len(lines) > 40
    assert [line for line in lines if classify(line) in ("error", "fatal")] == []
    assert [line for line in lines if "server_args=" in line and classify(line) == "config"]
    assert sum(line.startswith("Capturing ") for line in lines) == 1


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/model_info", "model_path"),
        ("/get_model_info", "model_path"),
        ("/server_info", "internal_states"),
        ("/get_server_info", "internal_states"),
        ("/v1/models", "data"),
        ("/v1/loads", "loads"),
        ("/v1/loads?include=core", "loads"),
    ],
)
async def test_servers_answer_for_themselves(demo: Demo, path: str, key: str) -> None:
    status, body = await demo.ask(port_of(demo, "decode"), path)
    assert status == 200
    assert json.loads(body)[key]


async def test_what_0_5_23_does_not_have_is_not_there(demo: Demo) -> None:
    assert (await demo.ask(port_of(demo, "decode"), "/get_load"))[0] == 404
    assert (await demo.ask(port_of(demo, "router"), "/server_info"))[0] == 404


async def test_health_and_readiness_are_green(demo: Demo) -> None:
    for role in ("prefill", "decode"):
        assert (await demo.ask(port_of(demo, role), "/health"))[0] == 200
        assert (await demo.ask(port_of(demo, role), "/ready"))[0] == 200
    status, body = await demo.ask(port_of(demo, "router"), "/readiness")
    assert (status, json.loads(body)) == (200, {"status": "ready", "healthy_workers": 2, "total_workers": 2})


async def test_health_is_red_until_the_start_is_over(tmp_path: Path) -> None:
    with running_demo(tmp_path, start_s=3) as demo:
        await eventually(lambda: "decode" in demo.servers(), "decode does not start")
        port, seen = port_of(demo, "decode"), []
        async with demo.connect() as connection:
            while 200 not in seen:
                try:
                    seen.append((await demo.ask(port, "/health", through=connection))[0])
                except asyncssh.ChannelOpenError:
                    seen.append(0)
    assert list(dict.fromkeys(seen)) == [0, 503, 200]


async def test_the_router_lists_its_workers(demo: Demo) -> None:
    status, body = await demo.ask(port_of(demo, "router"), "/workers")
    listed = json.loads(body)
    assert status == 200
    assert listed["stats"] == {"prefill_count": 1, "decode_count": 1, "regular_count": 0}
    urls = {worker["worker_type"]: worker["url"] for worker in listed["workers"]}
    assert urls["decode"] == f"http://127.0.0.1:{port_of(demo, 'decode')}"


async def test_a_streamed_completion_goes_through_both_roles(demo: Demo) -> None:
    before = await counter(demo, "prefill", "sglang:num_requests_total")
    body = {
        "model": "DeepSeek-V4-Flash",
        "prompt": "Once upon a time " * 100,
        "max_tokens": 12,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    status, answer = await demo.ask(port_of(demo, "router"), "/v1/completions", body)
    assert status == 200
    *events, end = [event.removeprefix("data: ") for event in answer.decode().strip().split("\n\n")]
    assert end == "[DONE]"
    *chunks, usage = map(json.loads, events)
    assert len(chunks) == 12
    assert chunks[0]["object"] == "text_completion"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:]] == [None, "length"]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 12
    assert usage["usage"]["prompt_tokens"] == 400
    assert await counter(demo, "prefill", "sglang:num_requests_total") > before
    _, page = await demo.ask(demo.router_metrics_port(), "/metrics")
    assert b'endpoint="completions"' in page


async def test_servers_count_nothing_but_what_is_asked_of_them(demo: Demo) -> None:
    """While somebody real is served and just after: no simulated request is counted on either role."""
    router = port_of(demo, "router")
    async with demo.connect() as connection:

        async def counted() -> list[float]:
            names = ("sglang:generation_tokens_total", "sglang:num_requests_total")
            return [
                await counter(demo, role, name, connection)
                for role in ("prefill", "decode")
                for name in names
            ]

        async def ask(tokens: int) -> None:
            body = {"prompt": "Hello", "max_tokens": tokens, "ignore_eos": True}
            assert (await demo.ask(router, "/v1/completions", body, connection))[0] == 200

        await ask(1)
        before = await counted()
        await ask(250)
        after = await counted()
    assert [now - was for was, now in zip(before, after, strict=True)] == [1, 1, 250, 1]


async def test_a_chat_opens_with_its_role(demo: Demo) -> None:
    body = {
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 4,
        "stream": True,
        "ignore_eos": True,
    }
    _, answer = await demo.ask(port_of(demo, "router"), "/v1/chat/completions", body)
    first, second, *_ = [json.loads(line[6:]) for line in answer.decode().split("\n\n") if line[6:7] == "{"]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "", "reasoning_content": None}
    assert second["choices"][0]["delta"]["content"]


async def test_a_request_that_goes_past_the_router_is_refused(demo: Demo) -> None:
    body = {"prompt": "Hello", "max_tokens": 4}
    status, answer = await demo.ask(port_of(demo, "decode"), "/v1/completions", body)
    assert status == 400
    message = json.loads(answer)["message"]
    assert message.startswith("Invalid request: Disaggregated request received without bootstrap room id.")
    assert message in demo.log("decode")


async def test_a_prompt_seen_before_is_cached_until_the_cache_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_demo(tmp_path, load=False) as demo:
        await eventually(demo.is_ready, "the demo did not become ready")
        body = {"text": "word " * 1000, "sampling_params": {"max_new_tokens": 1}}

        async def cached() -> int:
            _, answer = await demo.ask(port_of(demo, "router"), "/generate", body)
            tokens: int = json.loads(answer)["meta_info"]["cached_tokens"]
            return tokens

        assert [await cached(), await cached()] == [0, 768]
        status, answer = await demo.ask(port_of(demo, "router"), "/flush_cache", {})
        assert (status, json.loads(answer)["workers_flushed"]) == (200, 2)
        assert await cached() == 0


async def test_gpus_look_as_their_servers_work(demo: Demo) -> None:
    code = (
        "import json, pynvml as n; n.nvmlInit(); "
        "h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]; "
        "print(json.dumps([[n.nvmlDeviceGetUtilizationRates(g).gpu, n.nvmlDeviceGetPowerUsage(g) // 1000, "
        "n.nvmlDeviceGetComputeRunningProcesses(g)[0].pid] for g in h]))"
    )
    more_than_one = 1.5 / 24  # one is the request of a test before this
    await eventually(lambda: demo.server("decode")["intensity"] > more_than_one, "simulated users are away")
    async with demo.connect() as connection:
        done = await connection.run(f"{demo.said['python']} -S -c '{code}'", check=True)
    gpus = json.loads(done.stdout)
    assert len(gpus) == 8
    assert all(busy > 85 and 240 < power < 300 for busy, power, _ in gpus[4:])
    assert [pid for *_, pid in gpus[:4]] == demo.server("prefill")["ranks"]
    assert [pid for *_, pid in gpus[4:]] == demo.server("decode")["ranks"]


def test_processes_are_named_as_in_sglang(demo: Demo) -> None:
    titles = [Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0") for pid in demo.pids()]
    assert sorted(title for title in titles if title.startswith("sglang::")) == [
        *("sglang::detokenizer", "sglang::detokenizer", "sglang::router"),
        *(f"sglang::scheduler_TP{rank}" for rank in (0, 0, 1, 1, 2, 2, 3, 3)),
    ]


async def test_a_wrong_flag_is_refused_as_by_the_real_server(demo: Demo) -> None:
    async with demo.connect() as connection:
        done = await connection.run(
            f"{demo.said['python']} -m sglang.launch_server --model-path /m --cuda-graph-max-bs 8"
        )
    assert done.exit_status == 2
    assert "ambiguous option: --cuda-graph-max-bs could match" in str(done.stderr)


async def test_the_packages_tell_their_versions(demo: Demo) -> None:
    code = 'from importlib.metadata import version as v; print(v("sglang"), v("sglang_router"))'
    async with demo.connect() as connection:
        done = await connection.run(f"{demo.said['python']} -c '{code}'", check=True)
    assert done.stdout == "0.5.23 0.3.2\n"
