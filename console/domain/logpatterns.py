"""What the lines of SGLang, its router and the libraries below them say, as data.

Wordings of sglang 0.5.5 to 0.5.23 and sglang_router 0.3.2. Within a table the first hit wins.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from .logline import LineClass

Event = Literal[
    "alarm",  # only worth a look at what stands around it
    "begin",  # a run starts here
    "ready",
    "unready",  # a ready line after this one is not to be believed
    "stop",  # somebody asked for an end
    "exit",  # a process ended: no news in an ordered stop, a consequence after a cause
    "lone",  # head of a record without a severity of its own: its cause gives it
    "data",  # text of users, whatever it says
    "note",  # the indented line below belongs to it
    "dump",  # stacks of a server that hangs
    "hung",
    "slow",
    "health",
    "routes",  # a router says how many workers it wants
    "joined",
    "step",  # a router tries to register a worker
]


class Meaning(NamedTuple):
    """What one line says, judged alone; `event` is what it means for the lines around it."""

    line_class: LineClass
    event: Event | None = None


FATAL = Meaning("fatal", "alarm")
ERROR = Meaning("error", "alarm")
WARNING = Meaning("warning", "alarm")
BENIGN = Meaning("benign")
STATS = Meaning("stats")
PROGRESS = Meaning("progress")
CONFIG = Meaning("config")
PLAIN = Meaning("plain")
READY = Meaning("ready", "ready")
DATA = Meaning("benign", "data")
LONE = Meaning("error", "lone")
ENDED = Meaning("fatal", "exit")

Needles = tuple[tuple[str, Meaning], ...]

READY_MESSAGE = "The server is fired up and ready to roll!"
"""Ready only as the whole message: the same words inside a logged prompt are no news of the server."""

TRACEBACK = "Traceback (most recent call last):"

STARTS: tuple[tuple[Meaning, tuple[str, ...]], ...] = (
    (STATS, ("Decode batch", "Prefill batch", "ReqTimeStats(")),
    (DATA, ("Receive: obj=", "Finish: obj=", "Receive OpenAI: obj=", '{"timestamp": "')),
    (Meaning("config", "begin"), ("server_args=",)),
    (
        ENDED,
        (
            "SIGQUIT received.",
            "Received sigquit from a child process",
            "Child process unexpectedly failed",
            "Exit code: ",
        ),
    ),
    # Also printed when a server is stopped in the ordinary way.
    (Meaning("benign", "exit"), ("kill_process_tree called",)),
    (Meaning("fatal", "unready"), ("Disaggregation warmup failed",)),
    (Meaning("fatal", "dump"), ("Pyspy dump for PID", "Pyspy failed (", "All pyspy dump attempts failed")),
    (Meaning("fatal", "hung"), ("Watchdog timeout (",)),
    (
        FATAL,
        (
            "Initialization failed.",
            "Fatal Python error:",
            "terminate called ",
            "double free or corruption",
            "free(): ",
            "malloc(): ",
            "munmap_chunk(): ",
            "corrupted size vs. prev_size",
            "!!!!!!! Segfault",
            "*** SIG",
            "Port is already in use.",
            "nvcc fatal ",
            "ninja: build stopped",
        ),
    ),
    (Meaning("error", "health"), ("Health check failed.",)),
    (
        LONE,
        (
            TRACEBACK,
            "Exception in thread ",
            "Exception in callback ",
            "Task exception was never retrieved",
            "Unhandled exception",
        ),
    ),
    (
        ERROR,
        (
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
            "KVTransferError(",
            "Invalid request:",
            "NIXL transport error",
            "[http_server] Error: ",
            "Error in request: ",
            "Dumping requests before crash",
            "Dumped ",
            "FAILED: ",
        ),
    ),
    (
        BENIGN,
        (
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
            "NVLink detection failed. This is normal",
            "Health check request received during shutdown",
            "[http_server] Client disconnected",
            "Abort request for rid=",
            "Endpoint '/",
            "[Gloo] Rank",
            "nohup: ",
        ),
    ),
    (
        CONFIG,
        (
            "max_total_num_tokens=",
            "DSV4 memory calculation",
            "DSV4 pool sizes",
            "DSv4 ",
            "sglang is using nccl==",
            "NCCL version ",
            "Use ",
            "Setting ",
            "Tree cache initialized",
            "Disable prefill CUDA graph",
            "Disable decode CUDA graph",
        ),
    ),
    (
        PROGRESS,
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
        ),
    ),
    (Meaning("warning", "lone"), ("--- Logging error ---", "Exception ignored in")),
    (Meaning("progress", "stop"), ("Gracefully exiting...",)),
    (Meaning("warning", "stop"), ("SIGTERM received.", "Signal SIGTERM received")),
    (
        WARNING,
        (
            "Prefill register attempt",
            "Schedulers still alive",
            "KV cache pool is full",
            "Decode out of memory happened",
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
            "Unexpected ",
            "Timeout ",
            "Timed out ",
            "Giving up ",
        ),
    ),
)
"""How a message begins, after the `[date ranks]` prefix. At least four characters each."""

CONTAINS: Needles = (
    ("%|", PROGRESS),
    ("% Completed |", PROGRESS),
    (" hit an exception: ", FATAL),
    (" debug info:", Meaning("fatal", "dump")),
    ("self.soft=True)", Meaning("warning", "slow")),
    (" watchdog timeout (", Meaning("fatal", "hung")),
    (" terminated with 0", BENIGN),
    ("Scheduler or DataParallelController ", ENDED),
    (" crashed with exit code ", ENDED),
    (" unexpectedly failed with ", ENDED),
    (" scheduler is dead", ENDED),
    ("Main process exited, code=killed", ENDED),
    (" out of memory. ", FATAL),
    ("CUDA error: ", FATAL),
    ("NCCL error", FATAL),
    ("Watchdog caught collective operation timeout", FATAL),
    ("error while attempting to bind on address", FATAL),
    ("Address already in use (os error", FATAL),
    ("Not enough memory. Please try", FATAL),
    (" graph failed: ", FATAL),
    ("The memory capacity is unbalanced", FATAL),
    ("Repo id must ", FATAL),
    ("is not a local folder and is not a valid model identifier", FATAL),
    ("Cannot find any model weights", FATAL),
    ("Error while deserializing header", FATAL),
    ("Unsupported architecture", FATAL),
    ("no kernel image is available", FATAL),
    (" mismatch: prefill server has ", FATAL),
    (" mismatch: decode server has ", FATAL),
    ("/gloo/transport/", FATAL),
    ("terminated with exception: ", FATAL),
    ("NVRM: Xid ", FATAL),
    ("fallen off the bus", FATAL),
    ("oom-kill:", FATAL),
    (" invoked oom-killer", WARNING),
    ("ut of memory: Killed process ", FATAL),
    ("thread 'main' panicked at", FATAL),
    ("' panicked at ", ERROR),
    ("warmup with status 200", PROGRESS),
    ("warmup request completed with status 200", PROGRESS),
    ("warmup with status ", Meaning("fatal", "unready")),
    ("warmup request completed with status ", Meaning("fatal", "unready")),
    ("NIXL_ERR_", ERROR),
    ("No space left on device", ERROR),
    ("UserWarning: ", Meaning("benign", "note")),
    ("FutureWarning: ", Meaning("benign", "note")),
    ("DeprecationWarning: ", Meaning("benign", "note")),
    ("RuntimeWarning: ", Meaning("benign", "note")),
    ("is now natively supported by torch.compile", BENIGN),
    ("process group has NOT been destroyed", BENIGN),
    ("destroy_process_group() was not called", BENIGN),
    (" was already registered, ignoring", BENIGN),
    (" is deprecated", WARNING),
)
"""What gives a line away wherever it stands."""

HINTS: Needles = (
    (" crashed: ", ERROR),
    (" unrecoverable ", ERROR),
    (" failed", WARNING),
    (" error: ", WARNING),
    (" timed out", WARNING),
    ("xception: ", WARNING),
)
"""What makes a message of SGLang's own, otherwise unknown, worth a look."""

