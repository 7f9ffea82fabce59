"""The columns of the GPU panel: what each shows, how wide it must be, and which give way first.

A column's width follows from the hardware (power limits, memory sizes), never from the numbers of the moment,
so that nothing moves while values change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from console.domain.gpu import GpuReport, GpuSample
from console.domain.ownership import UNKNOWN, Owner

from .lines import Line, Span, fit, fit_line, joined
from .meter import NA, Glyphs, bar, gib, percent, sparkline

ROLE_WORD_WIDTH = 58
"""Below this width a role is one letter."""

METRICS = ("activity_pct", "dram_pct", "tensor_pct", "pcie_tx_mb_s", "pcie_rx_mb_s")
"""Values that only some cards answer; a column for them appears once one of them was read."""


class Row(NamedTuple):
    """One GPU with its owner and its recent past."""

    gpu: GpuSample
    owner: Owner = UNKNOWN
    sm: Sequence[float | None] = ()
    power: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """What holds for all rows: labels, field widths, and what the cards have answered so far."""

    glyphs: Glyphs
    answered: frozenset[str] = frozenset()
    power_kinds: frozenset[str | None] = frozenset()
    watt_digits: int = 3
    gib_digits: int = 2

    @property
    def has_activity(self) -> bool:
        """Whether `SM` means GPM's SM activity; else it is NVML's utilisation."""
        return "activity_pct" in self.answered

    @property
    def power_mixed(self) -> bool:
        """Whether some cards report an average and others the instant: then nothing is summed."""
        return len(self.power_kinds) > 1

    def sm_pct(self, gpu: GpuSample) -> float | None:
        """The value of the SM column: one kind for all cards."""
        return gpu.activity_pct if self.has_activity else gpu.busy_pct


def scale_of(report: GpuReport, answered: frozenset[str], glyphs: Glyphs) -> Scale:
    """The scale of a report; `answered` are the metrics that were read before."""
    gpus = report.gpus
    return Scale(
        glyphs=glyphs,
        answered=answered | {name for name in METRICS for gpu in gpus if getattr(gpu, name) is not None},
        power_kinds=frozenset(gpu.power_kind for gpu in gpus if gpu.power_w is not None),
        watt_digits=_digits((gpu.power_limit_w for gpu in gpus), at_least=3),
        gib_digits=_digits((gpu.mem_total_mib and gpu.mem_total_mib / 1024 for gpu in gpus), at_least=2),
    )


def _digits(values: Iterable[float | None], at_least: int) -> int:
    return max([at_least, *(len(f"{value:.0f}") for value in values if value is not None)])


Cell = Callable[[Row, Scale, int], Line]


@dataclass(frozen=True, slots=True)
class Column:
    """`rank` 0 is the last to go; `grow` is how many cells it can use beyond `width`."""

    titles: tuple[str, ...]
    rank: int
    width: int
    cell: Cell
    grow: int = 0
    right: bool = False
    history: bool = False
    """Gives its place to words about the card where there is no column for them."""

    def title(self, width: int) -> str:
        """The fullest title that fits."""
        best = next((title for title in self.titles if len(title) <= width), self.titles[-1][:width])
        return best.rjust(width) if self.right else best.ljust(width)


def columns(scale: Scale, *, with_role: bool, width: int) -> list[Column]:
    """All columns that the cards can fill in so much width, in the order of the screen."""
    role = Column(("role",), 4, 8, _role) if width >= ROLE_WORD_WIDTH else Column(("",), 1, 2, _role_letter)
    watts, size = 2 * scale.watt_digits + 3, scale.gib_digits + 3 + max(scale.gib_digits, 3)
    busy = ("busy (NVML utilisation)", "busy (NVML)")
    shown = [
        Column(("GPU",), 0, 3, _index),
        role if with_role else None,
        Column(("SM activity",) if scale.has_activity else busy, 1, 11, _sm, grow=8),
        Column(("busy",), 9, 4, _busy, right=True) if scale.has_activity else None,
        Column(("SM, last minute", "history"), 6, 9, _sm_history, grow=51, history=True),
        Column(_power_titles(scale), 2, watts + (5 if scale.power_mixed else 0), _power, right=True),
        Column(("%lim",), 7, 4, _power_share, right=True),
        Column(("W, last minute", "W history"), 13, 12, _power_history, grow=48),
        Column(("memory", "mem"), 8, 5, _memory_bar, grow=7),
        Column(("GiB",), 3, size, _memory, right=True),
        Column(("temp",), 5, 5, _temperature, right=True),
        Column(("GHz",), 10, 4, _clock, right=True),
        Column(("DRAM",), 12, 4, _dram, right=True) if "dram_pct" in scale.answered else None,
        Column(("tensor",), 15, 6, _tensor, right=True) if "tensor_pct" in scale.answered else None,
        Column(("PCIe tx/rx GB/s", "tx/rx GB/s"), 14, 10, _pcie, grow=5, right=True)
        if "pcie_tx_mb_s" in scale.answered
        else None,
        Column(("NUMA",), 16, 4, _numa, right=True) if with_role else None,
        Column(("notes",), 11, 18, _notes, grow=16),
    ]
    return [column for column in shown if column is not None]


def _power_titles(scale: Scale) -> tuple[str, ...]:
    if scale.power_mixed:
        return ("W avg 1s / inst",)
    kind = next(iter(scale.power_kinds), None)
    return {"average": ("W avg 1s",), "instant": ("W inst",), None: ("W",)}[kind]


class Fitted(NamedTuple):
    """Columns with the widths they got; `words_in_history` where no column is left for notes."""

    columns: tuple[tuple[Column, int], ...]
    width: int
    words_in_history: bool


def fitted(columns: Sequence[Column], width: int) -> Fitted:
    """The most important columns that fit into `width`, one cell apart, stretched over what is left."""
    room = width + 1
    kept = []
    for column in sorted(columns, key=lambda column: column.rank):
        if column.width < room:
            room -= column.width + 1
            kept.append(column)
    chosen = [column for column in columns if column in kept]
    widths = _stretched(chosen, room)
    return Fitted(
        tuple(zip(chosen, widths, strict=True)), width, not any(column.cell is _notes for column in chosen)
    )


def _stretched(columns: Sequence[Column], room: int) -> list[int]:
    widths = [column.width for column in columns]
    while room > 0 and (
        able := [i for i, column in enumerate(columns) if widths[i] < column.width + column.grow]
    ):
        for i in able[:room]:
            widths[i] += 1
        room -= len(able[:room])
    return widths


def title_line(layout: Fitted, glyphs: Glyphs) -> Line:
    """The header of the table."""
    text = " ".join(column.title(width) for column, width in layout.columns)
    return fit_line((Span(text, "muted"),), layout.width, glyphs)


def row_line(row: Row, scale: Scale, layout: Fitted) -> Line:
    """One GPU; a card that answers nothing says why in words across its row."""
    if is_silent(row.gpu):
        return fit_line(_silent(row, scale, layout), layout.width, scale.glyphs)
    cells: list[Span] = []
    for column, width in layout.columns:
        words = _urgent(row, scale) if column.history and layout.words_in_history else ()
        cells += [Span(" ")] if cells else []
        cells += fit_line(words, width, scale.glyphs) if words else column.cell(row, scale, width)
    return fit_line(tuple(cells), layout.width, scale.glyphs)


def is_silent(gpu: GpuSample) -> bool:
    """Whether a card has nothing to show but the words for its state."""
    values = (gpu.sm_pct, gpu.power_w, gpu.mem_used_mib, gpu.temp_c, gpu.clock_mhz)
    return gpu.state in ("lost", "needs reset") or all(value is None for value in values)


def _silent(row: Row, scale: Scale, layout: Fitted) -> Line:
    head: list[Span] = []
    for column, width in layout.columns:
        if column.cell in (_index, _role, _role_letter):
            head += (*column.cell(row, scale, width), Span(" "))
    state = "unreadable" if row.gpu.state in ("ok", "mig") else row.gpu.state
    detail = [" ".join(scale.glyphs.safe(said).split()) for said in (row.gpu.note, row.gpu.bus_id) if said]
    return (
        *head,
        *joined([(Span(state.upper(), "state-failed"),), *((Span(said, "muted"),) for said in detail)]),
    )


def role_tone(owner: Owner) -> str:
    """The tone of a role."""
    return f"role-{owner.role}"


def spark_tone(owner: Owner) -> str:
    """The tone of a role, quieter."""
    return f"spark-{owner.role}"


def _right(text: str, width: int, tone: str = "") -> Line:
    return (Span(text.rjust(width), "muted" if text == NA and not tone else tone),)


def _index(row: Row, scale: Scale, width: int) -> Line:
    return _right(str(row.gpu.index), width, role_tone(row.owner))


def _role(row: Row, scale: Scale, width: int) -> Line:
    return (Span(fit(row.owner.role + "?" * row.owner.planned, width), role_tone(row.owner)),)


def _role_letter(row: Row, scale: Scale, width: int) -> Line:
    return (Span(fit(row.owner.role[0].upper() + "?" * row.owner.planned, width), role_tone(row.owner)),)


def _sm(row: Row, scale: Scale, width: int) -> Line:
    value = scale.sm_pct(row.gpu)
    if value is None:
        return (Span(fit(f"{NA} (MIG)" if row.gpu.state == "mig" else NA, width), "muted"),)
    return (*_bar(value, width - 5, scale, high=90.0), *_right(percent(value), 5))


def _bar(value: float | None, width: int, scale: Scale, high: float) -> Line:
    if value is None:
        return (Span(fit(NA, width), "muted"),)
    full, empty = bar(value, width, scale.glyphs)
    tone = "bar-low" if value < 50 else "bar-mid" if value < high else "bar-high"
    return (Span(full, tone), Span(empty, "bar-track"))


def _busy(row: Row, scale: Scale, width: int) -> Line:
    return _right(percent(row.gpu.busy_pct), width)


def _sm_history(row: Row, scale: Scale, width: int) -> Line:
    return (Span(sparkline(row.sm, width, 100.0, scale.glyphs), spark_tone(row.owner)),)


def _power(row: Row, scale: Scale, width: int) -> Line:
    kind = {"average": " avg", "instant": " inst", None: ""}[row.gpu.power_kind] if scale.power_mixed else ""
    used, limit = (_watts(value) for value in (row.gpu.power_w, row.gpu.power_limit_w))
    unit = f" W{kind.ljust(5)}" if scale.power_mixed else " W"
    return _of(used, f"/{limit.rjust(scale.watt_digits)}{unit}", width)


def _of(value: str, rest: str, width: int) -> Line:
    return (*_right(value, width - len(rest)), Span(rest, "muted"))


def _watts(value: float | None) -> str:
    return NA if value is None else f"{value:.0f}"


def _power_share(row: Row, scale: Scale, width: int) -> Line:
    return _right(percent(row.gpu.power_share_pct), width)


def _power_history(row: Row, scale: Scale, width: int) -> Line:
    return (
        Span(sparkline(row.power, width, row.gpu.power_limit_w or 0.0, scale.glyphs), spark_tone(row.owner)),
    )


def _memory_share(gpu: GpuSample) -> float | None:
    if gpu.mem_used_mib is None or not gpu.mem_total_mib:
        return None
    return 100.0 * gpu.mem_used_mib / gpu.mem_total_mib


def _memory_bar(row: Row, scale: Scale, width: int) -> Line:
    # A server takes nine tenths of a card by design; only what goes beyond is high.
    return _bar(_memory_share(row.gpu), width, scale, high=95.0)


def _memory(row: Row, scale: Scale, width: int) -> Line:
    total = gib(row.gpu.mem_total_mib).rjust(scale.gib_digits)
    return _of(gib(row.gpu.mem_used_mib), f"/{total} G", width)


def _temperature(row: Row, scale: Scale, width: int) -> Line:
    value = row.gpu.temp_c
    return _right(NA if value is None else f"{value:.0f}{scale.glyphs.degree}C", width)


def _clock(row: Row, scale: Scale, width: int) -> Line:
    value = row.gpu.clock_mhz
    return _right(NA if value is None else f"{value / 1000:.2f}", width)


def _dram(row: Row, scale: Scale, width: int) -> Line:
    return _right(percent(row.gpu.dram_pct), width)


def _tensor(row: Row, scale: Scale, width: int) -> Line:
    return _right(percent(row.gpu.tensor_pct), width)


def _pcie(row: Row, scale: Scale, width: int) -> Line:
    sent, received = (
        NA if value is None else f"{value / 1000:.1f}"
        for value in (row.gpu.pcie_tx_mb_s, row.gpu.pcie_rx_mb_s)
    )
    return _right(f"{sent}/{received.ljust(4)}", width)


def _numa(row: Row, scale: Scale, width: int) -> Line:
    return _right(NA if row.gpu.numa_node is None else str(row.gpu.numa_node), width)


def _notes(row: Row, scale: Scale, width: int) -> Line:
    said = [
        _urgent(row, scale),
        (Span("MIG", "muted"),) if row.gpu.state == "mig" else (),
        (Span(scale.glyphs.safe(row.gpu.note), "muted"),) if row.gpu.note else (),
        (Span("planned", "muted"),) if row.owner.planned else (),
    ]
    return fit_line(joined(said, ", "), width, scale.glyphs)


def _urgent(row: Row, scale: Scale) -> Line:
    """What is said about a card even where there is no column for it: why it is slow, who else is on it."""
    throttle, foreign = (
        scale.glyphs.safe(", ".join(said or ())) for said in (row.gpu.throttle, row.owner.foreign)
    )
    parts = ((throttle, "warning"), (foreign, "role-other"))
    return joined(((Span(text, tone),) for text, tone in parts if text), ", ")
