"""What an argument vector starts, and what its flags say."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import launchflags
from console.agent.cmdlines import Launch, program_of, recognise

SERVERS = [
    "python -m sglang.launch_server --port 30000",
    "python3 -m sglang.launch_server --port 30000",
    "/opt/venv/bin/python3.12 -u -m sglang.launch_server --port 30000",
    "python3.13t -X dev -W ignore -m sglang.launch_server --port 30000",
    "python -Xfrozen_modules=off -um sglang.launch_server --port 30000",
    "python -Im sglang.launch_server --port 30000",
    "python -msglang.launch_server --port 30000",
    "python --check-hash-based-pycs always -m sglang.launch_server --port 30000",
    "/usr/bin/python3 /usr/local/bin/sglang serve --port 30000",
    "/opt/venv/bin/sglang serve --port 30000",
    "python -m sglang.cli.main serve --port 30000",
    "python /srv/sglang/python/sglang/launch_server.py --port 30000",
    "python -- sglang/launch_server.py --port 30000",
]

ROUTERS = [
    "python -m sglang_router.launch_router --port 30000",
    "python3 -m sglang_router launch --port 30000",
    "/venv/bin/python /venv/bin/smg launch --port 30000",
    "/venv/bin/python /venv/bin/amg launch --port 30000",
    "/venv/bin/python /venv/bin/sglang-router launch --port 30000",
    "/usr/local/bin/smg --port 30000",
    "python /src/sglang_router/launch_router.py --port 30000",
]

OTHERS = [
    "",
    "vim /home/ops/sglang/launch_server.py",
    "less -f sglang.launch_server",
    "tail -F /var/log/sglang.launch_server.log",
    "grep -r sglang.launch_server .",
    "bash -c 'python -m sglang.launch_server --port 30000'",
    "sh -c 'exec sglang serve --port 30000'",
    "ssh gpu0 python -m sglang.launch_server --port 30000",
    "sudo -u sglang python -m sglang.launch_server --port 30000",
    "nohup python -m sglang.launch_server --port 30000",
    "numactl --cpunodebind=0 python -m sglang.launch_server --port 30000",
    "uv run python -m sglang.launch_server --port 30000",
    "python3 /srv/sglang/test/run_suite.py",
    "python -m pytest test/test_launch_server.py -k sglang.launch_server",
    "python -m pdb -m sglang.launch_server --port 30000",
    "python -c 'import sglang.launch_server' -m sglang.launch_server",
    "python /opt/conda/bin/conda run python -m sglang.launch_server",
    "python -m sglang.bench_serving --port 30000",
    "python -m sglang.launch_server --help",
    "python -m sglang.check_env",
    "/venv/bin/python /venv/bin/sglang version",
    "/venv/bin/sglang generate --model-path m",
    "/venv/bin/python /venv/bin/smg --version",
    "/venv/bin/python /venv/bin/smg server --model-path m",
    "/venv/bin/smg",
    "python -c 'from multiprocessing.spawn import spawn_main; spawn_main()' --multiprocessing-fork",
    "python -c 'from multiprocessing.resource_tracker import main;main(5)'",
    "sglang::scheduler_TP0",
    "sglang::detokenizer",
    "sglang::data_parallel_controller",
    "python",
    "python -",
    "python -m",
    "pythonx -m sglang.launch_server",
]


@pytest.mark.parametrize("line", SERVERS)
def test_a_server_is_recognised_by_the_program_it_runs(line: str) -> None:
    assert recognise(shlex.split(line)) == Launch(router=False, flags=("--port", "30000"))


@pytest.mark.parametrize("line", ROUTERS)
def test_a_router_is_recognised_by_the_program_it_runs(line: str) -> None:
    assert recognise(shlex.split(line)) == Launch(router=True, flags=("--port", "30000"))


@pytest.mark.parametrize("line", OTHERS)
def test_what_only_names_sglang_is_no_server(line: str) -> None:
    assert recognise(shlex.split(line)) is None


def test_a_router_that_renamed_itself_has_no_flags_any_more() -> None:
    launch = recognise(["sglang::router"])
    assert launch == Launch(router=True, renamed=True)
    assert launchflags.role(launch) == "router"
    assert launchflags.port(launch) is None
    assert launchflags.metrics_port(launch) is None
    assert launchflags.workers(launch) == []


TELLING = """
python python3 -m -c -u -W -- - -mx serve launch sglang smg sglang.launch_server a/sglang/launch_server.py
sglang::router --port --tp=2 --config
"""
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | st.sampled_from(
    TELLING.split()
)


@given(st.lists(words, max_size=8))
def test_any_argument_vector_is_read(argv: list[str]) -> None:
    """Nothing raises, and the flags are the end of the argument vector."""
    launch = recognise(argv)
    if launch is not None and launch.flags:
        assert tuple(argv[-len(launch.flags) :]) == launch.flags
    if launch is not None:
        launchflags.port(launch)
        launchflags.workers(launch)
        launchflags.gpus(launch, {})


interpreter_options = st.lists(
    st.sampled_from(["-u", "-B", "-OO", "-I", "-Wignore", "-Xdev", "-bb"])
    | st.sampled_from([("-W", "error"), ("-X", "utf8"), ("--check-hash-based-pycs", "never")]),
    max_size=4,
)


@given(
    options=interpreter_options,
    python=st.sampled_from(["python", "python3", "/v/bin/python3.11"]),
    flags=st.lists(st.sampled_from(["--port", "1", "-m", "-c", "x", "serve", "--", "-W"]), max_size=5),
)
def test_interpreter_options_never_hide_the_module(
    options: list[object], python: str, flags: list[str]
) -> None:
    flat = [word for option in options for word in (option if isinstance(option, tuple) else (str(option),))]
    argv = [python, *flat, "-m", "sglang.launch_server", *flags]
    assert program_of(argv) == ("sglang.launch_server", tuple(flags))


def server(flags: str) -> Launch:
    """The launch of a server with these flags."""
    return Launch(router=False, flags=tuple(shlex.split(flags)))


def router(flags: str) -> Launch:
    """The launch of a router with these flags."""
    return Launch(router=True, flags=tuple(shlex.split(flags)))


@pytest.mark.parametrize(
    ("flags", "role"),
    [
        ("", "single"),
        ("--disaggregation-mode null", "single"),
        ("--disaggregation-mode prefill", "prefill"),
        ("--disaggregation-mode=decode", "decode"),
        ("--disaggregation-mode prefill --disaggregation-mode decode", "decode"),
        ("--served-model-name prefill", "single"),
    ],
)
def test_role(flags: str, role: str) -> None:
    assert launchflags.role(server(flags)) == role


@pytest.mark.parametrize(
    ("flags", "port"),
    [
        ("", 30000),
        ("--port 31000", 31000),
        ("--port=31000", 31000),
        ("--port 1 --port 2", 2),
        ("--port", 30000),
        ("--port nonsense", None),
        ("--config serve.yaml", None),
        ("--config serve.yaml --port 31000", 31000),
        ("--nccl-port 5 --disaggregation-bootstrap-port 8999", 30000),
    ],
)
def test_http_port(flags: str, port: int | None) -> None:
    assert launchflags.port(server(flags)) == port


def test_only_a_prefill_server_has_a_bootstrap_port() -> None:
    assert launchflags.bootstrap_port(server("--disaggregation-mode prefill")) == 8998
    explicit = server("--disaggregation-mode prefill --disaggregation-bootstrap-port 9000")
    assert launchflags.bootstrap_port(explicit) == 9000
    assert launchflags.bootstrap_port(server("--disaggregation-mode decode")) is None
    assert launchflags.bootstrap_port(server("")) is None


def test_a_router_has_metrics_on_a_port_of_their_own() -> None:
    assert launchflags.metrics_port(router("")) == 29000
    assert launchflags.metrics_port(router("--prometheus-port 29100")) == 29100
    assert launchflags.metrics_port(server("--prometheus-port 29100")) is None


def test_workers_of_a_router() -> None:
    pair = (
        "--pd-disaggregation --prefill http://a:1 8998 --prefill http://b:1 none --decode http://c:2 --port 3"
    )
    assert launchflags.workers(router(pair)) == ["http://a:1", "http://b:1", "http://c:2"]
    plain = "--worker-urls http://a:1 http://b:1 --policy random"
    assert launchflags.workers(router(plain)) == ["http://a:1", "http://b:1"]
    assert launchflags.workers(router("--decode=http://c:2 --prefill=http://a:1 8998")) == [
        "http://c:2",
        "http://a:1",
    ]


@pytest.mark.parametrize(
    ("flags", "visible", "gpus"),
    [
        ("", None, [0]),
        ("--tp 4", None, [0, 1, 2, 3]),
        ("--tp-size=4 --base-gpu-id 4", None, [4, 5, 6, 7]),
        ("--tensor-parallel-size 2 --gpu-id-step 2", None, [0, 2]),
        ("--tp 2 --pp-size 2", None, [0, 1, 2, 3]),
        ("--tp 2 --dp 2", None, [0, 1, 2, 3]),
        ("--tp 4 --dp 4 --enable-dp-attention", None, [0, 1, 2, 3]),
        ("--tp 2", "4,5,6,7", [4, 5]),
        ("--tp 2 --base-gpu-id 2", "4,5,6,7", [6, 7]),
        ("--tp 2", "7,3", [3, 7]),
        ("--tp 2", "4", None),
        ("--tp 2", "GPU-1b9f,GPU-77aa", None),
        ("", "", None),
        ("--device cpu --tp 8", None, []),
        ("--device npu --tp 8", None, None),
        ("--tp 16 --nnodes 2", None, None),
        ("--tp 4 --nnodes 1", None, [0, 1, 2, 3]),
        ("--tp many", None, None),
        ("--tp -1 --pp -1", None, None),
        ("--tp 1", "²", None),
        ("--tp 100000000", None, None),
        ("--tp 4 --config serve.yaml", None, None),
    ],
)
def test_gpus(flags: str, visible: str | None, gpus: list[int] | None) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert launchflags.gpus(server(flags), environment) == gpus


def test_gpus_are_unknown_when_the_environment_is() -> None:
    assert launchflags.gpus(server("--tp 4"), None) is None
    assert launchflags.gpus(server("--device cpu"), None) == []
    assert launchflags.gpus(router(""), None) == []
