"""What single lines of SGLang, its router and the libraries below them tell besides `name=value`, as data.

Wordings of sglang 0.5.5 to 0.5.23 and sglang_router 0.3.2.
"""

from __future__ import annotations

import re


def _fact(literal: str, pattern: str) -> tuple[str, re.Pattern[str]]:
    return literal, re.compile(pattern)


FACTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # HTTP
    _fact("Uvicorn running on ", r"Uvicorn running on \w+://(?P<host>[^:/]+):(?P<port>\d+)"),
    _fact(" server process", r"(?:Started|Finished) server process \[(?P<pid>\d+)\]"),
    _fact(" with status ", r" with status (?P<status>\d{3})"),
    _fact("status codes: ", r"status codes: \[(?P<status>\d{3})"),
    _fact("Failed to get prefill server info", r"info: (?P<status>\d{3}),"),
    _fact(" error=", r" error=(?P<error>[^\"].*)$"),
    # Addresses
    _fact("on address (", r"on address \('(?P<host>[^']*)', (?P<port>\d+)"),
    _fact("started successfully on ", r"started successfully on (?P<host>[^\s:]+):(?P<port>\d+)"),
    _fact("Starting ", r"Starting (?:router|server) on (?P<host>[^\s:]+):(?P<port>\d+)"),
    _fact("reconnect to ", r"reconnect to (?P<addr>\S+?:\d+)"),
    _fact("parallel info from ", r"parallel info from (?:bootstrap_addr: )?(?P<addr>\S+?:\d+)"),
    _fact("bootstrap_addr: ", r"bootstrap_addr: (?P<addr>[^\s),]+)"),
    _fact(" health check ", r"health check (?:failed|returned \S+ status) for (?P<worker>\w+://[^/\s]+)"),
    # Counts
    _fact(" for all ", r" for all (?P<dp_ranks>\d+) DP ranks"),
    _fact("attempt ", r"attempt (?P<attempt>\d+)/(?P<max>\d+)"),
    _fact(" attempts", r"after (?P<attempts>\d+) attempts"),
    _fact(" retries", r"after (?P<attempts>\d+) retries"),
    _fact(" requests affected", r"\b(?P<affected>\d+) requests affected"),
    _fact("Remaining number of requests", r"Remaining number of requests (?P<remaining>\d+)"),
    _fact("Activated ", r"Activated (?P<workers>\d+) worker"),
    _fact("#retracted_reqs", r"#retracted_reqs: (?P<retracted>\d+)"),
    _fact("#new_tokens_gained", r"#new_tokens_gained: (?P<gained>\d+)"),
    _fact("#new_token_ratio", r"#new_token_ratio: (?P<ratio_from>[\d.]+) -> (?P<ratio_to>[\d.]+)"),
    # Times
    _fact(" timed out after ", r" timed out after (?P<after_s>[\d.]+) ?s"),
    _fact("read timeout=", r"read timeout=(?P<timeout_s>[\d.]+)"),
    _fact("watchdog_timeout=", r"^.*atchdog timeout \(self\.watchdog_timeout=(?P<timeout_s>[\d.]+)"),
    _fact(" for last ", r" for last (?P<timeout_s>[\d.]+) seconds"),
    _fact(" completed in ", r" completed in (?P<elapsed_s>[\d.]+) ?s"),
    _fact("still alive ", r"still alive (?P<after_s>[\d.]+)s"),
    # Start-up
    _fact("Capture ", r"Capture (?P<what>.+?) (?:CUDA|cuda) graph (?:begin|end|failed)"),
    _fact("ackend", r"[Bb]ackend(?:: | )(?P<backend>[A-Z]\w+)"),
    _fact("unrecognized arguments: ", r"unrecognized arguments: (?P<option>--?[\w-]+)"),
    _fact(": error: argument ", r": error: argument (?P<option>--?[\w-]+)"),
    _fact("ambiguous option: ", r"ambiguous option: (?P<option>--?[\w-]+)"),
    _fact("are required: ", r"are required: (?P<option>--?[\w-]+)"),
    # Ends
    _fact("exit code ", r"exit code (?P<exit_code>-?\d+)"),
    _fact("Exit code: ", r"Exit code: (?P<exit_code>-?\d+)"),
    _fact("exitcode=", r"exitcode=(?P<exit_code>-?\d+)"),
    _fact("terminated with ", r"^Scheduler or \w+ (?P<pid>\d+) terminated with (?P<exit_code>-?\d+)"),
    _fact("PID ", r"\bPID (?P<pid>\d+)"),
    _fact("Killed process ", r"Killed process (?P<pid>\d+)(?: \((?P<name>[^)]*)\))?"),
    _fact(": line ", r": line \d+: +(?P<pid>\d+) [A-Z]"),
    _fact("[Errno ", r"\[Errno (?P<errno>\d+)\]"),
    _fact("(os error ", r"\(os error (?P<errno>\d+)\)"),
    _fact("NVRM: Xid ", r"Xid \((?:PCI:)?(?P<pci>[\da-fA-F:.]+)\): (?P<xid>\d+)"),
    # GPU memory
    _fact("Tried to allocate ", r"Tried to allocate (?P<tried_gib>[\d.]+) GiB"),
    _fact("Tried to allocate ", r"Tried to allocate (?P<tried_mib>[\d.]+) MiB"),
    _fact("total capacity of ", r"GPU (?P<gpu>\d+) has a total capacity of (?P<total_gib>[\d.]+) GiB"),
    _fact(" is free", r"of which (?P<free_gib>[\d.]+) GiB is free"),
    _fact(" is free", r"of which (?P<free_mib>[\d.]+) MiB is free"),
    # A pair
    _fact("prefill server has ", r"prefill server has (?:\w+=)?(?P<prefill>[^\s,]+?)[.,]?(?:\s|$)"),
    _fact("decode server has ", r"decode server has (?:\w+=)?(?P<decode>[^\s,]+?)[.,]?(?:\s|$)"),
    _fact(" for room ", r" for room (?P<room>\d+)"),
    _fact("mode: ", r"\| mode: (?P<mode>\w+)"),
    # NCCL
    _fact(
        "NCCL version ",
        r"NCCL version (?P<nccl_version>\d+(?:\.\d+)+)(?:\+cuda(?P<cuda>\d+(?:\.\d+)*))?",
    ),
    _fact("nccl==", r"nccl==(?P<nccl_version>\d+(?:\.\d+)+)"),
    _fact("Using network ", r"Using network (?P<network>\S+)"),
    _fact(" Channel ", r" Channel \d+/(?P<channels>\d+) : +\d+ +\d"),
    _fact(" via ", r"\] -> \d+\[\w+\](?: \[\w+\])? via (?P<transport>\S+)"),
    _fact("ncclCommInit", r" rank (?P<rank>\d+) nranks (?P<nranks>\d+)"),
    _fact(" coll channels", r"\b(?P<channels>\d+) coll channels"),
    _fact("[rank", r"^\[rank(?P<rank>\d+)\]:"),
)
"""A literal that must stand in the line, and what is read then: the groups' names are the fields'."""

