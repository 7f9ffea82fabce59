"""What the lines of a server's log add to the evidence of its run.

Only lines after the run's own start count: another run that begins in the same file starts anew.
"""

from __future__ import annotations

import re

import msgspec

from console.domain import incident, startup
from console.domain.causes import cause_of
from console.domain.evidence import Evidence
from console.domain.incident import Incident
from console.domain.logline import LogLine
from console.domain.logprefix import prefix_of, rank_numbers
from console.domain.server import Role
from console.domain.startup import PHASES, Phase, Progress

_ROUTER_BEGINS = "Starting router on "
_LAUNCHER = "sglang.launch_server' is still supported"
_USAGE = ("usage: sglang serve", "usage: launch_server", "usage: launch_router")
"""What a start says before it has read its arguments; if they are wrong it says nothing else."""
_STOP_ORDERED = ("SIGTERM received", "Received terminate signal", "Received Ctrl+C")
_DRAINING = re.compile(r"Gracefully exiting\.\.\. Remaining number of requests (\d+)")
_STOPPED_CHILD = "crashed with exit code -15"
_ENDS = re.compile(
    r"Exception in thread .*(?:_thread|worker|_run_server|warmup|heartbeat_checker)\)"
    r"|.*Disaggregation warmup failed"
    r"|Error starting router: "
)
"""What is no less than fatal, however it is written: after all but the last a server lives on, looks healthy
and can do nothing."""
_WORKER_URL = re.compile(r'"(?:http|grpc)s?://')
_ACTIVATED = re.compile(r"Activated (\d+) worker")
_REQUEST = re.compile(r'"POST /\S* HTTP/[\d.]+" (?P<status>\d)|method=POST .*status_code=(?P<code>\d)')
_HEALTHY = re.compile(r'"GET /health\S* HTTP/[\d.]+" 2')
_MODE = re.compile(r"disaggregation_mode'?[=:] ?'(\w+)'")
_LOUD = frozenset(("ready", "error", "fatal", "warning", "progress", "config"))


def after_line(evidence: Evidence, line: LogLine, at: float | None = None) -> Evidence:
    """The evidence with one more line of this run's log, finished or still being written; `at` is when."""
    if not matters(evidence, line):
        return evidence
    if _begins(evidence, line):
        return _begun(evidence, line, at)
    if evidence.failure is not None:
        return _after_failure(evidence, evidence.failure, line)
    if evidence.trouble is not None:
        evidence = _after_trouble(evidence, evidence.trouble, line)
    if line.line_class in ("error", "fatal") or (line.line_class != "benign" and _ENDS.match(line.text)):
        return _after_alarm(evidence, line, at)
    match line.line_class:
        case "ready":
            return _after_ready(evidence, line, at)
        case "progress" | "warning" | "config":
            return _after_news(evidence, line, at)
    return _seen_at_work(evidence, line, at)


def after_revision(evidence: Evidence, line: LogLine, at: float | None = None) -> Evidence:
    """The evidence after a line seen before turned out to mean something else; same number, other class."""
    if line.line_class == "fatal" and evidence.failure is None:
        return _after_alarm(evidence, line, at)
    if line.line_class != "ready" and evidence.ready_number == line.number:
        evidence = msgspec.structs.replace(evidence, ready_line=False, ready_at=None, ready_number=None)
    if line.line_class in ("error", "fatal"):
        return evidence
    if evidence.failure is not None and evidence.failure.head.number == line.number:
        return msgspec.structs.replace(evidence, failure=None)
    if evidence.trouble is not None and evidence.trouble.head.number == line.number:
        return msgspec.structs.replace(evidence, trouble=None)
    return evidence


def matters(evidence: Evidence, line: LogLine) -> bool:
    """Can the line change anything? Most cannot, and this tells at little cost."""
    if line.line_class in _LOUD or evidence.trouble is not None:
        return True
    if evidence.failure is not None and evidence.failure.reading:
        return True
    return evidence.log_alone and (_is_half_seen(evidence) or _is_launch(line))


