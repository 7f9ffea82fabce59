"""Why a start fails before it touches a GPU: command line, model, ports, the environment."""

from __future__ import annotations

from .cause import Cause

_BIND = "error while attempting to bind on address"


COMMAND_LINE = (
    Cause(
        "flag-ambiguous",
        "root",
        (": error: ambiguous option",),
        "a flag of the command line was renamed: its old name now fits several flags",
        "write the full name of the one you mean; the line gives them",
    ),
    Cause(
        "flag-unknown",
        "root",
        (": error: unrecognized arguments",),
        "this version of SGLang does not know a flag of the command line",
        "take the flag out, or look up what this version calls it (`--help`)",
    ),
    Cause(
        "flag-missing",
        "root",
        (": error: the following arguments are required", ": error: one of the arguments"),
        "the command line lacks a flag that must be given",
        "add the flag that the line names",
    ),
    Cause(
        "flag-value",
        "root",
        (": error: argument ",),
        "a flag of the command line has a value that this version does not take",
        "take a value that the line allows",
    ),
    Cause(
        "model-unknown",
        "root",
        (
            "does not recognize this architecture",
            "The checkpoint you are trying to load has model type",
            "are not supported for now",
        ),
        "this version of SGLang or transformers does not know the model",
        "use a version that does (DeepSeek-V4 is not in SGLang 0.5.10 and older)",
    ),
    Cause(
        "checkpoint-damaged",
        "root",
        ("Error while deserializing header", "SafetensorError", "MetadataIncompleteBuffer", "HeaderTooLarge"),
        "a file of the checkpoint is damaged or incomplete",
        "compare the files' sizes with the model's page and fetch the wrong ones again",
    ),
    Cause(
        "model-missing",
        "root",
        (
            "Repo id must be in the form",
            "Incorrect path_or_model_id",
            "is not a local folder and is not a valid model identifier",
            "does not appear to have a file named",
            "Can't load the configuration of",
            "Cannot find any model weights",
            "Repository Not Found",
            "RepositoryNotFoundError",
            "LocalEntryNotFoundError",
        ),
        "there is no model at the path that was given",
        "check --model-path on this host: the folder must hold config.json, the tokenizer and all shards",
    ),
)

PORTS = (
    Cause(
        "bootstrap-port-taken",
        "root",
        (f"Server error: [Errno 98] {_BIND}",),
        "the bootstrap port is taken: the server goes on and looks healthy, but no decode server finds it",
        "see who holds the port (`ss -ltnp`) and stop that, or give both roles another"
        " --disaggregation-bootstrap-port",
    ),
    Cause(
        "nccl-port-taken",
        "root",
        ("EADDRINUSE", "The server socket has failed to listen"),
        "the port on which the ranks meet is taken: two servers that start at once may draw the same",
        "give each server its own --nccl-port",
    ),
    Cause(
        "router-port-taken",
        "root",
        ("Address already in use (os error",),
        "a port of the router is taken",
        "see who holds the port (`ss -ltnp`); router and server have the same default, 30000: name both",
    ),
    Cause(
        "port-taken",
        "root",
        (_BIND, "[Errno 98]", "Address already in use"),
        "the port is taken: what answers there is another server",
        "see who holds it (`ss -ltnp`) and stop that, or choose another --port; SGLang finds out only after"
        " the whole model is loaded",
    ),
)

ENVIRONMENT = (
    Cause(
        "disk-full",
        "root",
        ("No space left on device", "[Errno 28]", "os error 28", "Disk quota exceeded"),
        "a disk (or /dev/shm) is full",
        "see which with `df -h`, and make room: kernel caches, core dumps and logs grow",
    ),
    Cause(
        "permission-denied",
        "root",
        ("PermissionError", "Permission denied", "os error 13"),
        "a file may not be read or written by the user that runs the server",
        "check owner and mode of the path that the line names",
    ),
    Cause(
        "import-error",
        "root",
        (
            "ModuleNotFoundError",
            "ImportError",
            "undefined symbol",
            "cannot open shared object file",
            "version `GLIBC",
        ),
        "the Python environment lacks something, or holds versions that do not fit each other",
        "check that the right environment's Python was started; then `pip check` in it",
    ),
    Cause(
        "bus-error",
        "root",
        ("Bus error", "crashed with exit code -7"),
        "a process touched shared memory that is not there: most likely /dev/shm is full",
        "see `df -h /dev/shm`, and give it more room or remove what dead servers left in it",
    ),
    Cause(
        "open-files",
        "root",
        ("Too many open files", "os error 24"),
        "the limit of open files is reached",
        "raise it with `ulimit -n 1048576` before the start",
    ),
    Cause(
        "file-missing",
        "root",
        ("FileNotFoundError", "No such file or directory"),
        "a file that it needs is not there",
        "check the path that the line names",
    ),
)
