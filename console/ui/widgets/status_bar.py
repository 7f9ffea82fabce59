"""One line about the host: where it is, how the connection stands, how the machine does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from textual.reactive import reactive

from console.domain.gpu import HostSample
from console.domain.host_view import HostView

from .line_view import LineView
from .lines import Line, Span, joined, spread, width_of
from .meter import NA, Glyphs, duration, gib

SKEW_WORTH_SAYING_S = 1.0


class StatusBar(LineView, can_focus=False):
    """Shows a host; what matters least goes first where it is narrow."""

    DEFAULT_CSS = """
    StatusBar { height: 1; overflow: hidden hidden; }
    """

    interval_s: reactive[float] = reactive(1.0)
    """Seconds between samples: the age of what is shown is said after two missed ones."""

    _view: HostView | None = None

    def update_host(self, view: HostView) -> None:
        """Show the host as it is now."""
        self._view = view
        self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        return [] if self._view is None else [status_line(self._view, self.interval_s, width, self.glyphs)]


class Part(NamedTuple):
    """A piece of the bar; the highest `rank` is dropped first, 0 never."""

    rank: int
    line: Line
    right: bool = False


def status_line(view: HostView, interval_s: float, width: int, glyphs: Glyphs) -> Line:
    """The most important parts that fit, the machine's at the right end."""
    parts = [part for part in _parts(view, interval_s, glyphs) if part.line]
    for rank in range(max(part.rank for part in parts), 0, -1):
        if _width(parts) <= width:
            break
        parts = [part for part in parts if part.rank != rank]
    left = joined(part.line for part in parts if not part.right)
    right = joined(part.line for part in parts if part.right)
    return spread((Span(" "), *left), (*right, Span(" ")), width, glyphs)


def _width(parts: Sequence[Part]) -> int:
    return sum(width_of(part.line) + 2 for part in parts) + 2


def _parts(view: HostView, interval_s: float, glyphs: Glyphs) -> list[Part]:
    address = view.address if view.address != view.name else None
    old = view.age_s is not None and view.age_s > 2 * interval_s
    skewed = view.skew_s is not None and abs(view.skew_s) >= SKEW_WORTH_SAYING_S
    return [
        Part(0, (Span(glyphs.safe(view.name), "strong"),)),
        Part(8, _said(address, "muted", glyphs)),
        Part(0, (Span(" DEMO ", "badge-demo"),) if view.demo else ()),
        Part(0, (Span(" READ-ONLY ", "badge-readonly"),) if view.readonly else ()),
        Part(3, (Span(" PROTECTED ", "badge-protected"),) if view.protected else ()),
        Part(0, _connection(view, glyphs)),
        Part(7, _said(view.detail if view.connection in ("lost", "failed") else None, "muted", glyphs)),
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
    zone = UTC if utc_offset_s is None else timezone(timedelta(seconds=utc_offset_s))
    clock = datetime.fromtimestamp(host.time, zone)
    return [
        Part(5, (Span("load ", "muted"), Span(f"{load:>5}{cpus}")), right=True),
        Part(4, (Span("mem ", "muted"), Span(_memory(host))), right=True),
        Part(6, (Span(f"{clock:%H:%M:%S}"), Span(f" {clock:%Z}", "muted")), right=True),
    ]


def _memory(host: HostSample) -> str:
    total = gib(host.mem_total_mib)
    if host.mem_total_mib is None or host.mem_available_mib is None:
        return f"{NA}/{total} G"
    return f"{gib(host.mem_total_mib - host.mem_available_mib).rjust(len(total))}/{total} G"
