"""The command line of the router."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from demohost.flags import add_flags

_FLAGS = Path(__file__).with_name("router_flags.tsv")
"""Read off the parser of sglang_router 0.3.2 (router_args.py)."""

WorkerType = Literal["prefill", "decode", "regular"]


class WorkerAddress(NamedTuple):
    """A worker as the command line names it."""

    url: str
    kind: WorkerType
    bootstrap_port: int | None = None


class RouterArgs(NamedTuple):
    """What of the command line the simulation heeds."""

    host: str
    port: int
    prometheus_host: str
    prometheus_port: int
    policy: str
    workers: tuple[WorkerAddress, ...]
    health_interval_s: float
    health_failures: int
    health_successes: int
    health_checks: bool
    retries: int
    breaker_failures: int | None
    """Consecutive failures that open a worker's circuit; None when the breaker is off."""
    breaker_open_s: float

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Teach a parser all flags."""
        add_flags(parser, _FLAGS)

    @property
    def pairs(self) -> bool:
        """Does it route to prefill and decode?"""
        return any(worker.kind != "regular" for worker in self.workers)


def parse(argv: Sequence[str]) -> RouterArgs:
    """Read a command line. Prints usage on stderr and exits with 2 when it is wrong."""
    parser = argparse.ArgumentParser()
    RouterArgs.add_cli_args(parser)
    given = parser.parse_args(argv)
    prefill = [_prefill(values) for values in given.prefill or ()]
    decode = [WorkerAddress(values[0], "decode") for values in given.decode or ()]
    regular = [WorkerAddress(url, "regular") for url in given.worker_urls]
    return RouterArgs(
        host=given.host,
        port=given.port,
        prometheus_host=given.prometheus_host,
        prometheus_port=given.prometheus_port,
        policy=given.policy,
        workers=(*prefill, *decode, *regular),
        health_interval_s=given.health_check_interval_secs,
        health_failures=given.health_failure_threshold,
        health_successes=given.health_success_threshold,
        health_checks=not given.disable_health_check,
        retries=1 if given.disable_retries else given.retry_max_retries,
        breaker_failures=None if given.disable_circuit_breaker else given.cb_failure_threshold,
        breaker_open_s=given.cb_timeout_duration_secs,
    )


def _prefill(values: Sequence[str]) -> WorkerAddress:
    url, *port = values
    return WorkerAddress(url, "prefill", int(port[0]) if port and port[0] != "none" else None)
