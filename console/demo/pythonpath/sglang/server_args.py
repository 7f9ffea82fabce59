"""The command line of a server and what follows from it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from demohost.flags import add_flags

ARCHITECTURE = "DeepseekV4ForCausalLM"
CONTEXT_LENGTH = 1048576
PAGE_SIZE = 256
MAX_RUNNING_REQUESTS = 256
CHUNKED_PREFILL_SIZE = 8192
DEFAULT_MEM_FRACTION = 0.83
_DEFAULT_MAX_CAPTURED = 32
_FLAGS = Path(__file__).with_name("server_flags.tsv")
"""Read off the argument definitions of SGLang 0.5.23 (srt/arg_groups/fields)."""

Role = Literal["single", "prefill", "decode"]

_ROLES: dict[str, Role] = {"null": "single", "prefill": "prefill", "decode": "decode"}
_ENGINE_TYPES = {"single": "unified", "prefill": "prefill", "decode": "decode"}
_ACCEPT_LENGTHS = {1: 1.72, 2: 2.31}
"""Tokens a verify step by number of drafted steps; more steps give little more."""
_MANY_STEPS_ACCEPT_LENGTH, _DSPARK_ACCEPT_LENGTH = 2.74, 3.12


class ServerArgs(NamedTuple):
    """What of the command line the simulation heeds; `resolved` has all of it."""

    role: Role
    host: str
    port: int
    model_path: str
    served_model_name: str
    tp_size: int
    gpus: tuple[int, ...]
    mem_fraction: float
    bootstrap_port: int
    graph_sizes: tuple[int, ...]
    """Batch sizes for which a decode graph is captured; empty when that is off."""
    accept_length: float
    """Tokens a decode step: 1 without speculative decoding."""
    draft_tokens: int
    resolved: dict[str, Any]
    command: tuple[str, ...]

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Teach a parser all flags, as whoever only wants to check a command line does."""
        add_flags(parser, _FLAGS)

    @property
    def mode(self) -> str:
        """The role in the words of --disaggregation-mode."""
        return str(self.resolved["disaggregation_mode"])

    @property
    def engine_type(self) -> str:
        """The role in the words of the metrics."""
        return _ENGINE_TYPES[self.role]

    @property
    def speculates(self) -> bool:
        """Is speculative decoding on?"""
        return self.draft_tokens > 0

    @property
    def url(self) -> str:
        """Where the server reaches itself."""
        return f"http://{'127.0.0.1' if self.host in ('', '0.0.0.0') else self.host}:{self.port}"


def parse(argv: Sequence[str]) -> ServerArgs:
    """Read a command line. Prints usage on stderr and exits with 2 when it is wrong, as the real one does."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    given = parser.parse_args(argv)
    _resolve(given)
    accept_length, draft_tokens = _speculation(given)
    return ServerArgs(
        role=_ROLES[given.disaggregation_mode],
        host=given.host,
        port=given.port,
        model_path=given.model_path,
        served_model_name=given.served_model_name,
        tp_size=given.tp_size,
        gpus=tuple(given.base_gpu_id + rank * given.gpu_id_step for rank in range(given.tp_size)),
        mem_fraction=given.mem_fraction_static,
        bootstrap_port=given.disaggregation_bootstrap_port,
        graph_sizes=_graph_sizes(given),
        accept_length=accept_length,
        draft_tokens=draft_tokens,
        resolved=vars(given),
        command=tuple(argv),
    )


def _resolve(given: argparse.Namespace) -> None:
    """Fill in what SGLang decides by itself for this model."""
    given.tokenizer_path = given.tokenizer_path or given.model_path
    given.served_model_name = given.served_model_name or given.model_path
    given.mem_fraction_static = given.mem_fraction_static or DEFAULT_MEM_FRACTION
    given.page_size = PAGE_SIZE
    given.max_running_requests = given.max_running_requests or MAX_RUNNING_REQUESTS
    given.chunked_prefill_size = given.chunked_prefill_size or CHUNKED_PREFILL_SIZE
    given.context_length = given.context_length or CONTEXT_LENGTH
    if given.moe_runner_backend == "auto":
        given.moe_runner_backend = "flashinfer_mxfp4"
    if given.kv_cache_dtype == "auto":
        given.kv_cache_dtype = "fp8_e4m3"
    given.attention_backend = given.attention_backend or "dsv4"
    if given.disaggregation_mode == "decode" and not given.disaggregation_decode_enable_radix_cache:
        given.disable_radix_cache = True


def _speculation(given: argparse.Namespace) -> tuple[float, int]:
    """Accept length and draft tokens a step."""
    if given.speculative_algorithm is None:
        return 1.0, 0
    if given.speculative_algorithm == "DSPARK":
        return _DSPARK_ACCEPT_LENGTH, given.speculative_num_draft_tokens or 6
    steps = given.speculative_num_steps or 3
    accept_length = _ACCEPT_LENGTHS.get(steps, _MANY_STEPS_ACCEPT_LENGTH)
    return accept_length, given.speculative_num_draft_tokens or steps + 1


def _graph_sizes(given: argparse.Namespace) -> tuple[int, ...]:
    if given.disable_cuda_graph or given.cuda_graph_backend_decode == "disabled":
        return ()
    if given.cuda_graph_bs_decode:
        return tuple(given.cuda_graph_bs_decode)
    most = given.cuda_graph_max_bs_decode or _DEFAULT_MAX_CAPTURED
    sizes = [1, 2, 4, *range(8, 33, 8), *range(48, 161, 16), *range(192, 513, 32)]
    return tuple(size for size in sizes if size <= most) or (most,)
