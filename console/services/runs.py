"""Every server known on the host: what was found in /proc, what its log and its endpoints say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from console.domain import readiness
from console.domain.causes import HEALTH_FAILED, KILLED, next_step
from console.domain.logclass import LinePattern
from console.domain.logline import LogLine, line_time
from console.domain.metrics import Rates
from console.domain.observation import ServerKey
from console.domain.readiness import Conclusion, Evidence, Health
from console.domain.server import ServerProcess
from console.domain.server_view import SHOWN_AS, ServerState, ServerView
from console.services.logs import FIRST_LINES, LogFollower

ROLE_ORDER = ("single", "prefill", "decode", "router")
CLOCK_SLACK_S = 2.0
"""Log lines have whole seconds, process starts have hundredths."""
FIRST_WORD_S = 900.0
"""A log whose first date is later than that after the start was rotated: its first byte is no beginning."""

Clock = Callable[[], float]
"""Seconds since 1970 on the host's clock."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What the endpoints of one server said last."""

    running: int | None = None
    queued: int | None = None
    transferring: int | None = None
    """Requests of a pair between its roles: waiting for the handshake, for KV space or for KV."""
    kv_pct: float | None = None
    rates: Rates = Rates()
    metrics_note: str | None = None
    workers: str | None = None
    open_breakers: int | None = None
    """Of a router: workers whose circuit breaker is not closed."""
    version: str | None = None
    port: int | None = None
    """The HTTP port found by asking, for a router whose command line is gone."""


class Run:
    """One server process from the first sight of it until another takes its place."""

    def __init__(
        self,
        process: ServerProcess,
        utc_offset_s: float,
        log_lines: int = FIRST_LINES,
        clock: Clock = time.time,
        patterns: Sequence[LinePattern] = (),
    ) -> None:
        self.process = process
        self.evidence = Evidence(role=process.role, kernel_state=process.state)
        self.figures = Figures()
        self.log = LogFollower(process.key, process.log, log_lines, patterns)
        self.batch_lines: dict[str, tuple[str, float]] = {}
        """The last `Decode` and `Prefill` batch line, and when it was read (monotonic seconds)."""
        self._clock = clock
        self._utc_offset_s = utc_offset_s
        self._begun_at = process.start_time + utc_offset_s - CLOCK_SLACK_S
        self._past = False
        self._settled = False
        self._shown = Conclusion("launching")
        self._since = self._now()

    @property
    def port(self) -> int | None:
        """The HTTP port, from the command line or found by asking."""
        return self.process.port or self.figures.port

    def read(
        self,
        lines: Sequence[LogLine],
        at: float,
        live: LogLine | None = None,
        revised: Iterable[LogLine] = (),
    ) -> None:
        """Take log lines as evidence, read at `at` (monotonic); lines of an earlier run in the file are not.

        `live` is the line being written, which a progress bar is for most of its life.
        """
        now = self._now()
        for line in lines:
            if line.line_class == "stats":
                self.batch_lines["Decode" if "Decode batch" in line.text else "Prefill"] = (line.text, at)
            if not self._is_past(line) and readiness.matters(self.evidence, line):
                self.evidence = readiness.after_line(self.evidence, line, line_time(line.text) or now)
        for line in revised:
            self.evidence = readiness.after_revision(self.evidence, line, line_time(line.text) or now)
        if live is not None and live.line_class == "progress" and not self._past:
            self.evidence = readiness.after_line(self.evidence, live, now)
        if (lines or live) and not self._past:
            self.evidence = readiness.after_output(self.evidence, now)

    def _is_past(self, line: LogLine) -> bool:
        """Does the line belong to an earlier run? Once this run's own have come, a clock set back is no
        past."""
        if not self._settled:
            stamp = line_time(line.text)
            if stamp is not None:
                self._past = stamp < self._begun_at
                self._settled = not self._past
                if stamp > self._begun_at + FIRST_WORD_S and not self.evidence.has_arguments:
                    self.evidence = msgspec.structs.replace(self.evidence, log_reaches_start=False)
        return self._past

    def opened_at_start(self) -> None:
        """The log was read from its first byte, so a missing ready line means something."""
        self.evidence = msgspec.structs.replace(self.evidence, log_reaches_start=True)

    def told(self, health: Health, note: str | None) -> None:
        """Take an answer of the health endpoint as evidence."""
        if health == "green" and not self.evidence.was_ready and self._answers_elsewhere():
            health, note = "unknown", f"port {self.port} is answered, but not by this process"
        self.evidence = readiness.after_health(self.evidence, health, note)

    def _answers_elsewhere(self) -> bool:
        """A server that could not bind its port is easily taken for the one that holds it."""
        listening = self.process.listening
        return listening is not None and self.port not in listening

    def seen(self, process: ServerProcess | None) -> None:
        """Take a look at the process table as evidence: the process as it is now, or None."""
        if process is None:
            self.evidence = readiness.after_look(self.evidence, alive=False)
        else:
            self.process = process
            self.evidence = readiness.after_look(self.evidence, alive=True, kernel_state=process.state)

    def view(self) -> ServerView:
        """The run as a value for the screen."""
        self._take_figures()
        conclusion = self._conclusion()
        state = self._sign(conclusion)
        figures = self.figures if state in ("ready", "starting") else Figures()
        process = msgspec.structs.replace(
            self.process, port=self.port, version=self.figures.version or self.process.version
        )
        return ServerView(
            process=process,
            state=state,
            phase=conclusion.state,
            reason=conclusion.reason if self._was_asked() or state != "starting" else None,
            since=conclusion.since,
            next=self._next(conclusion),
            running=figures.running,
            queued=figures.queued,
            kv_pct=figures.kv_pct,
            gen_tok_s=figures.rates.gen_tok_s,
            prompt_tok_s=figures.rates.prompt_tok_s,
            metrics_note=figures.metrics_note,
            health_note=self.evidence.health_note,
            workers=figures.workers,
            open_breakers=figures.open_breakers,
            log_note=self.log.note,
        )

    def _was_asked(self) -> bool:
        """Before its port has answered or refused, a log that was written at any time says nothing of now."""
        return self.evidence.health != "unknown" or self.evidence.health_note is not None

    def _sign(self, conclusion: Conclusion) -> ServerState:
        if conclusion.state != "stalled":
            return SHOWN_AS[conclusion.state]
        if self.evidence.kernel_state == "T":
            return "failed"
        return "ready" if self.evidence.has_started else "starting"

    def _now(self) -> float:
        """On the clock of the log lines: the host's, in its own zone."""
        return self._clock() + self._utc_offset_s

    def _take_figures(self) -> None:
        if self.process.role == "router":
            # It makes no tokens by which its requests are seen to move; the servers behind it do.
            return
        figures = self.figures
        counts = (figures.running, figures.queued, figures.transferring)
        known = [count for count in counts if count is not None]
        moving = bool(figures.rates.gen_tok_s or figures.rates.prompt_tok_s)
        pending = sum(known) if known else None
        self.evidence = readiness.after_work(self.evidence, pending=pending, moving=moving, at=self._now())

    def _conclusion(self) -> Conclusion:
        """The state; since when it is so, the log tells better than the moment when we saw it."""
        now = self._now()
        conclusion = readiness.conclude(self.evidence, now)
        if conclusion.state != self._shown.state:
            self._since = now
        self._shown = conclusion
        return conclusion._replace(since=self._since if conclusion.since is None else conclusion.since)

    def _next(self, conclusion: Conclusion) -> str | None:
        if conclusion.state not in ("failed", "crashed", "degraded"):
            return None
        incident = self.evidence.failure or self.evidence.trouble
        lives = self.evidence.alive and self.evidence.failure is None
        unnamed = HEALTH_FAILED if lives else KILLED
        return next_step(unnamed if incident is None else incident.cause, self.process.role, lives=lives)


