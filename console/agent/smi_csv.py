"""The CSV of `nvidia-smi --query-gpu`: cells are numbers, words, or words for why there is no number."""

from __future__ import annotations

import re
from typing import Any, Dict, NamedTuple, Sequence

from . import throttle
from .gpu_source import MIG_NOTE, Row
from .power import Power

NUMBER = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)(?: *(?:%|MiB|W|MHz|C))?")
WHOLE = re.compile(r"[0-9]{1,9}")
MASK = re.compile(r"0x[0-9a-fA-F]+")
REFUSED_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')
NO_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?P<position>\d+)?\s*:?\s*"
    r"(?P<bus_id>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])\s*:\s*(?P<words>.+)",
    re.IGNORECASE,
)

GAUGES = {
    "utilization.gpu": "busy_pct",
    "memory.used": "mem_used_mib",
    "memory.total": "mem_total_mib",
    "temperature.gpu": "temp_c",
    "clocks.current.sm": "clock_mhz",
    "enforced.power.limit": "power_limit_w",
}
THROTTLE = "clocks_throttle_reasons.active"
"""The older spelling, which new versions understand too."""
POWER = ("power.draw.average", "power.draw.instant", "power.draw")
FIELDS = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "driver_version",
    "mig.mode.current",
    *GAUGES,
    THROTTLE,
    *POWER,
)
APP_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")

Cells = Dict[str, str]


class LostGpu(NamedTuple):
    """A sentence in place of a row. `position` is None where an older nvidia-smi leaves it out."""

    position: int | None
    bus_id: str
    words: str


def cells(fields: Sequence[str], line: str) -> Cells | None:
    """The cells of a line by field; None when the line is not a row of these fields."""
    found = [cell.strip() for cell in line.split(",")]
    if len(found) != len(fields):
        return None
    row = dict(zip(fields, found))
    return row if WHOLE.fullmatch(row.get("index", "")) else None


def number(cell: str | None) -> float | None:
    """A number, with or without its unit; None for a word such as `[N/A]`."""
    found = NUMBER.fullmatch(cell or "")
    return float(found.group(1)) if found else None


def lost_gpu(line: str) -> LostGpu | None:
    """The GPU that a sentence says has no handle."""
    found = NO_HANDLE.search(line)
    if found is None:
        return None
    position = found.group("position")
    return LostGpu(int(position) if position else None, found.group("bus_id"), found.group("words").strip())


def word(cell: str | None) -> str | None:
    """A text cell; None where it holds an excuse in brackets."""
    return None if cell is None or is_excuse(cell) else cell


def is_excuse(cell: str) -> bool:
    """True for what stands in a cell when there is no value."""
    return cell.startswith("[") or cell in ("N/A", "ERR!", "Unknown Error", "GPU is lost")


def power(row: Cells) -> Power:
    """Watts by kind."""
    return Power(*(number(row.get(field)) for field in POWER))


def values(row: Cells) -> Row:
    """The measured values of a row, with state and note."""
    got: Row = {name: number(row.get(field)) for field, name in GAUGES.items()}
    mask = row.get(THROTTLE, "")
    got["throttle"] = throttle.words(int(mask, 16)) if MASK.fullmatch(mask) else None
    got["state"] = state(row)
    notes = excuses(row)
    if got["state"] == "mig":
        got["busy_pct"] = None
        notes.insert(0, MIG_NOTE)
    got["note"] = "; ".join(notes) or None
    return got


def state(row: Cells) -> str:
    """The state of the GPU, as GpuSample names it."""
    said = " ".join(row.values())
    if "GPU requires reset" in said:
        return "needs reset"
    if "GPU is lost" in said:
        return "lost"
    if all(number(row.get(field)) is None for field in (*GAUGES, *POWER)):
        return "unreadable"
    return "mig" if row.get("mig.mode.current") == "Enabled" else "ok"


def excuses(row: Cells) -> list[str]:
    """Which values are missing, in nvidia-smi's words; a power field is missed only when all are."""
    no_power = power(row) == Power()
    asked = [*GAUGES, THROTTLE, *(POWER if no_power else ())]
    missing = {field: row[field] for field in asked if field in row and is_excuse(row[field])}
    if len(set(missing.values())) == 1 and len(missing) > 1:
        return [next(iter(missing.values()))]
    return [f"{field}: {cell}" for field, cell in missing.items()]


def processes(text: str) -> dict[str, list[dict[str, Any]]]:
    """The compute processes of `--query-compute-apps` by the uuid of their GPU."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in text.splitlines():
        # A process may have commas in its name.
        uuid, _, rest = line.partition(",")
        pid, _, rest = rest.partition(",")
        name, _, memory = rest.rpartition(",")
        if WHOLE.fullmatch(pid.strip()):
            process = {
                "pid": int(pid),
                "name": (word(name.strip()) or "").rpartition("/")[2] or None,
                "mem_mib": number(memory.strip()),
                "server_pid": None,
            }
            found.setdefault(uuid.strip(), []).append(process)
    return found
