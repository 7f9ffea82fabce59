"""Why a GPU's clock is held down, in short words."""

from __future__ import annotations

IDLE = 0x1
"""A clock that is low because there is nothing to do: not a throttle reason."""

WORDS = {
    0x2: "app clocks",
    0x4: "power cap",
    0x8: "hw slowdown",
    0x10: "sync boost",
    0x20: "thermal",
    0x40: "hw thermal",
    0x80: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons; nvml.h, nvmlClocksEventReasons and its older names."""


def words(mask: int) -> list[str]:
    """The reasons set in a mask, lowest bit first; a bit that nvml.h does not name is given as a number."""
    bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
    return [WORDS.get(bit, hex(bit)) for bit in bits if bit != IDLE]
