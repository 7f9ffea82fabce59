"""Text that others wrote, made safe to show: printable characters only, and one width on every terminal.

Escape sequences, bidirectional controls and other characters without a glyph are dropped, control characters
shown as their pictures (U+2400-2421), tabs expanded.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erase
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM
    r"|\x1b[ -/]*[0-~]"  # the rest of ECMA-35
)


_COLOUR = re.compile(r"(?:\x1b\[|\x9b)([0-9;:]*)m")
"""SGR, select graphic rendition (ECMA-48 8.3.117)."""


class Colour(NamedTuple):
    """A part of a line, and the SGR parameters in force there, such as `2;32`."""

    start: int
    end: int
    sgr: str


def coloured(text: str) -> tuple[str, tuple[Colour, ...]]:
    """One line, safe to show, and the colours that its writer gave it; everything else is dropped."""
    line, colours, active = "", [], ""
    for index, part in enumerate(_COLOUR.split(text)):
        if index % 2:
            reset = part.rpartition(";")[2] in ("", "0")
            active = "" if reset else f"{active};{part}".lstrip(";")
        elif shown := printable(part):
            if active:
                colours.append(Colour(len(line), len(line) + len(shown), active))
            line += shown
    return line, tuple(colours)


def printable(text: str) -> str:
    """One line, safe to show."""
    if text.isascii() and text.isprintable():
        return text
    return _SEQUENCE.sub("", text).expandtabs().translate(_GLYPHS)


class _Glyphs(dict[int, str]):
    """What stands for a character on the screen; filled as characters are met."""

    def __missing__(self, codepoint: int) -> str:
        glyph = self[codepoint] = _glyph(chr(codepoint))
        return glyph


_GLYPHS = _Glyphs()


def _glyph(char: str) -> str:
    if char == "\u3000":
        return "  "
    # Variation selectors make terminals disagree about the width of the character before them.
    if "\ufe00" <= char <= "\ufe0f":
        return ""
    if char.isprintable():
        return char
    match unicodedata.category(char):
        case "Cc" if char < " ":
            return chr(0x2400 + ord(char))
        case "Cc":
            return "\u2421" if char == "\x7f" else "\ufffd"
        case "Cf":
            return ""
        case "Zs":
            return " "
    return "\ufffd"
