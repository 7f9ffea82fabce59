"""What a running server has against what its profile asks for: flags, environment, log and graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from .command_line import command_line
from .profile import Expectation, Profile, ServerSpec, expectation, server_environment
from .run_record import Difference
from .sglang_flags import HISTORY, FlagNote, FlagValue, current_name

ATTRIBUTES: dict[str, tuple[str, str]] = {
    "model": ("model_path", "true"),
    "tensor-parallel-size": ("tp_size", "true"),
    "pipeline-parallel-size": ("pp_size", "true"),
    "data-parallel-size": ("dp_size", "true"),
    "expert-parallel-size": ("ep_size", "true"),
    "decode-context-parallel-size": ("dcp_size", "true"),
    "attention-context-parallel-size": ("attn_cp_size", "true"),
    "attention-data-parallel-size": ("attn_dp_size", "true"),
    "moe-data-parallel-size": ("moe_dp_size", "true"),
    "nccl-init-addr": ("dist_init_addr", "true"),
    "fp8-gemm-backend": ("fp8_gemm_runner_backend", "true"),
    "fp4-gemm-backend": ("fp4_gemm_runner_backend", "true"),
    "speculative-draft-model": ("speculative_draft_model_path", "true"),
    "enable-hicache": ("enable_hierarchical_cache", "true"),
    "hierarchical-sparse-attention-extra-config": ("hisparse_config", "true"),
    # Of 0.5.14 to 0.5.19, where these stand for a value.
    "disable-piecewise-cuda-graph": ("cuda_graph_backend_prefill", "disabled"),
    "enable-breakable-cuda-graph": ("cuda_graph_backend_prefill", "breakable"),
    "enforce-piecewise-cuda-graph": ("cuda_graph_backend_prefill", "tc_piecewise"),
}
"""Flags that /server_info reports under another name than their own, and what one without a value sets there:
read off the parsers of 0.5.15 and 0.5.23."""

SAME_VALUES = {"NEXTN": "EAGLE", "compressed": "dsv4"}
"""Values that SGLang reports by the name that they are second names of."""

_SECRET = re.compile(r"api_key|password|secret")

HIDDEN = "***"
"""What the console makes of a key or password in /server_info before anybody sees it."""

Kind = Literal["rewritten", "ignored", "missing", "unknown"]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What could be learned of a running server. None: it could not be asked."""

    info: Mapping[str, Any] | None = None
    """Fields of /server_info."""
    environment: Mapping[str, str] | None = None
    """Of its first process: those variables of the profile that are set."""
    log: Mapping[str, bool | None] = {}
    """Whether the log of this start has a line that fits, for each of log_patterns()."""


class _Finding(msgspec.Struct, frozen=True):
    """One setting that was compared; no kind: it is as it was asked for."""

    setting: str
    wanted: str
    actual: str | None = None
    kind: Kind | None = None


def log_patterns(profile: Profile, server: ServerSpec) -> tuple[str, ...]:
    """Regular expressions to be looked for in the lines of the server's log."""
    expect = expectation(profile, server)
    texts = [re.escape(text) for text in (*expect.log, *expect.log_never)]
    graph = [_graph_pattern(expect.largest_graph)] if expect.largest_graph else []
    return tuple(dict.fromkeys((*texts, *graph)))


def compare(
    profile: Profile, server: ServerSpec, version: str | None, seen: Seen
) -> tuple[tuple[Difference, ...], int]:
    """The differences, and how many settings were compared. `version` is that of the SGLang launched."""
    expect = expectation(profile, server)
    found = [
        *_flags(profile, server, version, seen.info),
        *_environment(server_environment(profile, server), seen.environment),
        *_info(expect.server_info, seen.info),
        *_log(expect, seen.log),
        *_graphs(expect.largest_graph, seen),
    ]
    differences = tuple(
        Difference(
            server=server.name, setting=each.setting, wanted=each.wanted, actual=each.actual, kind=each.kind
        )
        for each in found
        if each.kind
    )
    return differences, sum(each.kind != "unknown" for each in found)


def _flags(
    profile: Profile, server: ServerSpec, version: str | None, info: Mapping[str, Any] | None
) -> Iterator[_Finding]:
    arguments, notes = command_line(server, profile, version)
    dead = {current_name(note.flag) for note in notes if note.kind == "dead"}
    yield from map(_of_note, (note for note in notes if note.kind != "renamed"))
    given = {flag: values for flag, values in _given(arguments) if current_name(flag) not in dead}
    if info is None:
        yield _Finding("flags", f"{len(given)} flags", None, "unknown")
        return
    for flag, values in given.items():
        yield _flag(flag, values, info)


