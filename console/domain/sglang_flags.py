"""How each version of SGLang spells a flag, and which flags it no longer takes or no longer reads.

Profiles write a flag once, by its name of 0.5.23 and without dashes. HISTORY was read off the argument
parsers of the wheels 0.5.5 to 0.5.23, every release between them included (post-releases not); a flag is
called dead where no module of the wheel but the one that defines it names its attribute. What stands in no
row is passed on as written: the host's own parser has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from .version import Version, parse_version

FlagValue = bool | int | float | str | tuple[int | str, ...]
"""true: the bare flag; false: not given; an array: several values after one flag."""

NEWEST_KNOWN = "0.5.23"
"""The version whose names profiles use."""

NoteKind = Literal["renamed", "gone", "too new", "dead"]
_LEFT_OUT = ("gone", "too new")


class FlagNote(msgspec.Struct, frozen=True):
    """What became of a flag on one version; `gone` and `too new` are left off the command line."""

    flag: str
    """As the profile writes it."""
    kind: NoteKind
    text: str
    """One sentence."""


class History(NamedTuple):
    """What the versions made of one flag."""

    since: str | None = None
    """The first version that takes it, when that is not 0.5.5 or older."""
    before: str | None = None
    """Its name until then."""
    until: str | None = None
    """The first version that refuses it."""
    dead: str | None = None
    """The first version that takes it and never reads it."""
    instead: str = ""
    """What to do now."""


HISTORY: dict[str, History] = {
    # Renamed. 0.5.14 to 0.5.19 take both names of these; from 0.5.20 the old ones are ambiguous prefixes.
    "cuda-graph-max-bs-decode": History("0.5.14", "cuda-graph-max-bs"),
    "cuda-graph-bs-decode": History("0.5.14", "cuda-graph-bs"),
    "cuda-graph-max-bs-prefill": History("0.5.14", "piecewise-cuda-graph-max-tokens"),
    "cuda-graph-bs-prefill": History("0.5.14", "piecewise-cuda-graph-tokens"),
    "dsa-prefill-backend": History("0.5.13", "nsa-prefill-backend"),
    "dsa-decode-backend": History("0.5.13", "nsa-decode-backend"),
    "incremental-streaming-output": History("0.5.10", "stream-output"),
    "mamba-radix-cache-strategy": History("0.5.14", "mamba-scheduler-strategy"),
    "speculative-draft-window-size": History("0.5.12", "speculative-dflash-draft-window-size"),
    # Read by nothing.
    "num-continuous-decode-steps": History(dead="0.5.5"),
    "triton-attention-reduce-in-fp32": History(dead="0.5.11"),
    "spec-trace-dir": History(dead="0.5.15"),
    "prefill-round-robin-balance": History(until="0.5.20", dead="0.5.8"),
    "collect-tokens-histogram": History(
        until="0.5.20", dead="0.5.11", instead="enable-metrics collects them"
    ),
    "hybrid-kvcache-ratio": History(until="0.5.14", dead="0.5.8", instead="see swa-full-tokens-ratio"),
    # Gone.
    "disaggregation-decode-tp": History(until="0.5.10", instead="the roles tell each other"),
    "disaggregation-decode-dp": History(until="0.5.10", instead="the roles tell each other"),
    "disaggregation-prefill-pp": History(until="0.5.10", instead="the roles tell each other"),
    "enable-double-sparsity": History(until="0.5.11"),
    "enable-nan-detection": History(until="0.5.13", instead="set SGLANG_SPEC_NAN_DETECTION=1"),
    "enable-piecewise-cuda-graph": History(until="0.5.14", instead="see cuda-graph-backend-prefill"),
    "disable-piecewise-cuda-graph": History(
        until="0.5.20", instead='set cuda-graph-backend-prefill = "disabled"'
    ),
    "enable-breakable-cuda-graph": History(
        until="0.5.20", instead='set cuda-graph-backend-prefill = "breakable"'
    ),
    "enforce-piecewise-cuda-graph": History(
        until="0.5.20", instead='set cuda-graph-backend-prefill = "tc_piecewise"'
    ),
    "enable-prefill-context-parallel": History(until="0.5.20", instead="see enable-prefill-cp"),
    "enable-dsa-prefill-context-parallel": History(until="0.5.20", instead="see enable-prefill-cp"),
    "enable-nsa-prefill-context-parallel": History(until="0.5.20", instead="see enable-prefill-cp"),
    "prefill-cp-mode": History(until="0.5.20", instead="see cp-strategy"),
    "dsa-prefill-cp-mode": History(until="0.5.20", instead="see cp-strategy"),
    "nsa-prefill-cp-mode": History(until="0.5.20", instead="see cp-strategy"),
    # New.
    "disable-flashinfer-autotune": History("0.5.7"),
    "soft-watchdog-timeout": History("0.5.7"),
    "fp4-gemm-backend": History("0.5.8"),
    "uvicorn-access-log-exclude-prefixes": History("0.5.8"),
    "disaggregation-decode-enable-radix-cache": History("0.5.11"),
    "cuda-graph-backend-decode": History("0.5.14"),
    "cuda-graph-backend-prefill": History("0.5.14"),
    "cuda-graph-config": History("0.5.14"),
    "disable-decode-cuda-graph": History("0.5.14"),
    "disable-prefill-cuda-graph": History("0.5.14"),
    "speculative-dspark-block-size": History("0.5.16"),
    "dsv4-attn-backend": History("0.5.20"),
    "attn-dp-size": History("0.5.22"),
    "disaggregation-decode-allocation-policy": History("0.5.22"),
}

_GONE = {
    "0.5.6": ("kt-amx-method", "kt-amx-weight-path"),
    "0.5.7": ("dllm-block-size", "enable-flashinfer-autotune", "load-watch-interval"),
    "0.5.9": ("disaggregation-decode-enable-fake-auto",),
    "0.5.10": (
        *("disable-hicache-numa-detect", "mm-max-concurrent-calls", "mm-per-request-timeout"),
        *("speculative-ngram-branch-length", "speculative-ngram-max-match-window-size"),
        "speculative-ngram-min-match-window-size",
    ),
    "0.5.11": (
        *("ds-channel-config-path", "ds-heavy-channel-num", "ds-heavy-channel-type", "ds-heavy-token-num"),
        *("ds-sparse-decode-threshold", "multi-item-scoring-delimiter"),
    ),
    "0.5.13": ("no-record-nolora-graph", "record-nolora-graph"),
    "0.5.14": ("custom-sigquit-handler", "debug-tensor-dump-inject"),
    "0.5.16": ("enable-deepep-waterfill", "optimistic-prefill-retries"),
    "0.5.18": ("torchao-config",),
    "0.5.20": (
        "enable-expert-distribution-metrics",
        "enable-gdn-replayssm-spec",
        "piecewise-cuda-graph-compiler",
    ),
    "0.5.21": ("elastic-ep-rejoin", "keep-mm-feature-on-device"),
    "0.5.22": ("cuda-graph-tc-compiler",),
    "0.5.23": ("speculative-skip-dp-mlp-sync",),
}
"""Every other flag that was refused from some release on, by that release."""

HISTORY |= {flag: History(until=version) for version, flags in _GONE.items() for flag in flags}

_NEW_NAMES = {history.before: name for name, history in HISTORY.items() if history.before}

ALIASES = {
    "tp": "tensor-parallel-size",
    "tp-size": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "pp-size": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "dp-size": "data-parallel-size",
    "ep": "expert-parallel-size",
    "ep-size": "expert-parallel-size",
    "model": "model-path",
}
"""Second names, which every version takes as well."""


def current_name(flag: str) -> str:
    """The one name for a flag that may be written by an old or a second name."""
    return ALIASES.get(flag) or _NEW_NAMES.get(flag, flag)


def spell(flags: Mapping[str, FlagValue], version: str | None) -> tuple[list[str], list[FlagNote]]:
    """Command-line words for these flags, and what became of those that this version does not plainly take.

    A version that is not known is taken for the newest one of the table.
    """
    words: list[str] = []
    notes: list[FlagNote] = []
    for flag, value in flags.items():
        if value is False:
            continue
        note = _note(flag, version)
        notes += [note] if note else []
        if note is None or note.kind not in _LEFT_OUT:
            words += words_of(_name_on(current_name(flag), version), value)
    return words, notes


def words_of(flag: str, value: FlagValue) -> list[str]:
    """`--flag`, `--flag value`, `--flag value value`, or nothing for false."""
    if isinstance(value, bool):
        return [f"--{flag}"] if value else []
    if isinstance(value, tuple):
        return [f"--{flag}", *map(str, value)]
    text = str(value)
    # argparse would take a text that begins with a dash for the next flag.
    return [f"--{flag}={text}"] if text.startswith("-") else [f"--{flag}", text]


def _known(version: str | None) -> Version:
    return parse_version(version) or parse_version(NEWEST_KNOWN) or ()


def _reached(version: str | None, since: str | None) -> bool:
    return since is not None and _known(version) >= _known(since)


def _name_on(flag: str, version: str | None) -> str:
    """The name of a currently named flag on this version."""
    history = HISTORY.get(flag, History())
    return history.before if history.before and not _reached(version, history.since) else flag


def _note(written: str, version: str | None) -> FlagNote | None:
    flag = current_name(written)
    history = HISTORY.get(flag, History())
    advice = f"; {history.instead}" if history.instead else ""
    if _reached(version, history.until):
        return FlagNote(written, "gone", f"--{flag} is gone since {history.until}: left out{advice}")
    if history.since and not history.before and not _reached(version, history.since):
        return FlagNote(written, "too new", f"--{flag} came with {history.since}: left out")
    if _reached(version, history.dead):
        return FlagNote(written, "dead", f"--{flag} is accepted, but nothing reads it: no effect{advice}")
    if history.before and written != (name := _name_on(flag, version)):
        return FlagNote(written, "renamed", f"--{written} is called --{name} on this version")
    return None
