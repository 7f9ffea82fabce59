"""The state of one server: a conclusion from the evidence of its run.

    launching → loading → capturing graphs → warming up → ready → stopping → gone
         └─────────┴────────────┴────────────────┴→ failed  ├→ degraded → ready
                                                            └→ crashed
    stalled: nothing moves for longer than the phase allows, or a signal holds the process

Ready is a conclusion, never a line: the process lives, no failure stands after the start of its run, the
ready line was seen (or the log cannot show it), and the health endpoint is green. Each can take it away.
"""

from __future__ import annotations

from typing import NamedTuple

from console.domain.evidence import Evidence, Health, after_health, after_look, after_output, after_work
from console.domain.incident import Incident
from console.domain.logevidence import after_line, after_revision, is_last_words, matters
from console.domain.run_state import RunState
from console.domain.startup import STALL_LIMIT_S

__all__ = [
    "Conclusion",
    "Evidence",
    "Health",
    "RunState",
    "after_health",
    "after_line",
    "after_look",
    "after_output",
    "after_revision",
    "after_work",
    "conclude",
    "matters",
]

RED_LIMIT = 2
"""One slow answer under load is no death; two in a row are."""
FAILING_LIMIT = 3
"""So many requests in a row that end in a server error are a state, not an accident."""
STUCK_S = 45.0
"""Accepted work of which nothing moves for longer is stuck. SGLang's gauges may be 30 s old."""
SIGKILL = (137, -9)
WORDLESS = "its log ends without an error message"
"""What is said of a process that is gone until its log, which comes later, says why."""


class Conclusion(NamedTuple):
    """A state, the reason in one sentence where there is one to give, and since when (log clock)."""

    state: RunState
    reason: str | None = None
    since: float | None = None


def conclude(evidence: Evidence, now: float | None = None) -> Conclusion:
    """The state at `now`; without a clock nothing is called stalled."""
    failure = evidence.failure or _last_words(evidence)
    if failure is not None:
        return _failed(evidence, failure)
    if not evidence.alive:
        return _ended(evidence)
    if evidence.stop_ordered:
        return _stopping(evidence)
    if evidence.kernel_state == "T":
        return Conclusion("stalled", "the process is stopped by a signal (SIGSTOP); SIGCONT lets it go on")
    if evidence.is_serving:
        return _serving(evidence, now)
    if evidence.was_ready:
        return _unwell(evidence, now)
    return _starting(evidence, now)


def _last_words(evidence: Evidence) -> Incident | None:
    may_have_ended = evidence.log_alone or not evidence.alive
    return evidence.trouble if may_have_ended and is_last_words(evidence.trouble) else None


def _failed(evidence: Evidence, failure: Incident) -> Conclusion:
    if not evidence.has_started:
        return Conclusion("failed", failure.sentence, failure.at)
    if failure.at is None or evidence.ready_at is None:
        return Conclusion("crashed", failure.sentence, failure.at)
    lived = duration(failure.at - evidence.ready_at)
    return Conclusion("crashed", f"was ready for {lived}, then {failure.sentence}", failure.at)


def _ended(evidence: Evidence) -> Conclusion:
    if evidence.stop_ordered:
        return Conclusion("gone", "stopped in order", evidence.stop_at)
    if evidence.exit_code == 0:
        return Conclusion("gone", "ended by itself, exit code 0")
    if evidence.exit_code is None and evidence.heard_at is None and not evidence.log_alone:
        return Conclusion("gone", "the process has ended")
    state: RunState = "crashed" if evidence.has_started else "failed"
    where = "while it was ready" if evidence.has_started else f"while {doing(evidence)}"
    return Conclusion(state, f"{_end(evidence.exit_code)}: {WORDLESS}, {where}")


def _end(exit_code: int | None) -> str:
    if exit_code is None:
        return "killed from outside, or lost"
    if exit_code in SIGKILL:
        return "killed from outside (signal 9)"
    return f"ended with exit code {exit_code}"


def _stopping(evidence: Evidence) -> Conclusion:
    if evidence.log_alone and evidence.draining == 0:
        return Conclusion("gone", "stopped in order", evidence.stop_at)
    left = "" if evidence.draining is None else f", {evidence.draining} requests left"
    return Conclusion("stopping", f"told to stop{left}", evidence.stop_at)


def _serving(evidence: Evidence, now: float | None) -> Conclusion:
    trouble = evidence.trouble
    known = trouble is not None and trouble.cause is not None and trouble.cause.kind == "trouble"
    if trouble is not None and (evidence.failing >= FAILING_LIMIT or known):
        requests = f"{evidence.failing} requests in a row failed: " if evidence.failing > 1 else ""
        return Conclusion("degraded", requests + trouble.sentence, trouble.at)
    if now is not None and evidence.moved_at is not None and now - evidence.moved_at > STUCK_S:
        for_s = duration(now - evidence.moved_at)
        return Conclusion(
            "stalled", f"no token for {for_s}, with {evidence.pending} requests at hand", evidence.moved_at
        )
    return Conclusion("ready", None, evidence.ready_at)


def _unwell(evidence: Evidence, now: float | None) -> Conclusion:
    if evidence.reds < RED_LIMIT:
        otherwise = _serving(evidence, now)
        return otherwise if otherwise.reason else otherwise._replace(reason=evidence.health_note)
    return Conclusion("failed", evidence.health_note or "the health check fails")


def _starting(evidence: Evidence, now: float | None) -> Conclusion:
    silence = None if now is None or evidence.heard_at is None else now - evidence.heard_at
    if silence is not None and silence > STALL_LIMIT_S[evidence.phase]:
        reason = f"no word for {duration(silence)} while {doing(evidence)}"
        return Conclusion("stalled", reason, evidence.heard_at)
    if evidence.ready_line:
        note = evidence.health_note or "the ready line has come, not yet a green health check"
        return Conclusion("warming up", note)
    if evidence.health == "green":
        return Conclusion(evidence.phase, f"{doing(evidence)}; the port answers, the ready line has not come")
    if evidence.log_alone and evidence.phase_at is None and not evidence.log_reaches_start:
        return Conclusion("unknown", "nothing here tells of a server's start or of its work")
    return Conclusion(evidence.phase, doing(evidence), evidence.phase_at)


def doing(evidence: Evidence) -> str:
    """The phase and how far it has come: `loading 23/46 shards 62 s`."""
    if evidence.workers_wanted and evidence.role == "router":
        return f"{evidence.phase} {evidence.workers}/{evidence.workers_wanted} workers"
    return f"{evidence.phase} {evidence.progress}".rstrip()


def duration(seconds: float) -> str:
    """`69 s`, `12 min 5 s`, `3 h 20 min`."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
