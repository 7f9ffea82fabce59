"""One thing that went wrong, as a log tells it: the line that names it, and what merely followed from it.

Ranks of one server die together and talk at once. Only the first line of a traceback carries its rank; the
frames and the exception come without, and mix. So the first exception after the first header is taken for the
cause, and gives way only to one that weighs more: a rank that reports the loss of another says less than the
one that ran out of memory. What comes after, and weighs no more, is counted as a consequence.
"""

from __future__ import annotations

import re

import msgspec

from console.domain.causes import FRAMES, Cause, Kind, cause_of
from console.domain.logline import LogLine
from console.domain.logprefix import prefix_of
from console.domain.startup import Phase

KEPT_LINES = 40
"""Of a traceback: its first line and the last ones."""

_HEADER = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]*(?:Error|Exception|Interrupt)\b(?::|$)")
_ROUTER_SOURCE = re.compile(r"^ *[A-Z]+ .*?\.rs:\d+: ")
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_WEIGHTS: dict[Kind, int] = {
    "root": 3,
    "trouble": 3,
    "client": 3,
    "symptom": 2,
    "secondary": 1,
    "consequence": 0,
}
_UNKNOWN_EXCEPTION = 3
_UNKNOWN_MESSAGE = 2
"""Such as the title of a stack dump: what is known, and an exception whatever it says, explain more."""
TEXT_LIMIT = 300


class Consequence(msgspec.Struct, frozen=True):
    """Lines that followed from an incident, all of one sort."""

    sort: str
    count: int
    first: LogLine


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that went wrong."""

    head: LogLine
    """The line that it began with."""
    said: LogLine
    """The line that names it: the exception, or the head while none has come."""
    named: bool = False
    lines: tuple[LogLine, ...]
    """Head, frames and exception; of a long traceback the first and the last ones."""
    ranks: tuple[str, ...] = ()
    """Those that reported it, in the order of the log."""
    at: float | None = None
    """When it began, in seconds on the log's clock."""
    phase: Phase | None = None
    """The step of the start-up that it fell into; None for a server that had started."""
    consequences: tuple[Consequence, ...] = ()
    body: tuple[LogLine, ...] = ()
    """The traceback that is being read."""
    reading: bool = True
    """Unprefixed lines belong to the traceback."""
    chained: bool = False
    """The next exception was raised from the last one, and says more."""
    weight: int = _UNKNOWN_EXCEPTION
    cause: Cause | None = None
    """The known cause: what the naming line says, else what the head says."""

    @property
    def text(self) -> str:
        """The naming line without its date and rank."""
        message = self.said.text[prefix_of(self.said.text).end :].rstrip()
        said = _ROUTER_SOURCE.sub("", message)
        return said if len(said) <= TEXT_LIMIT else f"{said[:TEXT_LIMIT]}…"

    @property
    def sentence(self) -> str:
        """Who, why and in whose words: `TP1, TP0: a GPU ran out of memory …: torch.OutOfMemoryError: …`."""
        cause = self.cause
        known = None if cause is None else cause.sentence
        return ": ".join(part for part in (", ".join(self.ranks), known, self.text) if part)


def begun(line: LogLine, at: float | None, phase: Phase | None) -> Incident:
    """The incident that a line begins."""
    ranks = prefix_of(line.text).ranks
    incident = Incident(
        head=line,
        said=line,
        # A header waits for its exception; any other line says what it has to say.
        named=not _opens_traceback(line.text),
        lines=(line,),
        ranks=(ranks,) if ranks else (),
        at=at,
        phase=phase,
        body=(line,),
    )
    return _understood(msgspec.structs.replace(incident, weight=_weight(incident, line)))


def _understood(incident: Incident) -> Incident:
    body = [line.text for line in incident.lines]
    cause = cause_of(incident.said.text, incident.phase, body)
    if cause is None:
        cause = cause_of(incident.head.text, incident.phase, body)
    return incident if cause is incident.cause else msgspec.structs.replace(incident, cause=cause)


def followed(incident: Incident, line: LogLine) -> Incident:
    """The incident with one more line after it, be it a part, a better explanation or a consequence."""
    prefix = prefix_of(line.text)
    message = line.text[prefix.end :]
    if prefix.stamp is not None:
        return _next_message(incident, line, prefix.ranks)
    if _EXCEPTION.match(message):
        return _exception(incident, line)
    if message.startswith(_HEADER):
        return _traceback(incident, line)
    if message.startswith(_CHAINED):
        return msgspec.structs.replace(_grown(incident, line), chained=True)
    if line.head is None and line.line_class in ("error", "fatal"):
        return _next_message(incident, line, "")
    return _grown(incident, line)


