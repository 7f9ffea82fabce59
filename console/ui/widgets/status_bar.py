"""One line: the host, how the connection stands, what is deployed there, how the machine does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

from textual.reactive import reactive

from console.domain.deployment import (
    NO_DEPLOYMENT,
    NO_RECORDS,
    Deployment,
    DeploymentState,
    plan_under_way,
    told,
)
from console.domain.gpu import HostSample
from console.domain.host_view import HostView
from console.domain.run_record import HostRecords

from .line_view import LineView
from .lines import Line, Span, joined, spread, width_of
from .meter import NA, Glyphs, duration, gib

SKEW_WORTH_SAYING_S = 1.0

TONES: Mapping[DeploymentState, str] = {
    "starting": "state-starting",
    "roles up": "state-starting",
    "ready": "state-ready",
    "degraded": "state-starting",
    "broken": "state-failed",
    "stopping": "state-gone",
    "failed": "state-failed",
}
PROVABLE = ("roles up", "ready", "degraded")
"""In other states nobody asks whether it was proven or verified."""


class StatusBar(LineView, can_focus=False):
    """Shows a host; what matters least goes first where it is narrow."""

    DEFAULT_CSS = """
    StatusBar { height: 1; overflow: hidden hidden; }
    """

    interval_s: reactive[float] = reactive(1.0)
    """Seconds between samples: the age of what is shown is said after two missed ones."""

    _view: HostView | None = None
    _deployment: Deployment = NO_DEPLOYMENT
    _records: HostRecords = NO_RECORDS

    def update_host(self, view: HostView) -> None:
        """Show the host as it is now."""
        self._view = view
        self.redraw()

    def update_deployment(self, deployment: Deployment, records: HostRecords) -> None:
        """Show the deployment, and what a console does to it."""
        self._deployment, self._records = deployment, records
        self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        if self._view is None:
            return []
        deployed = deployment_parts(self._deployment, self._records, self._view, self.glyphs)
        return [status_line(self._view, self.interval_s, width, self.glyphs, deployed)]


class Part(NamedTuple):
    """A piece of the bar; the highest `rank` is dropped first, 0 never."""

    rank: int
    line: Line
    right: bool = False
    gap: str = "  "
    """What stands between it and the part before it."""


def status_line(
    view: HostView, interval_s: float, width: int, glyphs: Glyphs, deployed: Sequence[Part] = ()
) -> Line:
    """The most important parts that fit, the machine's at the right end."""
    parts = [part for part in (*_parts(view, interval_s, glyphs), *deployed) if part.line]
    for rank in range(max(part.rank for part in parts), 0, -1):
        if _width(parts) <= width:
            break
        parts = [part for part in parts if part.rank != rank]
    left = _row([part for part in parts if not part.right])
    right = _row([part for part in parts if part.right])
    return spread((Span(" "), *left), (*right, Span(" ")), width, glyphs)


def _row(parts: Sequence[Part]) -> Line:
    spans = [span for part in parts for span in (Span(part.gap), *part.line)]
    return tuple(spans[1:])


def deployment_parts(
    deployment: Deployment, records: HostRecords, view: HostView, glyphs: Glyphs
) -> list[Part]:
    """`pd-nvfp4 · READY 2h14m`, `· proven 3m ago · verified`, and what plan is under way."""
    now = None if view.host is None else view.host.time
    plan = _plan(records, view.utc_offset_s, glyphs)
    return [
        Part(1 if plan else 0, _deployed(deployment, now, glyphs)),
        Part(6, _proven(deployment, now, glyphs), gap=f" {glyphs.dot} "),
        Part(0, plan),
    ]


def _deployed(deployment: Deployment, now: float | None, glyphs: Glyphs) -> Line:
    if deployment.state == "none":
        return ()
    age = None if now is None or deployment.since is None else max(0.0, now - deployment.since)
    for_so_long = "" if age is None else f" {duration(age)}"
    state = Span(f"{deployment.state.upper()}{for_so_long}", TONES[deployment.state])
    if deployment.profile is None:
        return (state,)
    return (Span(glyphs.safe(deployment.profile), "strong"), Span(f" {glyphs.dot} "), state)


def _proven(deployment: Deployment, now: float | None, glyphs: Glyphs) -> Line:
    if deployment.state not in PROVABLE or deployment.profile is None:
        return ()
    proven = (Span("not proven", "warning"),) if deployment.state == "roles up" else ()
    if deployment.proven_at is not None and now is not None:
        proven = (Span(f"proven {duration(max(0.0, now - deployment.proven_at))} ago"),)
    verified = {
        None: (),
        True: (Span("verified"),),
        False: (Span("not verified", "warning"),),
    }[deployment.verified]
    return joined([proven, verified], f" {glyphs.dot} ")


