"""The story of a saved log: which runs it holds, what each went through, and why it ended.

Nobody can be asked about a saved log: whether the process lives is not in it. A log that stops without an
error and without an order to stop is told as just that.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from datetime import datetime

import msgspec

from console.domain.evidence import Evidence, after_look
from console.domain.incident import Incident
from console.domain.logevidence import after_line, is_another_run, matters
from console.domain.logline import LogLine
from console.domain.logprefix import prefix_of
from console.domain.readiness import FAILING_LIMIT, Conclusion, conclude, doing, duration
from console.domain.server import Role
from console.domain.startup import PHASES, STALL_LIMIT_S

KEPT_ENTRIES = 200
"""Of a long story the first and the last half."""
KEPT_RUNS = 50
"""A server that crashes and is started again for days leaves thousands; the last ones are told."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a run, and the line that tells it."""

    number: int
    at: float | None
    """Seconds since 1970 on the log's clock, which has no zone."""
    word: str
    """The state that begins, or `error`, or `silence`."""
    text: str = ""


class RunStory(msgspec.Struct, frozen=True, kw_only=True):
    """One run: from its first line to its last; both are 0 in an empty log."""

    first: int
    last: int
    first_at: float | None
    last_at: float | None
    role: Role | None
    conclusion: Conclusion
    incident: Incident | None
    """The first cause of a failure, or the error that was not got over."""
    entries: tuple[Entry, ...]
    left_out: int = 0
    """Entries in the middle that are not told."""
    ended: bool = True
    """False when the log may have been saved while the server was running."""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """All that one log tells."""

    runs: tuple[RunStory, ...]
    earlier_runs: int = 0
    """Runs before these."""

    @property
    def last(self) -> RunStory:
        """How it stood at the end of the log."""
        return self.runs[-1]


