"""What goes wrong between the roles of a deployment, with their requests, and at their end."""

from __future__ import annotations

from console.domain.server import Role

from .cause import Cause

_ROLES: tuple[Role, ...] = ("prefill", "decode")
HEALTH_FAILED = Cause(
    "health-failed",
    "trouble",
    ("Health check failed. Server couldn't get a response",),
    "the scheduler did not answer a health check in time: it is hung, or very busy",
    "see whether batch lines go on; if not, look at the GPUs: busy at low power is a hung collective",
)
KILLED = Cause(
    "killed",
    "root",
    ("crashed with exit code -9", "exit code 137", "exited with code 137", "exit status 137"),
    "killed from outside (SIGKILL): by the kernel for want of memory, by a person or by a supervisor",
    "look for `Out of memory: Killed process` in `journalctl -k` or `dmesg -T`; if it is not there, a"
    " person or a supervisor did it: ask who works on this host",
)

PAIR = (
    Cause(
        "roles-differ",
        "root",
        (" mismatch: prefill server has ", " mismatch: decode server has ", "Both servers must use the same"),
        "prefill and decode were started with different settings, so no KV can move between them",
        "give both roles the same value of the flag that the line names",
        roles=_ROLES,
    ),
    Cause(
        "nixl-crash",
        "root",
        ("Fatal Python error", "Segmentation fault"),
        "NIXL crashed, as it does when the other role was replaced under it",
        "never restart one role of a pair alone",
        roles=_ROLES,
        frames=("nixl",),
    ),
    Cause(
        "nixl-disconnected",
        "trouble",
        ("NIXL_ERR_REMOTE_DISCONNECT", "nixlRemoteDisconnectError"),
        "NIXL has lost its peer: the other role died or was replaced",
        "look at the other role's log for why",
        roles=_ROLES,
    ),
    Cause(
        "prefill-unregistered",
        "trouble",
        ("Prefill instance failed to register",),
        "prefill could not register with its own bootstrap server: no decode server will find it",
        "see whether the bootstrap port was taken (`ss -ltnp`)",
        roles=_ROLES,
    ),
    Cause(
        "prefill-lost",
        "trouble",
        ("Lost connection with prefill instance", "Attempting to reconnect to"),
        "decode has lost its prefill server",
        "look at the prefill log: it comes first",
        roles=_ROLES,
    ),
    Cause(
        "bootstrap-unreachable",
        "trouble",
        (
            "Could not fetch prefill parallel info",
            "Error fetching prefill",
            "Failed to get prefill server info",
        ),
        "decode cannot reach prefill's bootstrap server",
        "look at the prefill log first: does it live, and listen on its bootstrap port",
        roles=_ROLES,
    ),
    Cause(
        "bootstrap-failed",
        "trouble",
        (
            "Prefill bootstrap failed for request",
            "Decode handshake failed for request",
            "KVPoll.Bootstrapping",
        ),
        "prefill and decode did not find each other for a request",
        "see that both roles live and name the same bootstrap port",
        roles=_ROLES,
    ),
    Cause(
        "decode-given-up",
        "trouble",
        ("Decode instance could be dead",),
        "prefill holds its decode server for dead, and goes on refusing it even when it lives",
        "see whether decode lives",
        roles=_ROLES,
    ),
    Cause(
        "kv-transfer-failed",
        "trouble",
        (
            "Prefill transfer failed for request",
            "Decode transfer failed for request",
            "Some requests fail to receive KV Cache",
            "KVTransferError",
        ),
        "a request's KV cache did not get from prefill to decode",
        "look at the other role's log at the same time: one of the two gave up",
        roles=_ROLES,
    ),
    Cause(
        "nixl-failed",
        "trouble",
        ("NIXL transport error", "NIXL_ERR_"),
        "NIXL could not move KV between the roles",
        "check UCX_TLS and UCX_NET_DEVICES of both roles",
        roles=_ROLES,
    ),
    Cause(
        "thread-died",
        "root",
        ("Exception in thread ",),
        "a thread of the server died: the process looks healthy, but that thread's work is not done",
        "see the exception below it",
    ),
)

SERVING = (
    Cause(
        "warmup-failed",
        "root",
        (
            "Disaggregation warmup failed",
            "warmup with status 4",
            "warmup with status 5",
            "warmup request completed with status 4",
            "warmup request completed with status 5",
        ),
        "the warm-up requests failed, so the ready line that follows is not true",
        "look for the first error above the warm-up",
    ),
    Cause(
        "warmup-failed",
        "root",
        ("Initialization failed.",),
        "the warm-up request failed or never ended",
        "look at what the scheduler wrote before it; a first start compiles kernels, and may want a longer"
        " SGLANG_WARMUP_TIMEOUT",
    ),
    Cause(
        "watchdog",
        "root",
        (" watchdog timeout (", "Watchdog timeout ("),
        "a step hung for longer than --watchdog-timeout allows",
        "see in the stacks above the line where; if it is in a collective, try NCCL_P2P_DISABLE=1: with IOMMU"
        " or ACS on, peer access between the GPUs hangs",
    ),
    Cause(
        "past-the-router",
        "client",
        ("Invalid request: Disaggregated request received without",),
        "a client spoke to one role directly, past the router",
        "point the client at the router's port",
    ),
    Cause(
        "request-too-long",
        "client",
        ("is longer than the model's context length", "exceeds the model's maximum context length"),
        "a client sent a request that is longer than the model's context",
        "shorten the request, or raise --context-length as far as the model allows",
    ),
    HEALTH_FAILED,
    Cause(
        "no-worker",
        "trouble",
        ("Failed to select PD pair", "No available prefill workers", "No available decode workers"),
        "the router has no healthy worker of one role",
        "look at that role's server; see the router's /workers",
        roles=("router",),
    ),
    Cause(
        "worker-unreachable",
        "trouble",
        ("Decode request failed", "Prefill request failed", "HTTP health check failed for"),
        "a worker did not answer the router",
        "look at the log of the server at that address",
        roles=("router",),
    ),
    Cause(
        "requests-fail",
        "symptom",
        ('HTTP/1.1" 5', 'HTTP/1.0" 5', "status_code=5"),
        "requests are answered with a server error",
        "look for the first error before them",
    ),
)

ENDED = (
    KILLED,
    Cause(
        "crash",
        "root",
        (
            "Fatal Python error",
            "Segmentation fault",
            "crashed with exit code -11",
            "crashed with exit code -6",
        ),
        "a native library crashed the process",
        "see which library the last frames name, and note its version",
    ),
    Cause(
        "child-died",
        "consequence",
        (" crashed with exit code ", "SIGQUIT received", "Received sigquit from a child process"),
        "a child process died and left no message of its own",
        "look in `dmesg -T` and for core dumps",
    ),
    Cause(
        "signal-handler",
        "consequence",
        ("--- Logging error ---", "reentrant call inside", "kill_process_tree called"),
        "the process was ending already",
        "look further up",
    ),
)