def is_another_run(evidence: Evidence, line: LogLine) -> bool:
    """Does a run begin here, and end the one before? A log that is appended to holds several."""
    return _begins(evidence, line) and _is_under_way(evidence)


def _is_under_way(evidence: Evidence) -> bool:
    fell = evidence.failure is not None or is_last_words(evidence.trouble)
    return evidence.has_arguments or evidence.has_started or fell


def is_last_words(trouble: Incident | None) -> bool:
    """Is it a bare traceback after which nothing came? That is how a Python process ends."""
    return trouble is not None and trouble.reading and trouble.head.text.startswith("Traceback ")


def _begins(evidence: Evidence, line: LogLine) -> bool:
    if line.line_class == "config":
        return _message(line).startswith("server_args=") or _ROUTER_BEGINS in line.text
    return evidence.log_alone and _is_launch(line)


def _is_launch(line: LogLine) -> bool:
    return line.line_class in ("plain", "benign") and (_LAUNCHER in line.text or line.text.startswith(_USAGE))


def _begun(evidence: Evidence, line: LogLine, at: float | None) -> Evidence:
    tells_arguments = line.line_class == "config"
    goes_on = not _is_under_way(evidence)
    if goes_on and not tells_arguments:
        return msgspec.structs.replace(evidence, log_reaches_start=True)
    return Evidence(
        role=_role(line) or evidence.role,
        log_alone=evidence.log_alone,
        kernel_state=evidence.kernel_state,
        health=evidence.health,
        health_note=evidence.health_note,
        log_reaches_start=True,
        heard_at=evidence.heard_at,
        begun_at=evidence.begun_at if goes_on and evidence.begun_at else at,
        has_arguments=tells_arguments,
        phase_at=at,
        workers_wanted=len(_WORKER_URL.findall(line.text)) or None,
    )


def _role(line: LogLine) -> Role | None:
    if _ROUTER_BEGINS in line.text:
        return "router"
    found = _MODE.search(line.text)
    if found is None:
        return None
    return "prefill" if found[1] == "prefill" else "decode" if found[1] == "decode" else "single"


def _is_half_seen(evidence: Evidence) -> bool:
    """A saved log that begins in the middle, and has not shown yet in the middle of what."""
    seen = evidence.log_reaches_start or evidence.has_started or evidence.phase_at is not None
    return evidence.log_alone and not seen


def _seen_at_work(evidence: Evidence, line: LogLine, at: float | None) -> Evidence:
    """A log that begins in the middle: was the server starting there, or serving?"""
    if not _is_half_seen(evidence):
        return evidence
    if line.line_class == "benign" and (found := startup.step(_message(line))):
        return _with_progress(evidence, *found, at)
    worked = line.line_class == "stats" or _status(line) in ("2", "5") or _only_serving_says(line)
    return msgspec.structs.replace(evidence, served=True) if worked else evidence


def _only_serving_says(line: LogLine) -> bool:
    cause = cause_of(line.text) if line.line_class == "error" else None
    return cause is not None and cause.kind in ("trouble", "client")


def _status(line: LogLine) -> str | None:
    """The first digit of the status with which a request for tokens was answered."""
    answered = _REQUEST.search(line.text) if "POST" in line.text else None
    return None if answered is None else answered["status"] or answered["code"]


def _after_failure(evidence: Evidence, failure: Incident, line: LogLine) -> Evidence:
    """What comes after the first cause is part of it or follows from it."""
    if any(mark in line.text for mark in _STOP_ORDERED) and line.line_class == "warning":
        return _after_stop(evidence, line, None)
    grown = incident.followed(failure, line)
    return evidence if grown is failure else msgspec.structs.replace(evidence, failure=grown)


def _after_trouble(evidence: Evidence, trouble: Incident, line: LogLine) -> Evidence:
    if _resolves(trouble, line):
        return msgspec.structs.replace(evidence, trouble=None, failing=0)
    if line.line_class in ("error", "fatal") or not trouble.reading:
        return evidence
    return _with_trouble(evidence, incident.followed(trouble, line))