class Timeline:
    """Reads the lines of one log in order, at a small cost for the many that change nothing."""

    def __init__(self, role: Role | None = None) -> None:
        self._role = role
        self._runs: list[RunStory] = []
        self._earlier_runs = 0
        self._evidence = Evidence(log_alone=True, role=role)
        self._last = 0
        self._stamped = ""
        self._forget()

    def _forget(self) -> None:
        self._first = 0
        self._first_at: float | None = None
        self._heard_at: float | None = None
        self._entries: list[Entry] = []
        self._left_out = 0
        self._moment: tuple[object, ...] = ()
        self._mark: tuple[object, ...] = ()
        self._open: int | None = None  # the entry whose moment lasts

    def read(self, lines: Iterable[LogLine]) -> None:
        """The next lines."""
        for line in lines:
            tells = matters(self._evidence, line)
            if tells and is_another_run(self._evidence, line):
                # A process whose place another one takes has ended, whatever its log said last.
                self._close(after_look(self._evidence, alive=False), ended=True)
                self._forget()
            self._first = self._first or line.number
            self._last = line.number
            if line.text[:2] in ("[2", "20"):
                self._stamped = line.text
                if self._first_at is None or not self._evidence.has_started:
                    self._hear(line)
            if tells:
                self._take(line)

    def end(self) -> Story:
        """No line will come."""
        self._close(self._evidence, ended=False)
        return Story(runs=tuple(self._runs), earlier_runs=self._earlier_runs)

    def _hear(self, line: LogLine) -> None:
        """A start that goes silent is worth telling; only there do all times have to be read."""
        at = written_at(line.text)
        if at is None:
            return
        self._first_at = at if self._first_at is None else self._first_at
        evidence = self._evidence
        gap = 0.0 if self._heard_at is None else at - self._heard_at
        if evidence.log_reaches_start and gap >= STALL_LIMIT_S[evidence.phase]:
            self._add(line, at, "silence", f"no word for {duration(gap)} while {doing(evidence)}")
        self._heard_at = at

    def _take(self, line: LogLine) -> None:
        at = written_at(line.text) or written_at(self._stamped)
        before, self._evidence = self._evidence, after_line(self._evidence, line, at)
        if line.line_class == "progress":
            self._heard_at = at
        # Most of what changes the evidence is a detail; a conclusion costs more than to see that.
        if self._evidence is not before and (moment := _moment(self._evidence)) != self._moment:
            self._moment = moment
            self._tell(line, at, before)

    def _tell(self, line: LogLine, at: float | None, before: Evidence) -> None:
        word, mark = _mark(self._evidence)
        if mark == self._mark:
            return
        goes_on = mark[:2] == self._mark[:2]
        self._finish(before)
        self._mark = mark
        # An error that is got over without having been a state is no news once more.
        if word != "unknown" and (word == "error" or not goes_on):
            self._add(line, at, word, self._text(self._evidence, word))
            self._open = len(self._entries) - 1

    def _finish(self, evidence: Evidence) -> None:
        """The open entry says how far its moment came: the bar at its end, the number of failed requests."""
        if self._open is None:
            return
        entry = self._entries[self._open]
        if entry.word != "ready":
            text = self._text(evidence, entry.word)
            self._entries[self._open] = msgspec.structs.replace(entry, text=text)
        self._open = None

    def _text(self, evidence: Evidence, word: str) -> str:
        if word == "error" and evidence.trouble is not None:
            return evidence.trouble.sentence
        if word in PHASES:
            return doing(evidence).removeprefix(word).strip()
        if word == "ready":
            return self._ready_text(evidence)
        return conclude(evidence).reason or ""

    def _ready_text(self, evidence: Evidence) -> str:
        if any(entry.word == "ready" for entry in self._entries):
            return "requests are answered again"
        if evidence.ready_at is None or self._first_at is None:
            return ""
        return f"after {duration(evidence.ready_at - self._first_at)}"

    def _add(self, line: LogLine, at: float | None, word: str, text: str) -> None:
        self._entries.append(Entry(number=line.number, at=at, word=word, text=text))
        if len(self._entries) > KEPT_ENTRIES:
            del self._entries[KEPT_ENTRIES // 2]
            self._left_out += 1

    def _close(self, evidence: Evidence, *, ended: bool) -> None:
        self._finish(self._evidence)
        conclusion = conclude(evidence)
        # What stands before the first date was written not long before it.
        entries = [
            msgspec.structs.replace(entry, at=self._first_at) if entry.at is None else entry
            for entry in self._entries
        ]
        self._runs.append(
            RunStory(
                first=self._first,
                last=self._last,
                first_at=self._first_at,
                last_at=written_at(self._stamped),
                role=self._role or evidence.role,
                conclusion=conclusion,
                incident=evidence.failure or evidence.trouble,
                entries=tuple(entries),
                left_out=self._left_out,
                ended=ended or conclusion.state in ("failed", "crashed", "gone"),
            )
        )
        if len(self._runs) > KEPT_RUNS:
            del self._runs[0]
            self._earlier_runs += 1


def _moment(evidence: Evidence) -> tuple[object, ...]:
    """Everything on which a state can depend, and little else."""
    failure, trouble = evidence.failure, evidence.trouble
    return (
        evidence.phase,
        evidence.progress.doing,
        evidence.workers,
        evidence.has_started,
        evidence.log_reaches_start,
        evidence.stop_ordered,
        evidence.draining,
        failure is not None,
        trouble and (trouble.head.number, trouble.said.number, trouble.named, trouble.reading),
        min(evidence.failing, FAILING_LIMIT),
    )


def _mark(evidence: Evidence) -> tuple[str, tuple[object, ...]]:
    """The word for this moment, and what tells it from the one before: state, step, error."""
    state = conclude(evidence).state
    trouble = None if state in ("degraded", "failed", "crashed") else evidence.trouble
    step = evidence.progress.doing if state in PHASES else ""
    return "error" if trouble else state, (state, step, trouble and trouble.head.number)


def written_at(text: str) -> float | None:
    """The date before a line, in seconds since 1970 on the clock of whoever wrote it."""
    stamp = prefix_of(text).stamp
    if stamp is None:
        return None
    try:
        return float(calendar.timegm(datetime.fromisoformat(stamp[:19]).timetuple()))
    except ValueError:
        return None