UVICORN: Needles = (
    ("error while attempting to bind on address", FATAL),
    # The router asks every HTTP worker once whether it speaks gRPC.
    ("Invalid HTTP request received.", BENIGN),
    ("Started server process", PROGRESS),
    ("Waiting for application startup", PROGRESS),
    ("Application startup complete", PROGRESS),
    ("Uvicorn running on ", PROGRESS),
    ("Shutting down", Meaning("benign", "stop")),
    ("Waiting for connections to close", BENIGN),
    ("Waiting for application shutdown", BENIGN),
    ("Application shutdown complete", BENIGN),
    ("Finished server process", BENIGN),
)

NCCL: Needles = (
    ("Cuda failure", FATAL),
    ("ncclUnhandledCudaError", FATAL),
    ("ncclSystemError", FATAL),
    ("ncclRemoteError", FATAL),
    ("NCCL WARN ", WARNING),
    # On one host, whatever is not peer to peer takes the long way.
    (" via SHM/", WARNING),
    (" via NET/", WARNING),
    ("Init START", PROGRESS),
    ("Init COMPLETE", PROGRESS),
    (" coll channels, ", CONFIG),
    ("NCCL version ", CONFIG),
    (" set by environment to ", CONFIG),
    ("Using network ", CONFIG),
    (" : Using [", CONFIG),
    ("NCCL INFO Channel ", CONFIG),
    ("NCCL INFO Connected all ", CONFIG),
    ("NCCL INFO ", BENIGN),
)

ROUTER: Needles = (
    ("Workflow failed", ERROR),
    # Steps fail while workers still load; whether that is late enough to matter, one line cannot tell.
    (": Step failed ", Meaning("benign", "step")),
    (" smg::workflow::event: ", BENIGN),
    ("http_request{", BENIGN),
    ("Failed to load tokenizer ", BENIGN),
    ("HTTP health check failed for ", ERROR),
    ("HTTP health check returned non-success", ERROR),
    ("state transition: closed -> open", WARNING),
    (" (marked as healthy)", Meaning("ready", "joined")),
    ("Starting router on ", Meaning("config", "routes")),
    ("Starting server on ", PROGRESS),
    # It has no workers yet.
    ("Router ready | ", PROGRESS),
    ("Received terminate signal", Meaning("progress", "stop")),
    ("Received Ctrl+C", Meaning("progress", "stop")),
    # NIXL's own logger has the same date.
    ("Initialized NIXL agent", PROGRESS),
    (" was instantiated", PROGRESS),
)
"""Below ERROR, which is an error but for this one."""

ROUTER_NOT_READY = ("{method=GET uri=/readiness ", " status_code=503 ")
"""Its answer, until workers are in, to whoever waits for it, as this console does: no fault of its own."""

LEVELS: dict[str, Meaning] = {
    "FATAL": FATAL,
    "ERROR": ERROR,
    "CRITICAL": ERROR,
    "E": ERROR,
    "F": ERROR,
    "WARNING": WARNING,
    "WARN": WARNING,
    "W": WARNING,
}
"""A level that the line itself carries, for what no table knows."""
