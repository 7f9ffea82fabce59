"""What a line of a log means beside its neighbours.

`LogContext` takes line after line and gives each its final class and head, at a bounded cost and in bounded
memory. What only later lines can tell it revises: `revised` holds lines given before whose class changed.

A line's head is the one that it belongs to: of a traceback, of stacks or advice; and for a while after a
fatal line it is the head of whatever follows from it (the other ranks' exceptions, SIGQUIT, errors of a lost
peer). Which rank a frame is of, nothing in the text says while several tracebacks are open, so nothing here
does.
"""

from __future__ import annotations

import re

from .logclass import stands_alone
from .loghead import SEVERITY, Head
from .logline import LineClass, LogLine, line_time
from .logpatterns import TRACEBACK, Event, Meaning
from .logprefix import prefix_of, sglang_prefix
from .logprompt import Prompt, opened
from .logwindow import Window

CONSEQUENCE_S = 60.0
"""So long after the last line of a failure, what else fails is held for its consequence."""
STOP_S = 60.0
"""An ordered stop that says nothing for so long (it reports every 5 s) is over."""
LIFE_S = 120.0
"""So long a failed health check waits for a sign of life."""
BACK_S = 60.0
"""A clock that goes back by more belongs to another log, or was set."""
REPEAT_S = 10.0
"""So long after one rank's message, the same of another rank is a repeat."""

_SAID_LIMIT = 64
_UNWELL_LIMIT = 64
_ENDED_BY_HAND = "KeyboardInterrupt"
_CANCELLED = "asyncio.exceptions.CancelledError"
_HEADS: tuple[Event, ...] = ("alarm", "lone", "exit", "unready", "note", "dump", "hung", "slow", "health")
_URL = re.compile(r"(?:http|grpc)s?://")
_JOINED = re.compile(r"Activated (\d+) worker")


