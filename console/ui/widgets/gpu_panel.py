"""The GPUs of the host: one line a card, grouped by the server they work for where there is room."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from textual.geometry import Size
from textual.reactive import reactive

from console.domain.gpu import NO_GPUS, GpuReport, GpuSample
from console.domain.ownership import UNKNOWN, Owner

from .gpu_cells import Row, Scale, is_silent, role_tone, scale_of
from .gpu_columns import columns, fitted, row_line, title_line
from .line_view import LineView
from .lines import Line, Span, fit_line, joined, spread
from .meter import NA, UNICODE, Glyphs, duration, percent

HISTORY = 60
"""Samples that a sparkline remembers."""

STALLED_S = 10.0
"""Age from which the panel says that telemetry has stalled."""

HALF_WIDTH = 60
"""Narrowest table worth having two of, side by side."""

SERVING = ("single", "prefill", "decode", "router")


class GpuPanel(LineView):
    """Shows a report. Rows keep their places: a card that is lost or unreadable stays where it was."""

    PINNED = 1

    age_s: reactive[float] = reactive(0.0)
    """Seconds since the sample that carried the report arrived."""

    interval_s: reactive[float] = reactive(1.0)
    """Seconds between samples: after two missed ones the panel is grey."""

    def __init__(
        self, *, glyphs: Glyphs = UNICODE, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(glyphs=glyphs, id=id, classes=classes)
        self._report = NO_GPUS
        self._owners: dict[int, Owner] = {}
        self._scale = Scale(glyphs)
        self._sm: dict[int, deque[float | None]] = {}
        self._power: dict[int, deque[float | None]] = {}

    def update_report(self, report: GpuReport, owners: Mapping[int, Owner]) -> None:
        """Show a reading, and whom each GPU works for, by index.

        The same report may come again with other owners; it enters the history once.
        """
        news = report is not self._report
        scale = scale_of(report, self._scale.answered, self.glyphs)
        if scale.has_activity != self._scale.has_activity:
            # Its past is utilisation, which is another thing.
            self._sm.clear()
        self._report, self._scale = report, scale
        for gpu in report.gpus:
            if news:
                self._remember(gpu)
            # A card that fell silent names no process; it still belongs where it was.
            if not (is_silent(gpu) and gpu.index in self._owners):
                self._owners[gpu.index] = owners.get(gpu.index, UNKNOWN)
        self.redraw()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        """The table, and what there is to say about it."""
        if not self._report.gpus:
            return sentence(self._report, width, self.glyphs)
        table = gpu_table(self._rows(), self._scale, width, height)
        return with_notice(table, self._report, self.total_age_s, self.is_stale, width, height, self.glyphs)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """For `height: auto`: all cards in their groups, the titles, and one line of remark."""
        rows = self._rows()
        return len(rows) + header_room(grouped(rows)) + 2 if rows else 1

    @property
    def total_age_s(self) -> float:
        """Seconds since the driver was read."""
        return self._report.age_s + self.age_s

    @property
    def is_stale(self) -> bool:
        return self.greyed or self.total_age_s > 2 * self.interval_s

    def watch_age_s(self) -> None:
        self.redraw()

    def _remember(self, gpu: GpuSample) -> None:
        """Extend the history of a card; an old reading is a gap, not the same value once more."""
        fresh = self._report.age_s <= 2 * self.interval_s
        past_sm = self._sm.setdefault(gpu.index, deque(maxlen=HISTORY))
        past_sm.append(self._scale.sm_pct(gpu) if fresh else None)
        past_power = self._power.setdefault(gpu.index, deque(maxlen=HISTORY))
        past_power.append(gpu.power_w if fresh else None)

    def _rows(self) -> list[Row]:
        return [
            Row(gpu, self._owners[gpu.index], tuple(self._sm[gpu.index]), tuple(self._power[gpu.index]))
            for gpu in self._report.gpus
        ]


def gpu_table(rows: Sequence[Row], scale: Scale, width: int, height: int) -> list[Line]:
    """The fullest table that fits: grouped, else flat, else flat in two halves, else flat and scrolled."""
    groups = grouped(rows)
    if height > len(rows) + header_room(groups):
        return _grouped_table(groups, scale, width)
    if height <= len(rows) and width >= 2 * HALF_WIDTH + 2:
        return _two_halves(rows, scale, width)
    return _flat_table(rows, scale, width)


def header_room(groups: Sequence[Sequence[Row]]) -> int:
    """Lines kept for the groups' headers: three at least, so that a freed card does not change the shape."""
    return max(3, len(groups))


