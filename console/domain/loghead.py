"""A line of a log that others below it belong to: a traceback's first, advice's error, a dump's title."""

from __future__ import annotations

from .logclass import is_cause
from .logline import LineClass, LogLine
from .logpatterns import TRACEBACK

KEPT_LINES = 256
"""So many lines can be revised when the last of them tells how bad it was."""
TORN_LINES = 64
"""So many lines of others may stand inside a traceback."""

_TRACEBACKS = (TRACEBACK, "Exception Group Traceback")
_FRAMES = (
    " ",
    "|",
    "+",
    *_TRACEBACKS,
    "The above exception was",
    "During handling of",
    "Call stack:",
    "Message: ",
    "Arguments: ",
    "Exception raised from",
    "frame #",
    "Thread 0x",
    "Current thread 0x",
    "Extension modules:",
)
_ADVICE = (
    "Possible solutions",
    "Open an issue",
    "CUDA kernel errors might",
    "For debugging consider",
    "Compile with `TORCH",
    "Search for `cuda",
    "Device-side assert",
    *(f"{number}. " for number in range(1, 10)),
)
SEVERITY: tuple[LineClass, ...] = ("warning", "error", "fatal")
"""The classes that call for attention, the mildest first."""


class Head:
    """What is known of a head, and of what belongs to it. Messages are lines without their prefix."""

    def __init__(self, line: LogLine, *, takes_text: bool, lone: bool = False, hangs: bool = False) -> None:
        self.number = line.head or line.number
        self.line_class = line.line_class
        self.bodies = int(TRACEBACK in line.text)
        """Tracebacks whose cause has not come."""
        self.hangs = hangs
        """The first line of the stacks of a server that hangs."""
        self._takes_text = takes_text
        self._lone = lone
        self._kept = [line]
        self._torn = 0

    def takes(self, message: str, line_class: LineClass) -> bool:
        """Does the line directly below the last one belong here?"""
        if self.bodies:
            return True
        if self.line_class not in SEVERITY:
            return message.startswith(" ")
        if not message.strip() or message.startswith(_FRAMES + _ADVICE):
            return True
        return self._takes_text and line_class not in SEVERITY and not is_cause(message)

    def awaits(self, message: str) -> bool:
        """Does a line below lines of others belong here?"""
        return self.bodies > 0 and (message.startswith(_FRAMES) or is_cause(message))

    def closes(self, message: str, *, touching: bool) -> bool:
        """A line that belongs here: is it the cause of a traceback?

        That is the first line that is not indented; where others may stand between, it must look like one.
        """
        if message.startswith(_TRACEBACKS):
            self.bodies = max(1, self.bodies)
        if not self.bodies or not message.strip() or message.startswith(_FRAMES):
            return False
        if not is_cause(message) and not (touching and self.bodies == 1):
            return False
        self.bodies -= 1
        return True

    def follow(self, line: LogLine) -> LogLine:
        """The line as one of this head's; a failure that follows from it may have a traceback too."""
        self.bodies += TRACEBACK in line.text
        return self.add(line._replace(head=self.number))

    def add(self, line: LogLine) -> LogLine:
        """Keeps a line that belongs here for as long as it may be revised."""
        self._torn = 0
        if len(self._kept) < KEPT_LINES:
            self._kept.append(line)
        return line

    def interrupt(self) -> None:
        """A line of others came; too many of them, and no cause will come."""
        self._torn += 1
        if self._torn > TORN_LINES:
            self.bodies = 0

    def is_worsened_by(self, cause: LineClass) -> bool:
        """A head without a severity of its own is as bad as its cause."""
        return self._lone and _rank(cause) > _rank(self.line_class) > 0

    def change(self, line_class: LineClass) -> list[LogLine]:
        """The lines kept, as they are now that this is what they come to."""
        before, self.line_class = self.line_class, line_class
        changed = [line._replace(line_class=line_class) for line in self._kept if line.line_class == before]
        self._kept = changed
        return changed


def _rank(line_class: LineClass) -> int:
    return SEVERITY.index(line_class) + 1 if line_class in SEVERITY else 0