class Runs:
    """All runs by identity, in the order of the screen."""

    def __init__(
        self,
        log_lines: int = FIRST_LINES,
        patterns: Sequence[LinePattern] = (),
        clock: Clock = time.time,
    ) -> None:
        self._log_lines = log_lines
        self._patterns = patterns
        self._clock = clock
        self.skew_s = 0.0
        """How far the host's clock is ahead of ours."""
        self._runs: dict[ServerKey, Run] = {}
        self._boot_id: str | None = None

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs.values())

    def get(self, tail: str) -> Run | None:
        """The run whose log has this tail name."""
        return next((run for run in self._runs.values() if run.log.tail == tail), None)

    def alive(self) -> list[Run]:
        """Those whose process was there at the last look."""
        return [run for run in self._runs.values() if run.evidence.alive]

    def booted(self, boot_id: str | None) -> None:
        """Forget everything when the host was booted anew: pids mean something else now."""
        if self._boot_id not in (None, boot_id):
            self._runs.clear()
        self._boot_id = boot_id

    def found(self, servers: Sequence[ServerProcess], utc_offset_s: float) -> tuple[list[Run], list[Run]]:
        """Take a look at the process table; returns the runs that are new and those that were replaced."""
        present = {server.key: server for server in servers}
        for key, run in self._runs.items():
            run.seen(present.get(key))
        new = [
            Run(server, utc_offset_s, self._log_lines, self._host_time, self._patterns)
            for key, server in present.items()
            if key not in self._runs
        ]
        replaced = [run for run in self._runs.values() if any(_takes_place_of(run, other) for other in new)]
        for run in replaced:
            del self._runs[run.process.key]
        self._runs |= {run.process.key: run for run in new}
        self._runs = dict(sorted(self._runs.items(), key=lambda item: _place(item[1])))
        return new, replaced

    def views(self) -> tuple[ServerView, ...]:
        """All of them as values; where one role of a pair pulled the other down, the second says so."""
        views = tuple(run.view() for run in self._runs.values())
        return tuple(blamed(view, views) for view in views)

    def _host_time(self) -> float:
        return self._clock() + self.skew_s


def blamed(view: ServerView, views: Sequence[ServerView]) -> ServerView:
    """The view of a role that failed after its peer did, told as the consequence that it most likely is."""
    pair = ("prefill", "decode")
    if view.state != "failed" or view.process.role not in pair:
        return view
    first = min(
        (other for other in views if other.state == "failed" and other.process.role in pair),
        key=lambda other: other.since or 0.0,
    )
    if first.process.role == view.process.role or first.since is None:
        return view
    at = time.strftime("%H:%M:%S", time.gmtime(first.since))
    reason = f"since {first.process.role} ended at {at}: {view.reason}"
    return msgspec.structs.replace(view, reason=reason, next=first.next)


def _takes_place_of(old: Run, new: Run) -> bool:
    """A new server of the same role and port stands where a dead one stood."""
    same_port = new.port is None or old.port is None or old.port == new.port
    return not old.evidence.alive and old.process.role == new.process.role and same_port


def _place(run: Run) -> tuple[int, int, int]:
    return (ROLE_ORDER.index(run.process.role), run.port or 0, run.process.pid)