def _traceback(incident: Incident, line: LogLine) -> Incident:
    """A head that says nothing known (`Exception in ASGI application`) waits for its exception too."""
    grown = _grown(incident, line)
    waits = incident.reading and incident.said is incident.head and incident.cause is None
    return msgspec.structs.replace(grown, named=False) if waits else grown


def _grown(incident: Incident, line: LogLine) -> Incident:
    if not incident.reading:
        return incident
    body = _kept((*incident.body, line))
    if incident.lines[-1] is not incident.body[-1]:
        return msgspec.structs.replace(incident, body=body)
    # What follows the exception (torch's advice, numbered solutions) belongs to it.
    grown = msgspec.structs.replace(incident, body=body, lines=body)
    return _understood(grown) if any(frame in line.text for frame in FRAMES) else grown


def _kept(body: tuple[LogLine, ...]) -> tuple[LogLine, ...]:
    return body if len(body) <= KEPT_LINES else (body[0], *body[-(KEPT_LINES - 1) :])


def _next_message(incident: Incident, line: LogLine, rank: str) -> Incident:
    alarming = line.line_class in ("error", "fatal")
    if alarming and _opens_traceback(line.text):
        return _next_traceback(incident, line, rank)
    if incident.reading:
        incident = msgspec.structs.replace(incident, reading=False, chained=False)
    return _explained(incident, line, (line,)) if alarming else incident


def _next_traceback(incident: Incident, line: LogLine, rank: str) -> Incident:
    ranks = (*incident.ranks, rank) if rank and rank not in incident.ranks else incident.ranks
    body = (line,) if incident.named else _kept((*incident.body, line))
    return msgspec.structs.replace(incident, ranks=ranks, body=body, reading=True, chained=False)


def _exception(incident: Incident, line: LogLine) -> Incident:
    repeats = incident.reading and incident.named and _sort(line) == _sort(incident.said) != "other"
    incident = _grown(incident, line)
    if repeats and not incident.chained:
        return incident
    body = incident.body if incident.reading else (line,)
    if incident.chained and _weight(incident, line) >= incident.weight:
        return _renamed(incident, line, body)
    return _explained(incident, line, body)


def _explained(incident: Incident, line: LogLine, body: tuple[LogLine, ...]) -> Incident:
    """A line that could be the cause: it is when there is none so far, or when it weighs more."""
    weight = _weight(incident, line)
    if weight > incident.weight or (not incident.named and weight > 0):
        return _renamed(incident, line, body)
    return msgspec.structs.replace(incident, consequences=_counted(incident.consequences, line))


def _renamed(incident: Incident, line: LogLine, body: tuple[LogLine, ...]) -> Incident:
    overruled = incident.named and not incident.chained
    ranks = incident.ranks
    first = prefix_of(body[0].text).ranks
    if overruled and first:
        ranks = (first, *(rank for rank in ranks if rank != first))
    renamed = msgspec.structs.replace(
        incident,
        said=line,
        named=True,
        lines=body,
        weight=_weight(incident, line),
        ranks=ranks,
        consequences=_counted(incident.consequences, incident.said) if overruled else incident.consequences,
        chained=False,
    )
    return _understood(renamed)


def _counted(consequences: tuple[Consequence, ...], line: LogLine) -> tuple[Consequence, ...]:
    sort = _sort(line)
    for index, known in enumerate(consequences):
        if known.sort == sort:
            more = Consequence(sort, known.count + 1, known.first)
            return (*consequences[:index], more, *consequences[index + 1 :])
    return (*consequences, Consequence(sort, 1, line))


def _sort(line: LogLine) -> str:
    cause = cause_of(line.text)
    return "other" if cause is None else cause.id


def _opens_traceback(text: str) -> bool:
    ending = text.rstrip()
    return ending.endswith(_HEADER) or text.startswith("Exception in thread ")


def _weight(incident: Incident, line: LogLine) -> int:
    cause = cause_of(line.text, incident.phase, [part.text for part in incident.body])
    if cause is not None:
        return _WEIGHTS[cause.kind]
    message = line.text[prefix_of(line.text).end :]
    return _UNKNOWN_EXCEPTION if _EXCEPTION.match(message) else _UNKNOWN_MESSAGE
