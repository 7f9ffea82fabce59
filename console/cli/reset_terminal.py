"""Put a terminal right that a killed console left in its own modes."""

from __future__ import annotations

import sys
import termios

RESET = "".join(
    f"\x1b[{mode}"
    for mode in (
        *("?1000l", "?1002l", "?1003l", "?1006l", "?1015l"),  # mouse reports
        *("?1004l", "?2004l", "?2048l"),  # focus, bracketed paste, size reports
        "<u",  # the keyboard protocol of kitty
        "?1049l",  # the alternate screen
        *("?7h", "?25h", "0m"),  # line wrap, cursor, colours
    )
)
"""The modes that Textual 8.2 sets on Linux (textual/drivers/linux_driver.py), each set back."""


def reset_terminal() -> None:
    """Reset modes, echo and line editing of the terminal on stdout; nothing when it is none."""
    if not sys.stdout.isatty():
        return
    sys.stdout.write(RESET)
    sys.stdout.flush()
    attributes = termios.tcgetattr(sys.stdout.fileno())
    attributes[0] |= termios.ICRNL | termios.IXON
    attributes[1] |= termios.OPOST
    attributes[3] |= termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN
    termios.tcsetattr(sys.stdout.fileno(), termios.TCSADRAIN, attributes)
