"""A number in digits three rows high, of the segments `|` and `_` that every terminal has."""

from __future__ import annotations

ROWS = 3
SEGMENTS = {
    "0": (" _ ", "| |", "|_|"),
    "1": ("   ", "  |", "  |"),
    "2": (" _ ", " _|", "|_ "),
    "3": (" _ ", " _|", " _|"),
    "4": ("   ", "|_|", "  |"),
    "5": (" _ ", "|_ ", " _|"),
    "6": (" _ ", "|_ ", "|_|"),
    "7": (" _ ", "  |", "  |"),
    "8": (" _ ", "|_|", "|_|"),
    "9": (" _ ", "|_|", " _|"),
    ",": (" ", " ", ","),
    ".": (" ", " ", "."),
}


def big(number: str) -> list[str]:
    """Its three rows; `number` has digits, commas and points only."""
    return [" ".join(SEGMENTS[char][row] for char in number) for row in range(ROWS)]