def _of_note(note: FlagNote) -> _Finding:
    """A flag that has no effect on this version, whatever /server_info says."""
    kind: Kind = "ignored" if note.kind == "dead" else "missing"
    return _Finding(f"flag --{note.flag}", "an effect" if kind == "ignored" else "given", note.text, kind)


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Flags without dashes and their values, of a command line after `-m module`."""
    words = list(arguments[2:])
    while words:
        flag, assigned, value = words.pop(0).removeprefix("--").partition("=")
        values = [value] if assigned else []
        while words and not words[0].startswith("--"):
            values.append(words.pop(0))
        yield flag, tuple(values)


def _flag(flag: str, values: tuple[str, ...], info: Mapping[str, Any]) -> _Finding:
    attribute, bare = _attribute(flag, info)
    setting = f"flag --{flag}"
    words = (HIDDEN,) if _SECRET.search(attribute) else values or (bare,)
    if attribute not in info:
        return _Finding(setting, " ".join(words), None, "unknown")
    actual = info[attribute]
    if actual == HIDDEN:
        return _Finding(setting, HIDDEN, HIDDEN)
    return _compared(setting, words, actual)


def _attribute(flag: str, info: Mapping[str, Any]) -> tuple[str, str]:
    """The field for a flag, of those that there are, and what the flag without a value sets it to."""
    name = current_name(flag)
    history = HISTORY.get(name)
    names = (flag, name, history.before if history and history.before else name)
    for field in (each.replace("-", "_") for each in names):
        if field in info:
            return field, "true"
    if name in ATTRIBUTES:
        return ATTRIBUTES[name]
    if name.startswith("no-"):
        return name.removeprefix("no-").replace("-", "_"), "false"
    return name.replace("-", "_"), "true"


def _compared(setting: str, words: tuple[str, ...], actual: object) -> _Finding:
    agrees = _agree(words, actual)
    return _Finding(
        setting, " ".join(words), None if agrees else _text(actual), None if agrees else "rewritten"
    )


def _agree(words: tuple[str, ...], actual: object) -> bool:
    """Whether the words of a command line stand for this value. `auto` leaves the choice to SGLang."""
    if words == ("auto",):
        return True
    if isinstance(actual, list | tuple):
        return len(words) == len(actual) and all(map(_agree, ((word,) for word in words), actual))
    if len(words) != 1:
        return False
    (word,) = words
    if isinstance(actual, dict):
        wanted = _json(word)
        return isinstance(wanted, dict) and _holds(actual, wanted)
    if isinstance(actual, bool):
        return word.lower() == str(actual).lower()
    if isinstance(actual, int | float):
        return _number(word) == actual
    return actual is not None and SAME_VALUES.get(word, word) == SAME_VALUES.get(str(actual), str(actual))


def _holds(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """A setting of several parts is filled up by SGLang with what was not given."""
    return all(
        _holds(actual[key], value)
        if isinstance(value, dict) and isinstance(actual.get(key), dict)
        else actual.get(key) == value
        for key, value in wanted.items()
    )


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(actual: object) -> str:
    if actual is None:
        return "not set"
    if isinstance(actual, bool):
        return str(actual).lower()
    return " ".join(map(str, actual)) if isinstance(actual, list | tuple) else str(actual)


def _environment(wanted: Mapping[str, str], actual: Mapping[str, str] | None) -> Iterator[_Finding]:
    if wanted and actual is None:
        yield _Finding("environment", f"{len(wanted)} variables", None, "unknown")
        return
    for name, value in wanted.items():
        setting, is_now = f"environment {name}", (actual or {}).get(name)
        if is_now is None:
            yield _Finding(setting, value, "not set", "missing")
        elif is_now == value or (name == "PATH" and is_now.endswith(f":{value}")):
            # A launch puts the folder of its Python first.
            yield _Finding(setting, value)
        else:
            yield _Finding(setting, value, is_now, "rewritten")


def _info(wanted: Mapping[str, FlagValue], info: Mapping[str, Any] | None) -> Iterator[_Finding]:
    for field, value in wanted.items():
        setting, words = f"server_info {field}", _words(value)
        if info is None or field not in info:
            yield _Finding(setting, " ".join(words), None, "unknown")
        else:
            yield _compared(setting, words, info[field])


def _words(value: FlagValue) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (str(value).lower(),)
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


def _log(expect: Expectation, log: Mapping[str, bool | None]) -> Iterator[_Finding]:
    for text in expect.log:
        yield _logged(text, log.get(re.escape(text)), True)
    for text in expect.log_never:
        yield _logged(text, log.get(re.escape(text)), False)


def _logged(text: str, found: bool | None, wanted: bool) -> _Finding:
    setting, says = f'log "{text}"', {True: "in the log", False: "not in the log"}
    if found is None:
        return _Finding(setting, says[wanted], None, "unknown")
    if found is wanted:
        return _Finding(setting, says[wanted])
    return _Finding(setting, says[wanted], says[found], "missing" if wanted else "rewritten")


def _graph_pattern(batch: int) -> str:
    """The line with the sizes of decode graphs: `Capture target decode CUDA graph end. bs=[1, 2, 4], …` since
    0.5.11 (0.5.15 has them in the line that begins it), `Capture cuda graph bs [1, 2, 4]` before."""
    return rf"(?:decode CUDA graph (?:begin|end)\..*\bbs=|Capture cuda graph bs )\[(?:\d+, )*{batch}[,\]]"


def _graphs(largest: int | None, seen: Seen) -> Iterator[_Finding]:
    if largest is None:
        return
    wanted, captured = f"captured for batch {largest}", seen.log.get(_graph_pattern(largest))
    limit = _graph_limit(seen.info or {})
    said = None if limit is None else f"set to batch {limit}" if limit else "off"
    if captured:
        yield _Finding("graphs", wanted)
    elif captured is None and (limit is None or limit >= largest):
        yield _Finding("graphs", wanted, said, "unknown")
    else:
        yield _Finding("graphs", wanted, f"{said or 'not captured'}", "missing")


def _graph_limit(info: Mapping[str, Any]) -> int | None:
    """The largest batch that decode graphs are set to be captured for; 0: they are off; None: not said."""
    config = info.get("cuda_graph_config")
    decode = config.get("decode") if isinstance(config, dict) else None
    if isinstance(decode, dict):
        limit = 0 if decode.get("backend") == "disabled" else decode.get("max_bs")
    else:
        limit = 0 if info.get("disable_cuda_graph") is True else info.get("cuda_graph_max_bs")
    return limit if isinstance(limit, int) else None
