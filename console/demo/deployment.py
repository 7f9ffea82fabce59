"""What the demo host serves from the start: one prefill/decode pair behind a router."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import NamedTuple

MODEL = "/models/DeepSeek-V4-Flash-NVFP4"

_PORTS = ("prefill", "bootstrap", "decode", "router", "metrics")

_SERVER = (
    *("-m", "sglang.launch_server", "--model-path", MODEL, "--served-model-name", "DeepSeek-V4-Flash"),
    *("--host", "127.0.0.1", "--tensor-parallel-size", "{gpus_each}", "--kv-cache-dtype", "fp8_e4m3"),
    *("--moe-runner-backend", "marlin", "--disable-custom-all-reduce", "--enable-metrics"),
    *("--uvicorn-access-log-exclude-prefixes", "/metrics", "/health", "/v1/loads"),
    *("--disaggregation-transfer-backend", "nixl", "--disaggregation-bootstrap-port", "{bootstrap}"),
)

_COMMANDS: dict[str, tuple[str, ...]] = {
    "prefill": (
        *_SERVER,
        *("--port", "{prefill}", "--disaggregation-mode", "prefill"),
        *("--base-gpu-id", "0", "--mem-fraction-static", "0.72"),
    ),
    "decode": (
        *_SERVER,
        *("--port", "{decode}", "--disaggregation-mode", "decode"),
        *(
            "--base-gpu-id",
            "{gpus_each}",
            "--mem-fraction-static",
            "0.86",
            "--cuda-graph-max-bs-decode",
            "32",
        ),
    ),
    "router": (
        *("-m", "sglang_router.launch_router", "--pd-disaggregation"),
        *("--prefill", "http://127.0.0.1:{prefill}", "{bootstrap}", "--decode", "http://127.0.0.1:{decode}"),
        *("--host", "127.0.0.1", "--port", "{router}", "--policy", "random"),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", "{metrics}"),
        *("--health-check-interval-secs", "10", "--health-check-timeout-secs", "25"),
    ),
}


class Launch(NamedTuple):
    """One process to start: its name, which is its log's as well, and Python's arguments."""

    name: str
    arguments: tuple[str, ...]


def launches(gpus: int) -> tuple[Launch, ...]:
    """The processes of the deployment, on ports that are free now, half of the GPUs to each role."""
    values = {name: str(port) for name, port in zip(_PORTS, free_ports(len(_PORTS)), strict=True)}
    values["gpus_each"] = str(gpus // 2)
    return tuple(
        Launch(name, tuple(argument.format(**values) for argument in command))
        for name, command in _COMMANDS.items()
    )


def free_ports(count: int) -> tuple[int, ...]:
    """Different loopback ports on which nobody listens now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for reserved in sockets:
            reserved.bind(("127.0.0.1", 0))
        return tuple(reserved.getsockname()[1] for reserved in sockets)