def _with_trouble(evidence: Evidence, trouble: Incident) -> Evidence:
    unchanged = trouble is evidence.trouble
    return evidence if unchanged else msgspec.structs.replace(evidence, trouble=trouble)


def _resolves(trouble: Incident, line: LogLine) -> bool:
    """Does the line show that requests are served again?"""
    cause = trouble.cause
    if cause is not None and cause.id == "health-failed" and _HEALTHY.search(line.text):
        return True
    if line.line_class == "stats":
        return "Decode batch" in line.text
    return _status(line) == "2"


def _after_alarm(evidence: Evidence, line: LogLine, at: float | None) -> Evidence:
    if evidence.stop_ordered:
        return evidence
    evidence = _seen_at_work(evidence, line, at)
    if _status(line) == "5":
        evidence = msgspec.structs.replace(evidence, failing=evidence.failing + 1)
    ends = line.line_class == "fatal" or _ENDS.match(line.text) is not None
    trouble = evidence.trouble
    if trouble is not None and (not ends or (trouble.reading and prefix_of(line.text).stamp is None)):
        grown = incident.followed(trouble, line)
        if not ends:
            return _with_trouble(evidence, grown)
        return msgspec.structs.replace(evidence, failure=grown, trouble=None)
    news = incident.begun(line, at, None if evidence.has_started else evidence.phase)
    if ends:
        return msgspec.structs.replace(evidence, failure=news)
    return msgspec.structs.replace(evidence, trouble=news)


def _after_ready(evidence: Evidence, line: LogLine, at: float | None) -> Evidence:
    activated = _ACTIVATED.search(line.text)
    if activated is not None:
        workers = evidence.workers + int(activated[1])
        evidence = msgspec.structs.replace(evidence, role="router", workers=workers, phase="warming up")
        if workers < (evidence.workers_wanted or 1):
            return evidence
        evidence = msgspec.structs.replace(evidence, trouble=None, failing=0)
    if evidence.ready_line:
        return evidence
    return msgspec.structs.replace(evidence, ready_line=True, ready_at=at, ready_number=line.number)


def _after_news(evidence: Evidence, line: LogLine, at: float | None) -> Evidence:
    """A warning or a step: an order to stop, or how far the start has come."""
    message = _message(line)
    if line.line_class != "config" and any(mark in message for mark in _STOP_ORDERED):
        return _after_stop(evidence, line, at)
    if found := _DRAINING.match(message):
        return msgspec.structs.replace(evidence, draining=int(found[1]))
    if evidence.has_started or line.line_class != "progress":
        return evidence
    if moved := startup.bar(line.text):
        return _with_progress(evidence, *moved, at)
    moved = startup.step(message)
    if moved is None or _lags(evidence, line, moved[0]):
        return evidence
    return _with_progress(evidence, *moved, at)


def _lags(evidence: Evidence, line: LogLine, phase: Phase) -> bool:
    """Ranks take the same steps at different times: the first one to enter a phase tells, then rank 0."""
    leads = not any(rank_numbers(prefix_of(line.text).ranks).values())
    return not leads and PHASES.index(phase) <= PHASES.index(evidence.phase) and evidence.phase_at is not None


def _with_progress(evidence: Evidence, phase: Phase, progress: Progress, at: float | None) -> Evidence:
    enters = phase != evidence.phase or evidence.phase_at is None
    if not progress.doing and not enters:
        progress = msgspec.structs.replace(progress, doing=evidence.progress.doing)
    phase_at = at if enters else evidence.phase_at
    return msgspec.structs.replace(evidence, phase=phase, phase_at=phase_at, progress=progress)


def _after_stop(evidence: Evidence, line: LogLine, at: float | None) -> Evidence:
    failure = evidence.failure
    # On a CPU the scheduler's end is reported as a crash just before the order that caused it.
    if failure is not None and _STOPPED_CHILD in failure.head.text:
        failure = None
    return msgspec.structs.replace(
        evidence, failure=failure, trouble=None, stop_ordered=True, stop_at=evidence.stop_at or at
    )


def _message(line: LogLine) -> str:
    return line.text[prefix_of(line.text).end :]
