"""A saved log, explained: its lines with their final meaning, and the story they tell.

Bytes go in however they come; memory stays bounded however long the log is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from console.domain.causes import KILLED, next_step
from console.domain.incident import Incident
from console.domain.logclass import LinePattern
from console.domain.logfields import fields
from console.domain.logline import LogLine
from console.domain.logprefix import prefix_of
from console.domain.server import Role
from console.domain.timeline import RunStory, Story, Timeline
from console.services.loglines import LogReader, Read

HELD_LINES = 8192
"""The last lines may still turn out to mean something else (a failed health check waits two minutes for a
sign of life), so they are held back."""


class Explainer:
    """Explains one log."""

    def __init__(self, role: Role | None = None, patterns: Sequence[LinePattern] = ()) -> None:
        self._reader = LogReader(patterns)
        self._timeline = Timeline(role)
        self._held: list[LogLine] = []
        self.unfinished = False
        """The log ended in the middle of a line."""

    def feed(self, data: bytes) -> list[LogLine]:
        """Take the next bytes; returns lines, in order, whose meaning is settled by now."""
        read = self._reader.feed(data)
        self.unfinished = read.live is not None
        self._hold(read)
        return self._settle(len(self._held) - HELD_LINES)

    def end(self) -> list[LogLine]:
        """No more will come; returns the rest of the lines."""
        self._hold(self._reader.end())
        return self._settle(len(self._held))

    def story(self) -> Story:
        """What the log tells, after its end."""
        return self._timeline.end()

    def _hold(self, read: Read) -> None:
        self._held += read.lines
        for line in read.revised:
            index = line.number - self._held[0].number
            if index >= 0:
                self._held[index] = line

    def _settle(self, count: int) -> list[LogLine]:
        settled, self._held = self._held[: max(0, count)], self._held[max(0, count) :]
        self._timeline.read(settled)
        return settled


def record(line: LogLine) -> dict[str, Any]:
    """One line as `explain --json` prints it."""
    prefix = prefix_of(line.text)
    return {
        "n": line.number,
        "class": line.line_class,
        "rank": prefix.ranks or None,
        "time": prefix.stamp,
        "fields": fields(line.text, line.line_class),
    }


def advice(run: RunStory) -> str:
    """What to do next, in plain words."""
    state = run.conclusion.state
    if run.incident is not None:
        return next_step(run.incident.cause, run.role, lives=state not in ("failed", "crashed"))
    match state:
        case "failed" | "crashed":
            return next_step(KILLED, run.role)
        case "gone":
            return "nothing: it was stopped in order"
        case "unknown":
            return "give the log of an SGLang server or router, from its start if you have it"
        case "stopping":
            return "wait for the process to end; if it does not within 5 minutes, requests are stuck in it"
    wait = "nothing" if state == "ready" else "wait"
    return f"{wait}, if the process lives; if it is gone, {KILLED.next}"


def ending(run: RunStory, *, unfinished: bool) -> str | None:
    """How the log of a run that may live on stops, which is all that it says about its end."""
    if run.ended or run.conclusion.state in ("stopping", "unknown"):
        return None
    where = "in the middle of a line" if unfinished else "here"
    return (
        f"The log stops {where} without an error or an order to stop: it was saved while the server ran, or"
        " the server was killed from outside, which leaves no word."
    )


def summary(story: Story) -> dict[str, Any]:
    """The last object of `explain --json`: how it stood at the end of the log, and what led there."""
    runs = [_told(run) for run in story.runs]
    return runs[-1] | {"runs": runs, "earlier_runs": story.earlier_runs}


def _told(run: RunStory) -> dict[str, Any]:
    incident = run.incident
    ended_badly = run.conclusion.state in ("failed", "crashed")
    return {
        "state": run.conclusion.state,
        "first_cause": incident.sentence if incident else run.conclusion.reason if ended_badly else None,
        "next": advice(run),
        "reason": run.conclusion.reason,
        "role": run.role,
        "cause": None if incident is None else _cause(incident),
        "lines": [run.first, run.last],
    }


def _cause(incident: Incident) -> dict[str, Any]:
    known = incident.cause
    return {
        "id": None if known is None else known.id,
        "sentence": None if known is None else known.sentence,
        "text": incident.text,
        "n": incident.said.number,
        "ranks": list(incident.ranks),
        "lines": [[line.number, line.text] for line in incident.lines],
        "consequences": [
            {"n": consequence.first.number, "text": consequence.first.text, "count": consequence.count}
            for consequence in incident.consequences
        ],
    }