def grouped(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows by the server they work for, in the order of each group's first card."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        owner = row.owner
        groups.setdefault((owner.role, owner.pid if owner.role in SERVING else None), []).append(row)
    return list(groups.values())


def _grouped_table(groups: Sequence[Sequence[Row]], scale: Scale, width: int) -> list[Line]:
    layout = fitted(columns(scale, with_role=False, width=width), width)
    lines = [title_line(layout, scale.glyphs)]
    for group in groups:
        lines.append(group_line(group, scale, width))
        lines += [row_line(row, scale, layout) for row in group]
    return lines


def _flat_table(rows: Sequence[Row], scale: Scale, width: int) -> list[Line]:
    layout = fitted(columns(scale, with_role=True, width=width), width)
    return [title_line(layout, scale.glyphs), *(row_line(row, scale, layout) for row in rows)]


def _two_halves(rows: Sequence[Row], scale: Scale, width: int) -> list[Line]:
    half, middle = (width - 2) // 2, (len(rows) + 1) // 2
    left, right = (_flat_table(part, scale, half) for part in (rows[:middle], rows[middle:]))
    blank = (Span(" " * half),)
    pairs = zip_longest(left, right, fillvalue=blank)
    return [fit_line((*one, Span("  "), *other), width, scale.glyphs) for one, other in pairs]


def group_line(group: Sequence[Row], scale: Scale, width: int) -> Line:
    """The header of a group: who, where, how many, and the sums that can honestly be made."""
    owner, gpus = group[0].owner, [row.gpu for row in group]
    name = owner.role if owner.port is None else f"{owner.role} :{owner.port}"
    planned = sum(row.owner.planned for row in group)
    facts = [
        _numa(gpus),
        "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs",
        power_sum(gpus, scale),
        sm_mean(gpus, scale),
        "" if not planned else "planned" if planned == len(gpus) else f"{planned} planned",
    ]
    parts = [(Span(name, role_tone(owner)),), *((Span(fact, "muted"),) for fact in facts if fact)]
    return fit_line(joined(parts, f" {scale.glyphs.dot} "), width, scale.glyphs)


def power_sum(gpus: Sequence[GpuSample], scale: Scale) -> str:
    """`812 W (1 of 4 GPUs)`: how many of the cards the sum is over, when not all."""
    if scale.power_mixed:
        return f"W {NA} (averages and instants do not add up)"
    read = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    return f"{sum(read):,.0f} W{_out_of(read, gpus)}" if read else f"{NA} W"


def sm_mean(gpus: Sequence[GpuSample], scale: Scale) -> str:
    """`SM 34%` or `busy 97%`, over the cards that could be read."""
    label = "SM" if scale.has_activity else "busy"
    read = [value for gpu in gpus if (value := scale.sm_pct(gpu)) is not None]
    return f"{label} {percent(sum(read) / len(read))}{_out_of(read, gpus)}" if read else f"{label} {NA}"


def _out_of(read: Sequence[float], gpus: Sequence[GpuSample]) -> str:
    return "" if len(read) == len(gpus) else f" ({len(read)} of {len(gpus)} GPUs)"


def _numa(gpus: Sequence[GpuSample]) -> str:
    nodes = sorted({gpu.numa_node for gpu in gpus if gpu.numa_node is not None})
    return f"NUMA {', '.join(map(str, nodes)) or NA}"


def sentence(report: GpuReport, width: int, glyphs: Glyphs) -> list[Line]:
    """Why there is nothing to show."""
    reason = glyphs.safe(report.reason or "the host reports no GPU")
    return [fit_line((Span(f"No GPU telemetry: {reason}", "muted"),), width, glyphs)]


def with_notice(
    table: list[Line], report: GpuReport, age_s: float, stale: bool, width: int, height: int, glyphs: Glyphs
) -> list[Line]:
    """The table with its age in the header, and the report's own remark below it where there is a line left.

    Words never push a row: where there is no line left, a stall is said in the header's place.
    """
    stalled = age_s >= STALLED_S
    reason = glyphs.safe(report.reason or "")
    if stale and not stalled:
        age = (Span(f" {duration(age_s)} old", "notice"),)
        table[0] = spread(table[0], age, width, glyphs)
    if stalled:
        reason = f"GPU telemetry stalled {duration(age_s)}" + (f" ({reason})" if reason else "")
    if reason:
        line = fit_line((Span(reason, "notice" if stalled else "muted"),), width, glyphs)
        if len(table) < height:
            return [*table, line]
        if stalled:
            table[0] = line
    return table
