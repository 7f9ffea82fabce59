"""Every server known on the host: what was found in /proc, what its log and its endpoints say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from console.domain import readiness
from console.domain.logline import LogLine, line_time
from console.domain.metrics import Rates
from console.domain.observation import ServerKey
from console.domain.readiness import Evidence, Health
from console.domain.server import ServerProcess
from console.domain.server_view import ServerView
from console.services.logs import FIRST_LINES, LogFollower

ROLE_ORDER = ("single", "prefill", "decode", "router")
CLOCK_SLACK_S = 2.0
"""Log lines have whole seconds, process starts have hundredths."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What the endpoints of one server said last."""

    running: int | None = None
    queued: int | None = None
    kv_pct: float | None = None
    rates: Rates = Rates()
    metrics_note: str | None = None
    workers: str | None = None
    version: str | None = None
    port: int | None = None
    """The HTTP port found by asking, for a router whose command line is gone."""


class Run:
    """One server process from the first sight of it until another takes its place."""

    def __init__(self, process: ServerProcess, utc_offset_s: float, log_lines: int = FIRST_LINES) -> None:
        self.process = process
        self.evidence = Evidence(kernel_state=process.state)
        self.figures = Figures()
        self.log = LogFollower(process.key, process.log, log_lines)
        self.batch_lines: dict[str, tuple[str, float]] = {}
        """The last `Decode` and `Prefill` batch line, and when it was read (monotonic seconds)."""
        self._begun_at = process.start_time + utc_offset_s - CLOCK_SLACK_S
        self._past = False

    @property
    def port(self) -> int | None:
        """The HTTP port, from the command line or found by asking."""
        return self.process.port or self.figures.port

    def read(self, lines: Iterable[LogLine], at: float) -> None:
        """Take log lines as evidence, read at `at` (monotonic); lines of an earlier run in the file are
        not."""
        for line in lines:
            if line.line_class == "stats":
                self.batch_lines["Decode" if "Decode batch" in line.text else "Prefill"] = (line.text, at)
                continue
            stamp = line_time(line.text)
            if stamp is not None:
                self._past = stamp < self._begun_at
            if not self._past:
                self.evidence = readiness.after_line(self.evidence, line)

    def opened_at_start(self) -> None:
        """The log was read from its first byte, so a missing ready line means something."""
        self.evidence = msgspec.structs.replace(self.evidence, log_reaches_start=True)

    def told(self, health: Health, note: str | None) -> None:
        """Take an answer of the health endpoint as evidence."""
        self.evidence = readiness.after_health(self.evidence, health, note)

    def view(self) -> ServerView:
        """The run as a value for the screen."""
        state, reason = readiness.conclude(self.evidence)
        figures = self.figures if state in ("ready", "starting") else Figures()
        process = msgspec.structs.replace(
            self.process, port=self.port, version=self.figures.version or self.process.version
        )
        return ServerView(
            process=process,
            state=state,
            reason=reason,
            running=figures.running,
            queued=figures.queued,
            kv_pct=figures.kv_pct,
            gen_tok_s=figures.rates.gen_tok_s,
            prompt_tok_s=figures.rates.prompt_tok_s,
            metrics_note=figures.metrics_note,
            health_note=self.evidence.health_note,
            workers=figures.workers,
            log_note=self.log.note,
        )


class Runs:
    """All runs by identity, in the order of the screen."""

    def __init__(self, log_lines: int = FIRST_LINES) -> None:
        self._log_lines = log_lines
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
            server = present.get(key)
            if server is not None:
                run.process = server
            run.evidence = readiness.after_look(
                run.evidence, alive=server is not None, kernel_state=server.state if server else "S"
            )
        new = [
            Run(server, utc_offset_s, self._log_lines)
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
        """All of them as values."""
        return tuple(run.view() for run in self._runs.values())


def _takes_place_of(old: Run, new: Run) -> bool:
    """A new server of the same role and port stands where a dead one stood."""
    same_port = new.port is None or old.port is None or old.port == new.port
    return not old.evidence.alive and old.process.role == new.process.role and same_port


def _place(run: Run) -> tuple[int, int, int]:
    return (ROLE_ORDER.index(run.process.role), run.port or 0, run.process.pid)
