"""Why a run has ended, read from the end of its log: it may have ended before it was seen as a server."""

from __future__ import annotations

from console.domain.causes import next_step
from console.domain.run_record import RunRecord
from console.domain.timeline import Timeline
from console.remote.agent_link import AgentLink
from console.services.history import LogHistory
from console.services.host_control import LastWords


async def last_words(link: AgentLink, run: RunRecord) -> LastWords | None:
    """What its log says; None where that is nothing. Raises ConnectionLost."""
    lines = await LogHistory(run.log).last_lines(link)
    timeline = Timeline(run.role)
    timeline.read(lines)
    incident = timeline.end().last.incident
    if incident is not None:
        return LastWords(incident.sentence, next_step(incident.cause, run.role))
    said = [line.text.strip() for line in lines if line.text.strip()]
    return LastWords(said[-1]) if said else None