SETTING = re.compile(r" (?P<name>[A-Z][A-Z0-9_]+) set by environment to (?P<value>.*?)\.?$")
"""NCCL's echo of an environment variable."""

TEXTS = frozenset(
    ("rid", "addr", "host", "client", "path", "pci", "nccl_version", "cuda", "version", "prefill", "decode")
)
"""Fields that stay text even where they look like a number."""

NAMES = {
    "bootstrap_room": "room",
    "latency": "latency_us",
    "Time elapsed": "elapsed",
    "KV size": "kv",
    "K size": "k",
    "V size": "v",
    "available_bytes": "available",
    "avail mem": "avail_mem",
    "mem usage": "mem_usage",
}
"""What a pair is called here, if not by its own name; a router's latency is in microseconds."""

STAGES: tuple[tuple[str, str], ...] = (
    ("Init parallel ", "dist_init"),
    ("Init torch distributed ", "dist_init"),
    ("Load weight ", "weights"),
    ("Loading ", "weights"),
    ("Multi-thread loading ", "weights"),
    ("KV Cache ", "kv"),
    ("Post-capture KV sizing", "kv"),
    ("Memory pool end", "kv"),
    ("Capture ", "capture"),
    ("Capturing ", "capture"),
    ("Start of pd disaggregation warmup", "warmup"),
    ("Disaggregation warmup", "warmup"),
    ("End of ", "warmup"),
)
"""How a progress message begins, and the step of the start-up that it is about."""

CAUSES: tuple[tuple[str, str], ...] = (
    ("ut of memory: Killed process", "host_oom"),
    ("CUDA out of memory", "cuda_oom"),
    ("CUDA error: out of memory", "cuda_oom"),
    ("an illegal memory access", "cuda_illegal_memory_access"),
    ("device-side assert", "cuda_assert"),
    ("collective operation timeout", "nccl_timeout"),
    ("NCCL error", "nccl"),
    ("NCCL WARN Cuda failure", "nccl"),
    ("ncclUnhandledCudaError", "nccl"),
    ("Not enough memory. Please try", "mem_fraction"),
    (" out of memory. Try to lower your batch size", "kv_full"),
    ("Unsupported architecture", "unsupported_arch"),
    ("no kernel image is available", "unsupported_arch"),
    ("Connection closed by peer", "peer_closed"),
    ("Connection reset by peer", "peer_closed"),
    ("remote process exited", "peer_closed"),
    ("ddress already in use", "port_taken"),
    ("No space left on device", "disk_full"),
    ("atchdog timeout", "watchdog"),
    (" mismatch: prefill server has ", "roles_differ"),
    (" mismatch: decode server has ", "roles_differ"),
    ("KVPoll.Bootstrapping", "bootstrap_timeout"),
    ("KVPoll.WaitingForInput", "kv_timeout"),
    ("Segmentation fault", "segfault"),
    ("CUDA error: ", "cuda"),
)
"""What an error or fatal line gives as its cause, by the words that give it away; the first hit wins."""
