"""The state of one server: evidence in, a conclusion out.

Ready is a conclusion, never a line: the process lives, no fatal line stands after the start of its run, the
ready line was seen (or the log cannot show it), and the health endpoint is green. Each can take it away
again.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from console.domain.logline import LogLine

RunState = Literal["starting", "ready", "failed", "gone"]
Health = Literal["unknown", "green", "red", "refused", "silent"]

RUN_BEGINS = ("server_args=", "Starting router on")
"""A log that is appended to holds earlier runs: the last of these is where the present one begins."""
STOP_ORDERED = ("SIGTERM received", "Received terminate signal", "Received Ctrl+C")
WARMUP_FAILED = "Disaggregation warmup failed"
RED_LIMIT = 2
"""One slow answer under load is no death; two in a row are."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one run."""

    alive: bool = True
    kernel_state: str = "S"
    log_reaches_start: bool = False
    """False while the log's beginning was not read, or there is no log: then no ready line can be asked
    for."""
    ready_line: bool = False
    fatal: str | None = None
    stop_ordered: bool = False
    last_line: str | None = None
    health: Health = "unknown"
    health_note: str | None = None
    reds: int = 0
    was_ready: bool = False


def after_line(evidence: Evidence, line: LogLine) -> Evidence:
    """The evidence with one more log line of this run."""
    evidence = msgspec.structs.replace(evidence, last_line=line.text)
    if any(mark in line.text for mark in RUN_BEGINS) and line.line_class in ("config", "plain"):
        return Evidence(
            kernel_state=evidence.kernel_state,
            log_reaches_start=True,
            health=evidence.health,
            health_note=evidence.health_note,
        )
    if line.line_class == "ready":
        return msgspec.structs.replace(evidence, ready_line=True)
    if any(mark in line.text for mark in STOP_ORDERED):
        return msgspec.structs.replace(evidence, stop_ordered=True)
    if _is_first_fatal(evidence, line):
        return msgspec.structs.replace(evidence, fatal=line.text)
    return evidence


def _is_first_fatal(evidence: Evidence, line: LogLine) -> bool:
    if evidence.fatal is not None or evidence.stop_ordered:
        return False
    return line.line_class == "fatal" or WARMUP_FAILED in line.text


def after_health(evidence: Evidence, health: Health, note: str | None = None) -> Evidence:
    """The evidence with one more answer of the health (for routers: readiness) endpoint."""
    evidence = msgspec.structs.replace(
        evidence,
        health=health,
        health_note=note,
        reds=0 if health == "green" else evidence.reds + (health != "unknown"),
    )
    return msgspec.structs.replace(evidence, was_ready=evidence.was_ready or conclude(evidence)[0] == "ready")


def after_look(evidence: Evidence, *, alive: bool, kernel_state: str = "S") -> Evidence:
    """The evidence after another look at the process table."""
    return msgspec.structs.replace(evidence, alive=alive and kernel_state != "Z", kernel_state=kernel_state)


def conclude(evidence: Evidence) -> tuple[RunState, str | None]:
    """The state, and the reason in one sentence where there is one to give."""
    if not evidence.alive:
        return _ending(evidence)
    if evidence.fatal is not None:
        return "failed", evidence.fatal
    if evidence.kernel_state == "T":
        return "failed", "the process is stopped by a signal (SIGSTOP); SIGCONT lets it go on"
    if evidence.health == "green":
        if evidence.ready_line or not evidence.log_reaches_start:
            return "ready", None
        return "starting", "the port answers, the ready line has not come"
    if evidence.was_ready and evidence.reds < RED_LIMIT:
        return "ready", evidence.health_note
    if evidence.was_ready:
        return "failed", evidence.health_note or "the health check fails"
    return "starting", evidence.health_note


def _ending(evidence: Evidence) -> tuple[RunState, str]:
    if evidence.fatal is not None:
        return "failed", evidence.fatal
    if evidence.stop_ordered:
        return "gone", "stopped in order"
    if evidence.last_line is not None:
        return "failed", "ended without an error message: killed from outside, or lost"
    return "gone", "the process has ended"
