"""What the lines of SGLang, its router and the libraries below them say, as data.

Wordings of sglang 0.5.5 to 0.5.23 and sglang_router 0.3.2. Within a table the first hit wins.
"""

from __future__ import annotations

from console.domain.logline import LineClass

Needles = tuple[tuple[str, LineClass], ...]

READY = "The server is fired up and ready to roll!"
"""Ready only as the whole message: the same words inside a logged prompt are no news of the server."""

STARTS: tuple[tuple[LineClass, tuple[str, ...]], ...] = (
    ("stats", ("Decode batch", "Prefill batch", "ReqTimeStats(")),
    (
        "fatal",
        (
            "SIGQUIT received.",
            "Received sigquit from a child process",
            "Initialization failed.",
            "Disaggregation warmup failed",
            "Fatal Python error:",
            "Watchdog timeout (",
        ),
    ),
    (
        "error",
        (
            "Health check failed.",
            "Prefill instance failed to register",
            "Prefill transfer failed for request",
            "Prefill bootstrap failed for request",
            "Decode transfer failed for request",
            "Decode handshake failed for request",
            "Could not fetch prefill parallel info",
            "Lost connection with prefill instance",
            "Error fetching prefill parallel info",
            "Some requests fail to receive KV Cache",
            "Decode instance could be dead",
            "Invalid request:",
            "NIXL transport error",
            "Exception in thread ",
            "Traceback (most recent call last):",
        ),
    ),
    (
        "benign",
        (
            # Logged text of users: whatever it contains is not about the server.
            "Receive: obj=",
            "Finish: obj=",
            "Ignore import error when loading",
            "Radix cache is disabled for decode server",
            "KV cache is forced as chunk cache for decode server",
            "Using default ",
            "Using fallback token IDs",
            "Using FP8 KV cache but no scaling factors",
            "flashinfer.comm allreduce_fusion API is not available",
            "Failed to load generation config",
            "Fail to set RLIMIT_NOFILE",
            "Watchdog ",
            "CustomAllReduce",
            "CustomAllreduce",
            "Custom allreduce is disabled",
            "Health check request received during shutdown",
            "[http_server] Client disconnected",
            "Abort request for rid=",
            "Endpoint '/",
            "[Gloo] Rank",
            # Also printed when a server is stopped in the ordinary way.
            "kill_process_tree called",
        ),
    ),
    (
        "config",
        (
            "server_args=",
            "max_total_num_tokens=",
            "DSV4 memory calculation",
            "DSV4 pool sizes",
            "DSv4 ",
            "sglang is using nccl==",
            "Use ",
            "Setting ",
            "Tree cache initialized",
            "Disable prefill CUDA graph",
            "Disable decode CUDA graph",
        ),
    ),
    (
        "progress",
        (
            "Init parallel ",
            "Init torch distributed ",
            "NCCL/RCCL/HCCL warmup",
            "Memory baseline taken",
            "Load weight ",
            "Memory pool end",
            "KV Cache is allocated",
            "KV Cache VA upper bound",
            "Post-capture KV sizing",
            "Capture ",
            "NIXL KVManager initialized",
            "CommonKVBootstrapServer started",
            "Start of pd disaggregation warmup",
            "Disaggregation warmup requests completed",
            "End of disaggregation warmup",
            "Gracefully exiting...",
        ),
    ),
    (
        "warning",
        (
            "Prefill register attempt",
            "SIGTERM received.",
            "Signal SIGTERM received",
            "Schedulers still alive",
            "KV cache pool is full",
            "Attempting to reconnect to",
            "NIXL invalidated remote agent",
            "Cuda graph is disabled",
            "numactl rejected",
            # Unknown ones of this wording deserve a look; only known ones are called errors.
            "Failed ",
            "Error",
            "Cannot ",
            "Could not ",
            "Unable to ",
        ),
    ),
)
"""How a message begins, after the `[date ranks]` prefix. At least four characters each."""