def _plan(records: HostRecords, utc_offset_s: float | None, glyphs: Glyphs) -> Line:
    """`ops@laptop: switch to pd-ll, step 5/12, since 16:20`, or where its console has died `interrupted`."""
    plan = records.plan
    if plan is None or plan.state != "running":
        return ()
    where = f"{told(plan)}, step {plan.step + 1}/{len(plan.steps)}"
    if plan_under_way(records) is None:
        return (Span(glyphs.safe(f"{where}, interrupted"), "warning"),)
    begun = datetime.fromtimestamp(plan.begun_at, _zone(utc_offset_s))
    return (Span(glyphs.safe(f"{where}, since {begun:%H:%M}"), "state-starting"),)


def _width(parts: Sequence[Part]) -> int:
    return sum(width_of(part.line) + len(part.gap) for part in parts) + 2


def _parts(view: HostView, interval_s: float, glyphs: Glyphs) -> list[Part]:
    address = view.address if view.address != view.name else None
    old = view.age_s is not None and view.age_s > 2 * interval_s
    skewed = view.skew_s is not None and abs(view.skew_s) >= SKEW_WORTH_SAYING_S
    return [
        Part(0, (Span(glyphs.safe(view.name), "strong"),)),
        Part(9, _said(address, "muted", glyphs)),
        Part(0, (Span(" DEMO ", "badge-demo"),) if view.demo else ()),
        Part(0, (Span(" READ-ONLY ", "badge-readonly"),) if view.readonly else ()),
        Part(3, (Span(" PROTECTED ", "badge-protected"),) if view.protected else ()),
        Part(0, _connection(view, glyphs)),
        Part(8, _said(view.detail if view.connection in ("lost", "failed") else None, "muted", glyphs)),
        Part(1, (Span(f"shown: {duration(view.age_s)} old", "notice"),) if old else (), right=True),
        Part(2, (Span(f"clock {view.skew_s:+.1f} s", "warning"),) if skewed else (), right=True),
        *_machine(view.host, view.utc_offset_s),
    ]


def _said(text: str | None, tone: str, glyphs: Glyphs) -> Line:
    return (Span(glyphs.safe(text), tone),) if text else ()


def _connection(view: HostView, glyphs: Glyphs) -> Line:
    if view.connection == "connecting":
        return (Span(f"{glyphs.starting} connecting{glyphs.ellipsis}", "state-starting"),)
    if view.connection == "up":
        carrier = glyphs.safe(view.detail or "connected")
        rtt = "" if view.rtt_ms is None else f" {view.rtt_ms:.0f} ms"
        return (Span(f"{glyphs.ready} ", "state-ready"), Span(f"{carrier}{rtt}"))
    what = "connection lost" if view.connection == "lost" else "cannot connect"
    if view.connection == "lost" and view.since_s is not None:
        what += f" {duration(view.since_s)} ago"
    if view.retry_in_s is not None:
        what += f", retrying in {duration(view.retry_in_s)}"
    return (Span(f"{glyphs.failed} {what}", "state-failed"),)


def _machine(host: HostSample | None, utc_offset_s: float | None) -> list[Part]:
    if host is None:
        return []
    load = NA if host.load1 is None else f"{host.load1:.1f}"
    cpus = "" if host.cpus is None else f"/{host.cpus}"
    clock = datetime.fromtimestamp(host.time, _zone(utc_offset_s))
    return [
        Part(5, (Span("load ", "muted"), Span(f"{load:>5}{cpus}")), right=True),
        Part(4, (Span("mem ", "muted"), Span(_memory(host))), right=True),
        Part(7, (Span(f"{clock:%H:%M:%S}"), Span(f" {clock:%Z}", "muted")), right=True),
    ]


def _zone(utc_offset_s: float | None) -> tzinfo:
    return UTC if utc_offset_s is None else timezone(timedelta(seconds=utc_offset_s))


def _memory(host: HostSample) -> str:
    total = gib(host.mem_total_mib)
    if host.mem_total_mib is None or host.mem_available_mib is None:
        return f"{NA}/{total} G"
    return f"{gib(host.mem_total_mib - host.mem_available_mib).rjust(len(total))}/{total} G"
