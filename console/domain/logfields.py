"""The fields of one log line: what it says, by name.

Batch lines give their pairs under SGLang's own names, numbers as numbers, unknown names kept; so does the
dump of all settings. Other names are in snake case with the unit last (`elapsed_s`, `avail_mem_gb`). A value
that is not there has no field; None is Python's own, in a dump of settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import logfacts
from .logline import LineClass
from .logprefix import Prefix, prefix_of, rank_numbers

FieldValue = str | int | float | bool | dict[str, int] | None
Fields = dict[str, FieldValue]

_BATCH = re.compile(r"(Prefill|Decode) batch(?: \[(\d+)\])?[.,] ?")
_PAIR = re.compile(
    r"(?<![\w'\"])(?:(?P<said>Time elapsed|KV size|K size|V size|dtype|#\w+): "
    r"|(?P<name>avail mem|mem usage|[A-Za-z_][\w.]*)=)"
    r"(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|[^\s,;()\[\]{}'\"]+)"
    r"(?: (?P<unit>GB/s|MB/s|GiB|MiB|GB|MB|ms|s)\b)?"
)
_MEASURE = re.compile(r"([-+]?[\d.]+)(ms|s|GB|MB)")
_ACCESS = re.compile(
    r'INFO: +(?P<client>\S+) - "(?P<method>[A-Z]+) (?P<path>\S*) HTTP/[\d.]+" (?P<status>\d{3})\b'
)
_BAR = re.compile(
    r"\b(?P<percent>\d+)%(?: Completed \||\|).*?"
    r"(?P<done>[\d.]+)(?P<scale>[kMGT]?)/(?P<total>[\d.]+)(?P<of>[kMGT]?)"
    r" \[(?P<elapsed>[\d:]+)<[\d:?]+, *[\d.?]+(?P<rate>[a-zA-Z/]*)"
)
_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SETTING = re.compile(r"(?:, )?'?(\w+)'?(?:=|: )")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[\](){},]")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Timeout))(?::|$)")
_RID = re.compile(r"(?:Receive|Finish): obj=\w+\(rid='([^']*)'")
_INT = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.?\d+)(?:[eE][-+]?\d+)?")
_WORDS: dict[str, bool | None] = {"True": True, "False": False, "true": True, "false": False, "None": None}


def fields(text: str, line_class: LineClass) -> Fields:
    """The fields of a printable line of this class; empty where there is nothing to read."""
    prefix = prefix_of(text)
    message = text[prefix.end :]
    if batch := _BATCH.match(message):
        return _batch(batch, message, prefix)
    ranks: Fields = {name.lower(): number for name, number in rank_numbers(prefix.ranks).items()}
    if message.startswith(("Receive", "Finish")):
        return ranks | ({"rid": rid[1]} if (rid := _RID.match(message)) else {})
    if message.startswith("server_args="):
        return ranks | dict(_settings(message))
    if message.startswith(" ") and line_class != "progress":
        return ranks
    if access := _ACCESS.match(message):
        return ranks | {name: _value(value, name) for name, value in access.groupdict().items()}
    return ranks | _said(message, line_class) | _facts(text)


def _batch(batch: re.Match[str], message: str, prefix: Prefix) -> Fields:
    """`Decode batch [4120], #running-req: 1, …`: pairs in any order, of any names."""
    found: Fields = {}
    if prefix.stamp is not None:
        found |= {"ts": prefix.stamp, "ranks": rank_numbers(prefix.ranks)}
    found["kind"] = batch[1].lower()
    if batch[2]:
        found["iter"] = int(batch[2])
    for pair in message[batch.end() :].split(","):
        name, colon, value = pair.strip().partition(": ")
        if colon:
            found[name] = _value(value.removesuffix("%"))
    return found


def _settings(message: str) -> Iterator[tuple[str, FieldValue]]:
    """`server_args={'tp_size': 4, …}`, and `server_args=ServerArgs(tp_size=4, …)` up to 0.5.15.

    Lists, mappings and objects are given as they are written. A dump that was cut gives what is whole.
    """
    at = re.match(r"server_args=\w*[({]?", message).end()  # type: ignore[union-attr] # always there
    while name := _SETTING.match(message, at):
        end = _value_end(message, name.end())
        if end is None:
            return
        yield name[1], _literal(message[name.end() : end])
        at = end


def _value_end(message: str, start: int) -> int | None:
    """Where the value ends that starts here: at the comma or the bracket that is not its own."""
    depth = 0
    for token in _TOKEN.finditer(message, start):
        if token[0] in ("[", "(", "{"):
            depth += 1
        elif token[0] in ("]", ")", "}", ",") and depth == 0:
            return token.start()
        elif token[0] in ("]", ")", "}"):
            depth -= 1
    return None


def _said(message: str, line_class: LineClass) -> Fields:
    found: Fields = {}
    for start, stage in logfacts.STAGES if line_class == "progress" else ():
        if message.startswith(start):
            found["stage"] = stage
    if line_class in ("warning", "error", "fatal"):
        found |= _cause(message)
    found |= dict(_pairs(message, line_class))
    if line_class == "progress" and (bar := _BAR.search(message)):
        found |= _bar(bar)
    return found


def _cause(message: str) -> Fields:
    found: Fields = {"exception": named[1]} if (named := _EXCEPTION.match(message)) else {}
    cause = next((cause for words, cause in logfacts.CAUSES if words in message), None)
    return found | ({"cause": cause} if cause else {})


def _pairs(message: str, line_class: LineClass) -> Iterator[tuple[str, FieldValue]]:
    """`name=value`, with its unit: `avail mem=9.42 GB`, `queue_duration=1.20ms`."""
    for pair in _PAIR.finditer(message):
        name = (pair["said"] or pair["name"]).rpartition(".")[2].lstrip("#")
        value, unit = pair["value"].rstrip(".:"), pair["unit"]
        if measure := _MEASURE.fullmatch(value):
            value, unit = measure.groups()
        if line_class != "stats":
            name = logfacts.NAMES.get(name, name)
        literal = _literal(value)
        if unit and isinstance(literal, int | float):
            name = f"{name.replace(' ', '_')}_{unit.lower().replace('/', '_')}"
        yield name.replace(" ", "_"), literal


def _bar(bar: re.Match[str]) -> Fields:
    """A progress bar of tqdm's; sizes are counted out (`2.1G` is 2100000000)."""
    done, total = (
        float(bar[amount]) * _SCALES[bar[scale]] for amount, scale in (("done", "scale"), ("total", "of"))
    )
    seconds = 0
    for part in bar["elapsed"].split(":"):
        seconds = 60 * seconds + int(part or 0)
    unit = bar["rate"].removeprefix("s/").removesuffix("/s")
    return {"percent": int(bar["percent"]), "done": _whole(done), "total": _whole(total)} | {
        "unit": unit,
        "elapsed_s": seconds,
    }


def _facts(text: str) -> Fields:
    found: Fields = {}
    for words, pattern in logfacts.FACTS:
        if words in text and (match := pattern.search(text)):
            said = {name: value for name, value in match.groupdict().items() if value is not None}
            found |= {name: _value(value, name) for name, value in said.items()}
    if " set by environment to " in text and (setting := logfacts.SETTING.search(text)):
        found[setting["name"]] = setting["value"]
    return found


def _literal(written: str) -> FieldValue:
    """A value as Python writes it; what is no text, number, bool or None stays as it is written."""
    if written[:1] in ("'", '"'):
        return written[1:-1].replace("\\'", "'").replace("\\\\", "\\")
    return _value(written)


def _value(written: str, name: str = "") -> FieldValue:
    if name in logfacts.TEXTS:
        return written
    if _INT.fullmatch(written):
        return int(written)
    if _FLOAT.fullmatch(written):
        return float(written)
    return _WORDS.get(written, written)


def _whole(number: float) -> int | float:
    return int(number) if number.is_integer() else number
