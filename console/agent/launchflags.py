"""What the flags of a launch say: role, ports, GPUs, workers.

Flags are read as argparse reads them: `--flag value` or `--flag=value`, the last one wins. Defaults are those
of sglang 0.5.5 to 0.5.23 (server_args.py) and sglang_router 0.3.2 (router_args.py).
"""

from __future__ import annotations

from typing import Sequence

from .cmdlines import Launch

HTTP_PORT = 30000
BOOTSTRAP_PORT = 8998
ROUTER_METRICS_PORT = 29000
MOST_RANKS = 4096
"""More than this many ranks is a typing error."""

Flags = Sequence[str]


def value(flags: Flags, *names: str) -> str | None:
    """The value of the last of these flags, or None when none is given."""
    found = None
    for position, word in enumerate(flags):
        name, equals, attached = word.partition("=")
        if name in names:
            found = attached if equals else _next(flags, position)
    return found


def _next(flags: Flags, position: int) -> str | None:
    return flags[position + 1] if position + 1 < len(flags) else None


def number(flags: Flags, default: int | None, *names: str) -> int | None:
    """The value of a flag as an integer: `default` when it is not given, None when it is no integer."""
    text = value(flags, *names)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        return None


def role(launch: Launch) -> str:
    """`single`, `prefill`, `decode` or `router`."""
    if launch.router:
        return "router"
    mode = value(launch.flags, "--disaggregation-mode")
    return mode if mode in ("prefill", "decode") else "single"


def has_file(flags: Flags) -> bool:
    """True when a settings file may set what the command line does not, so that defaults prove nothing."""
    return value(flags, "--config") is not None


def port(launch: Launch) -> int | None:
    """The HTTP port, where the command line tells."""
    unsaid = launch.renamed or has_file(launch.flags)
    return number(launch.flags, None if unsaid else HTTP_PORT, "--port")


def metrics_port(launch: Launch) -> int | None:
    """A router's port of /metrics; servers answer on their HTTP port."""
    if not launch.router or launch.renamed:
        return None
    return number(launch.flags, ROUTER_METRICS_PORT, "--prometheus-port")


def bootstrap_port(launch: Launch) -> int | None:
    """The port on which a prefill server meets its decode servers."""
    if role(launch) != "prefill":
        return None
    default = None if has_file(launch.flags) else BOOTSTRAP_PORT
    return number(launch.flags, default, "--disaggregation-bootstrap-port")


def workers(launch: Launch) -> list[str]:
    """The worker URLs on a router's command line, in order."""
    found: list[str] = []
    flag = ""
    taken = 0
    for word in launch.flags:
        url = word
        if word.startswith("--"):
            flag, _, url = word.partition("=")
            taken = 0
        # After its URL, --prefill and --decode take a bootstrap port.
        limit = {"--worker-urls": len(launch.flags), "--prefill": 1, "--decode": 1}.get(flag, 0)
        if url and taken < limit:
            found.append(url)
            taken += 1
    return found


def gpus(launch: Launch, environment: dict[str, str] | None) -> list[int] | None:
    """GPU indices that a server asks for; None when flags and environment do not tell.

    Rank to GPU as in sglang's engine.py: base + dp * tp * pp * step + pp_rank * tp + tp_rank * step, counted
    within CUDA_VISIBLE_DEVICES. With data-parallel attention the dp ranks share the tp ranks' GPUs.
    """
    flags = launch.flags
    device = value(flags, "--device")
    if launch.router or device == "cpu":
        return []
    if device not in (None, "cuda") or has_file(flags) or value(flags, "--nnodes") not in (None, "1"):
        return None
    wanted = _logical_gpus(flags)
    if wanted is None or environment is None:
        return None
    return _physical_gpus(wanted, environment.get("CUDA_VISIBLE_DEVICES"))


def _logical_gpus(flags: Flags) -> list[int] | None:
    tp = number(flags, 1, "--tp-size", "--tensor-parallel-size", "--tp")
    pp = number(flags, 1, "--pp-size", "--pipeline-parallel-size", "--pp")
    dp = number(flags, 1, "--dp-size", "--data-parallel-size", "--dp")
    base = number(flags, 0, "--base-gpu-id")
    step = number(flags, 1, "--gpu-id-step")
    if tp is None or pp is None or dp is None or base is None or step is None:
        return None
    if "--enable-dp-attention" in flags:
        dp = 1
    if min(tp, pp, dp) < 1 or tp * pp * dp > MOST_RANKS:
        return None
    ranks: list[tuple[int, int, int]] = [(d, p, t) for d in range(dp) for p in range(pp) for t in range(tp)]
    return sorted({base + d * tp * pp * step + p * tp + t * step for d, p, t in ranks})


def _physical_gpus(wanted: list[int], visible: str | None) -> list[int] | None:
    """Indices on the host for indices within CUDA_VISIBLE_DEVICES, which may also hold UUIDs."""
    if visible is None:
        return wanted
    entries = [entry.strip() for entry in visible.split(",") if entry.strip()]
    chosen = [entries[index] if index < len(entries) else "" for index in wanted]
    return sorted(int(entry) for entry in chosen) if all(entry.isdecimal() for entry in chosen) else None
