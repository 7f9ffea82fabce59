"""How a simulated GPU looks, by what its occupant does: eight NVIDIA RTX PRO 6000 Blackwell Server Edition.

Prefill works its card hard and hot. Decode keeps it busy but cold: nearly always some kernel, few of the SMs,
less than half of the power, waiting for PCIe between the cards. Now and then a prefill card runs into its
power limit.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

from demohost.state import Occupant

NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
MEMORY_MIB = 97887
RESERVED_MIB = 636.0
POWER_LIMIT_W = 600.0
MAX_CLOCK_MHZ, IDLE_CLOCK_MHZ = 2430.0, 180.0

GPU_IDLE, SW_POWER_CAP = 0x1, 0x4
"""Of nvmlClocksEventReasons."""

CAP_PERIOD_S, CAP_LENGTH_S, CAP_INTENSITY = 150.0, 25.0, 0.35


class Card(NamedTuple):
    """One GPU at one instant. Percentages 0 to 100; PCIe in MiB a second."""

    busy: float
    sm: float
    occupancy: float
    tensor: float
    dram: float
    pcie_tx: float
    pcie_rx: float
    power_w: float
    temp_c: float
    clock_mhz: float
    reasons: int
    used_mib: float


class _Look(NamedTuple):
    """A card's values at no work and at full work of one kind."""

    busy: tuple[float, float]
    sm: tuple[float, float]
    occupancy: tuple[float, float]
    tensor: tuple[float, float]
    dram: tuple[float, float]
    pcie_tx: tuple[float, float]
    pcie_rx: tuple[float, float]
    power_w: tuple[float, float]


_FREE = _Look((0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (15, 15))
_WAITING = _FREE._replace(power_w=(84, 84))
_LOADING = _Look((2, 12), (0, 2), (0, 1), (0, 0), (1, 6), (1, 4), (900, 5200), (82, 118))
_CAPTURING = _Look((25, 55), (8, 22), (2, 6), (3, 11), (6, 15), (80, 400), (90, 420), (110, 190))
_PREFILL = _Look((46, 96), (41, 84), (9, 17), (31, 66), (19, 34), (3800, 11800), (3600, 11500), (292, 566))
_DECODE = _Look((95, 98), (24, 39), (4, 7), (3, 7), (27, 40), (1500, 3400), (1600, 4900), (252, 290))
_SINGLE = _Look((90, 98), (34, 62), (6, 11), (10, 33), (27, 42), (1900, 5200), (2000, 5600), (260, 430))

_BY_ROLE = {"prefill": _PREFILL, "decode": _DECODE, "single": _SINGLE}


def gpu_count() -> int:
    """How many GPUs the host has."""
    return int(os.environ.get("DSV4_DEMO_GPUS", "8"))


def card_at(index: int, occupant: Occupant | None, now: float) -> Card:
    """The GPU at a time in seconds since the epoch."""
    look, work = (
        _FREE if occupant is None else _look(occupant),
        0.0 if occupant is None else occupant.intensity,
    )
    values = [
        _between(pair, work) * (1 + 0.03 * _flicker(index, place, now)) for place, pair in enumerate(look)
    ]
    *shares, tx, rx, power = values
    busy, sm, occupancy, tensor, dram = (min(100.0, share) for share in shares)
    capped = occupant is not None and is_capped(index, occupant, now)
    warmth = 0.0 if occupant is None else occupant.warmth
    return Card(
        busy=busy,
        sm=sm,
        occupancy=occupancy,
        tensor=tensor,
        dram=dram,
        pcie_tx=tx,
        pcie_rx=rx,
        power_w=POWER_LIMIT_W - 2.0 + _flicker(index, 9, now) if capped else min(power, POWER_LIMIT_W - 6.0),
        temp_c=28.0 + index % 4 + 0.078 * _between(look.power_w, warmth),
        clock_mhz=_clock(look, capped),
        reasons=SW_POWER_CAP if capped else GPU_IDLE if look is _FREE else 0,
        used_mib=0.0 if occupant is None else occupant.mem_mib,
    )


def is_capped(index: int, occupant: Occupant, now: float) -> bool:
    """Does the card run into its power limit? The second of a prefill server's cards does, now and then."""
    return (
        occupant.role == "prefill"
        and occupant.phase == "serving"
        and occupant.gpus.index(index) == 1 % len(occupant.gpus)
        and occupant.intensity > CAP_INTENSITY
        and now % CAP_PERIOD_S < CAP_LENGTH_S
    )


def _look(occupant: Occupant) -> _Look:
    if occupant.phase == "loading":
        return _LOADING
    if occupant.phase == "capturing":
        return _CAPTURING
    return _BY_ROLE[occupant.role] if occupant.intensity > 0 else _WAITING


def _clock(look: _Look, capped: bool) -> float:
    if look is _FREE:
        return IDLE_CLOCK_MHZ
    return MAX_CLOCK_MHZ - 510.0 if capped else MAX_CLOCK_MHZ


def _between(pair: tuple[float, float], share: float) -> float:
    low, high = pair
    return low + (high - low) * share


def _flicker(index: int, place: int, now: float) -> float:
    """A steady wobble between -1 and 1, another one for each card and value."""
    return math.sin(now * (1.3 + 0.17 * place) + 2.4 * index + place)