class LogContext:
    """The state between the lines of one log."""

    def __init__(self) -> None:
        self.revised: list[LogLine] = []
        """For the reader to take and clear; of two with one number the later holds."""
        self._now: float | None = None
        """The present line's own time."""
        self._last = 0.0
        self._prompt: Prompt | None = None
        self._begin()

    def _begin(self) -> None:
        """A run starts: nothing of the one before it matters."""
        self._quiet = True
        self._head: Head | None = None
        self._touches = False
        """The last line was the head's own or one that belongs to it."""
        self._failure: Head | None = None
        self._failing = Window(CONSEQUENCE_S)
        self._stopping = Window(STOP_S)
        self._unready = False
        self._unwell: list[LogLine] = []
        """Failed health checks that are either the first sign of death or of nothing but much work."""
        self._waiting = Window(LIFE_S)
        self._said: dict[str, tuple[int, str, float]] = {}
        self._workers = 0
        self._joined = 0

    def feed(self, number: int, text: str, meaning: Meaning, end: str | None = None) -> LogLine:
        """The line with its class and its head; `end` is its true end where `text` was cut."""
        if self._quiet and meaning.event is None:
            return LogLine(number, text, meaning.line_class)
        if self._prompt is not None:
            return self._inside(
                self._prompt, LogLine(number, text, "benign", self._prompt.number), meaning, end
            )
        line = self._continued(number, text, meaning) or self._own(number, text, meaning, end)
        self._quiet = not (self._prompt or self._head or self._failure or self._unwell or self._stopping)
        return line

    def end(self) -> None:
        """No line will come: a request that was never closed was none."""
        if self._prompt is not None and self._prompt.doubtful:
            self._disbelieve(self._prompt)

    def live_class(self, meaning: Meaning) -> LineClass:
        """The class of a line that is not finished."""
        return meaning.line_class if self._prompt is None else "benign"

    # Text of users

    def _inside(self, prompt: Prompt, line: LogLine, meaning: Meaning, end: str | None) -> LogLine:
        if prompt.takes_last(line, meaning, end):
            self._prompt = None
        elif prompt.given_up:
            return self._disbelieve(prompt)
        return line

    def _disbelieve(self, prompt: Prompt) -> LogLine:
        """The doubtful lines were the server's own. Returns the last of them."""
        self._prompt = None
        for given, meaning in prompt.doubtful:
            line = self.feed(given.number, given.text, meaning)
            if line != given:
                self.revised.append(line)
        return line

    # Lines that belong to one above

    def _continued(self, number: int, text: str, meaning: Meaning) -> LogLine | None:
        if not (self._head or self._failure) or stands_alone(text):
            return None
        self._now = None
        message = text[prefix_of(text).end :]
        head = self._owner(message, meaning)
        if head is None:
            return None
        if head.closes(message, touching=self._touches and head is self._head):
            self._caused(head, message, meaning)
        self._head, self._touches = head, True
        return head.add(LogLine(number, text, head.line_class if message.strip() else "benign", head.number))

    def _owner(self, message: str, meaning: Meaning) -> Head | None:
        if self._touches and self._head and self._head.takes(message, meaning.line_class):
            return self._head
        return next((head for head in (self._head, self._failure) if head and head.awaits(message)), None)

    def _caused(self, head: Head, message: str, meaning: Meaning) -> None:
        """The cause of a traceback has come."""
        if message.startswith(_ENDED_BY_HAND):
            self._stopping.open(self._now)
        if message.startswith((_ENDED_BY_HAND, _CANCELLED)) and head.line_class in ("error", "fatal"):
            self._change(head, "warning")
        elif head.is_worsened_by(meaning.line_class):
            self._change(head, meaning.line_class)

    def _change(self, head: Head, line_class: LineClass) -> None:
        self.revised += head.change(line_class)
        if line_class == "fatal":
            self._fails(head)
        elif head is self._failure:
            self._failure = None

    # Lines of their own

    def _own(self, number: int, text: str, meaning: Meaning, end: str | None) -> LogLine:
        self._tick(line_time(text))
        self._interrupt()
        if self._unwell and _shows_life(text, meaning):
            self._was_busy()
        line = LogLine(number, text, self._class_of(text, meaning))
        self._note(line, meaning, end)
        return self._headed(line, meaning) if meaning.event in _HEADS else line

    def _tick(self, stamp: float | None) -> None:
        """What waits for something waits no longer than its time; a clock that went back ends it too."""
        self._now = stamp
        if stamp is None:
            return
        back, self._last = stamp < self._last - BACK_S, stamp
        for window in (self._failing, self._stopping, self._waiting):
            if back:
                window.close()
            window.pass_to(stamp)
        if not self._failing:
            self._failure = None
        if not self._waiting:
            self._unwell.clear()

    def _interrupt(self) -> None:
        self._touches = False
        for head in {self._head, self._failure}:
            if head is not None:
                head.interrupt()
        if self._head and not self._head.bodies:
            self._head = None

    def _class_of(self, text: str, meaning: Meaning) -> LineClass:
        line_class, event = meaning
        if event == "ready" and self._unready:
            return "warning"
        if event == "step":
            return self._class_of_step(text)
        if self._stopping and event == "exit":
            return "benign"
        if self._stopping and (line_class == "fatal" or event == "lone"):
            return "warning"
        return line_class

    def _class_of_step(self, text: str) -> LineClass:
        """A router's attempt to register a worker fails for as long as the worker loads."""
        if "will_retry=false" in text:
            return "error"
        return "warning" if self._workers and self._joined >= self._workers else "benign"

    def _note(self, line: LogLine, meaning: Meaning, end: str | None) -> None:
        """What the line changes for those after it."""
        match meaning.event:
            case "begin":
                self._begin()
            case "stop":
                self._stopping.open(self._now)
            case "unready":
                self._unready = True
            case "routes":
                self._begin()
                self._workers = len(_URL.findall(line.text))
            case "joined":
                self._joined += int(found[1]) if (found := _JOINED.search(line.text)) else 1
            case "data":
                self._prompt = opened(line, end)

    def _was_busy(self) -> None:
        """Failed health checks with a sign of life after them: the server was slow, not dead."""
        self.revised += [line._replace(line_class="warning") for line in self._unwell]
        self._unwell.clear()

    # Lines that others may belong to

    def _headed(self, line: LogLine, meaning: Meaning) -> LogLine:
        failure = self._failure
        if failure and failure.hangs and meaning.event == "slow":
            self._change(failure, "warning")
            return failure.follow(line)
        if failure and self._follows(line, meaning):
            return self._consequence(failure, line)
        if line.line_class in SEVERITY or meaning.event == "note" or TRACEBACK in line.text:
            line = self._repeated(line)
            self._opens(line, meaning)
        return line

    def _follows(self, line: LogLine, meaning: Meaning) -> bool:
        """Is it a consequence of the failure before it?"""
        if meaning.event == "exit":
            return not self._stopping
        return line.line_class in ("error", "fatal")

    def _consequence(self, failure: Head, line: LogLine) -> LogLine:
        self._fails(failure)
        self._head, self._touches = failure, True
        return failure.follow(line._replace(line_class="fatal") if line.line_class == "benign" else line)

    def _repeated(self, line: LogLine) -> LogLine:
        """The same message of another rank belongs to the first one's."""
        prefix = sglang_prefix(line.text)
        if prefix is None or not prefix.ranks:
            return line
        message = line.text[prefix.end :]
        first, ranks, at = self._said.get(message, (0, prefix.ranks, 0.0))
        if ranks != prefix.ranks and self._last - at <= REPEAT_S:
            return line._replace(head=first)
        self._said[message] = (line.number, prefix.ranks, self._last)
        if len(self._said) > _SAID_LIMIT:
            del self._said[next(iter(self._said))]
        return line

    def _opens(self, line: LogLine, meaning: Meaning) -> None:
        own_record = meaning.event in ("lone", "dump") or sglang_prefix(line.text) is not None
        self._head = Head(
            line,
            takes_text=own_record and line.line_class in ("error", "fatal"),
            lone=meaning.event == "lone" and not self._stopping,
            hangs=meaning.event == "dump",
        )
        self._touches = True
        if line.line_class == "fatal":
            self._fails(self._head)
        if meaning.event == "health":
            self._unwell = [*self._unwell[1 - _UNWELL_LIMIT :], line]
            self._waiting.open(self._now)

    def _fails(self, head: Head) -> None:
        self._failure = head
        self._failing.open(self._now)


def _shows_life(text: str, meaning: Meaning) -> bool:
    """Work that went on, or an answer that was given."""
    return meaning.line_class == "stats" or (meaning.line_class == "benign" and '" 200' in text)
