"""What goes wrong on the GPUs and between them: memory, kernels, drivers, collectives."""

from __future__ import annotations

from console.domain.startup import Phase

from .cause import Cause

_STARTING: tuple[Phase, ...] = ("launching", "loading")
_CUDA_OOM = ("CUDA out of memory", "torch.OutOfMemoryError", "CUDA error: out of memory")
_ILLEGAL_ACCESS = "an illegal memory access was encountered"
_GRAPHS = Cause(
    "memory-graphs",
    "root",
    ("graph failed: CUDA out of memory",),
    "a GPU ran out of memory while CUDA graphs were captured",
    "lower --mem-fraction-static by 0.05, or --cuda-graph-max-bs-decode (up to 0.5.13 --cuda-graph-max-bs)",
)

MEMORY = (
    Cause(
        "memory-host",
        "root",
        ("Out of memory: Killed process", "oom-kill:", "DefaultCPUAllocator: can't allocate memory"),
        "the host ran out of memory, and the kernel killed the process",
        "see what else uses the host's memory: `free -g`, /dev/shm, other servers",
    ),
    Cause(
        "memory-kv",
        "root",
        ("Not enough memory. Please try to increase --mem-fraction-static",),
        "the weights leave no room for the KV cache",
        "raise --mem-fraction-static, or spread the weights over more GPUs; first see with `nvidia-smi` that"
        " nothing else holds memory there",
    ),
    Cause(
        "memory-unbalanced",
        "root",
        ("The memory capacity is unbalanced",),
        "another process holds memory on some of the GPUs",
        "see with `nvidia-smi` which, and stop it; often it is a left-over sglang::scheduler",
    ),
    _GRAPHS,
    _GRAPHS._replace(markers=_CUDA_OOM, phases=("capturing graphs",)),
    Cause(
        "memory-weights",
        "root",
        _CUDA_OOM,
        "a GPU ran out of memory while the weights were loaded",
        "see with `nvidia-smi` whether another process holds memory there; if not, spread the weights over"
        " more GPUs (--tensor-parallel-size)",
        phases=_STARTING,
    ),
    Cause(
        "memory-prefill",
        "root",
        ("Prefill out of memory",),
        "the KV cache had no room left for a prefill",
        "lower --max-running-requests or --chunked-prefill-size; if few requests were running, this version"
        " leaks cache slots",
    ),
    Cause(
        "memory-decode",
        "root",
        ("Decode out of memory", "alloc_req_slots runs out of memory"),
        "the KV cache had no room left to go on decoding",
        "lower --max-running-requests; if few requests were running, this version leaks cache slots",
    ),
    Cause(
        "memory-serving",
        "root",
        _CUDA_OOM,
        "a GPU ran out of memory while it was serving",
        "lower --mem-fraction-static by 0.05, or --chunked-prefill-size",
    ),
    Cause(
        "memory-leak",
        "root",
        ("memory leak detected",),
        "the server's own check found KV cache slots that nobody owns: a bug of this version",
        "note the flags and the version; try without speculative decoding, then a newer version",
    ),
)

GPU = (
    Cause(
        "marlin-expert-parallel",
        "root",
        (_ILLEGAL_ACCESS, "Invalid thread config"),
        "a Marlin MoE kernel read out of bounds, as it does under expert parallelism (expert -1)",
        "leave out --ep-size, or choose another --moe-runner-backend such as flashinfer_mxfp4",
        frames=("marlin",),
    ),
    Cause(
        "illegal-access",
        "root",
        (_ILLEGAL_ACCESS,),
        "a GPU kernel touched memory that is not its own",
        "look for Xid 31 in `dmesg`; CUDA reports it late, so the frame shown need not be the culprit: if it"
        " comes again, change one backend at a time (--moe-runner-backend, --attention-backend)",
    ),
    Cause(
        "gpu-lost",
        "root",
        ("fallen off the bus", "GPU is lost"),
        "a GPU has fallen off the bus: hardware or power",
        "do not start it again: the host needs a reboot, and the card a look",
        again=False,
    ),
    Cause(
        "gpu-ecc",
        "root",
        ("uncorrectable ECC error", "Uncorrectable ECC"),
        "a GPU found a memory error that it cannot correct",
        "take the card out of use (CUDA_VISIBLE_DEVICES) and have it checked",
    ),
    Cause(
        "gpu-architecture",
        "root",
        (
            "hyperconnection.hpp",
            "Unsupported architecture",
            "only supports Hopper",
            "arch_major ==",
            "no kernel image is available for execution on the device",
        ),
        "a kernel, most likely DeepGEMM's, does not exist for this GPU (sm_120 is not Hopper)",
        "choose backends that do exist (--moe-runner-backend flashinfer_mxfp4 or marlin) and set"
        " SGLANG_ENABLE_JIT_DEEPGEMM=0",
    ),
    Cause(
        "driver-mismatch",
        "root",
        (
            "CUDA driver version is insufficient",
            "NVIDIA driver on your system is too old",
            "Driver/library version mismatch",
            "the provided PTX was compiled with an unsupported toolchain",
        ),
        "the NVIDIA driver does not fit this CUDA version, or was updated without a reboot",
        "compare `nvidia-smi` with torch's CUDA version; update the driver, or reboot after an update",
    ),
    Cause(
        "gpu-missing",
        "root",
        ("invalid device ordinal", "No CUDA GPUs are available", "no CUDA-capable device"),
        "the server was given GPUs that are not there",
        "check CUDA_VISIBLE_DEVICES, --base-gpu-id and --tensor-parallel-size against `nvidia-smi -L`",
    ),
    Cause(
        "xid",
        "root",
        ("NVRM: Xid",),
        "the NVIDIA driver reported an error of a GPU (Xid)",
        "look the number up in NVIDIA's Xid catalogue: 31 is a wrong access by a program, 79 a lost card",
    ),
    Cause(
        "cuda-error",
        "root",
        ("CUDA error: ", "CUDA_ERROR_"),
        "a CUDA call failed",
        "run once more with CUDA_LAUNCH_BLOCKING=1, so that the traceback shows the call that did",
    ),
)

COLLECTIVE = (
    Cause(
        "peer-ended",
        "secondary",
        (
            "remote process exited or there was a network error",
            "ncclRemoteError",
            "Connection closed by peer",
            "Connection reset by peer",
        ),
        "another rank ended, and this one lost it",
        "look for the rank that ended first; if it left no message, in `dmesg`",
    ),
    Cause(
        "collective-timeout",
        "secondary",
        ("collective operation timeout", "Timed out waiting for clients", "Socket Timeout"),
        "a collective of the ranks did not end: one of them hangs or is gone",
        "look for the rank that says nothing; if all do, try NCCL_P2P_DISABLE=1: with IOMMU or ACS on, peer"
        " access between the GPUs hangs",
    ),
    Cause(
        "nccl",
        "secondary",
        (
            "NCCL error",
            "NCCL WARN Cuda failure",
            "DistBackendError",
            "ncclUnhandledCudaError",
            "ncclSystemError",
            "ncclInternalError",
            "Process group watchdog thread terminated",
        ),
        "NCCL failed between the GPUs",
        "run once more with NCCL_DEBUG=INFO, and check peer access with `nvidia-smi topo -p2p r`",
    ),
)