CONTAINS: Needles = (
    ("%|", "progress"),
    ("% Completed |", "progress"),
    (" hit an exception: ", "fatal"),
    (" crashed with exit code ", "fatal"),
    ("self.soft=True)", "warning"),
    (" watchdog timeout (", "fatal"),
    (" out of memory. ", "fatal"),
    ("CUDA error: ", "fatal"),
    ("NCCL error", "fatal"),
    ("error while attempting to bind on address", "fatal"),
    ("Address already in use (os error", "fatal"),
    ("Not enough memory. Please try", "fatal"),
    (" graph failed: ", "fatal"),
    ("Unsupported architecture", "fatal"),
    (" mismatch: prefill server has ", "fatal"),
    (" mismatch: decode server has ", "fatal"),
    ("/gloo/transport/", "fatal"),
    ("terminated with exception: ", "fatal"),
    ("NVRM: Xid ", "fatal"),
    ("Out of memory: Killed process ", "fatal"),
    (": error: unrecognized arguments", "fatal"),
    (": error: argument ", "fatal"),
    (": error: ambiguous option", "fatal"),
    (": error: the following arguments", "fatal"),
    ("warmup with status 200", "progress"),
    ("warmup request completed with status 200", "progress"),
    ("warmup with status ", "fatal"),
    ("warmup request completed with status ", "fatal"),
    ("NIXL_ERR_", "error"),
    ("UserWarning: ", "benign"),
    ("FutureWarning: ", "benign"),
    ("DeprecationWarning: ", "benign"),
    ("is now natively supported by torch.compile", "benign"),
    ("process group has NOT been destroyed", "benign"),
    ("destroy_process_group() was not called", "benign"),
    (" was already registered, ignoring", "benign"),
    (" is deprecated and will be removed", "warning"),
)
"""What gives a line away wherever it stands."""

UVICORN: Needles = (
    ("error while attempting to bind on address", "fatal"),
    # The router asks every HTTP worker once whether it speaks gRPC.
    ("Invalid HTTP request received.", "benign"),
    ("Started server process", "progress"),
    ("Waiting for application startup", "progress"),
    ("Application startup complete", "progress"),
    ("Uvicorn running on ", "progress"),
    ("Shutting down", "benign"),
    ("Waiting for connections to close", "benign"),
    ("Waiting for application shutdown", "benign"),
    ("Application shutdown complete", "benign"),
    ("Finished server process", "benign"),
)

NCCL: Needles = (
    ("Cuda failure", "fatal"),
    ("ncclUnhandledCudaError", "fatal"),
    ("NCCL WARN ", "warning"),
    (" via SHM/", "warning"),
    ("Init COMPLETE", "progress"),
    ("NCCL version ", "config"),
    (" set by environment to ", "config"),
    ("Using network ", "config"),
    (" : Using [", "config"),
    ("NCCL INFO Channel ", "config"),
    ("NCCL INFO Connected all ", "config"),
    ("NCCL INFO ", "benign"),
)

ROUTER: Needles = (
    ("http_request{", "benign"),
    # Its steps fail while workers still load; whether that is late enough to matter, one line cannot tell.
    (" smg::workflow::event: ", "benign"),
    ("Failed to load tokenizer ", "benign"),
    ("HTTP health check failed for ", "error"),
    (" (marked as healthy)", "ready"),
    ("Starting router on ", "config"),
    ("Starting server on ", "progress"),
    ("Received terminate signal", "progress"),
    # NIXL's own logger has the same date.
    ("Initialized NIXL agent", "progress"),
    (" was instantiated", "progress"),
)
"""Below ERROR, which is always an error."""

LEVELS: dict[str, LineClass] = {
    "ERROR": "error",
    "CRITICAL": "error",
    "E": "error",
    "F": "error",
    "WARNING": "warning",
    "WARN": "warning",
    "W": "warning",
}
"""A level that the line itself carries, for what no table knows."""
