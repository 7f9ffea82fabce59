"""What the GPU panel says about one card: a cell for each kind of value, exactly as wide as it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from console.domain.gpu import GpuReport, GpuSample
from console.domain.ownership import UNKNOWN, Owner

from .lines import Line, Span, fit, fit_line, joined
from .meter import NA, Glyphs, bar, gib, percent, sparkline

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


def is_silent(gpu: GpuSample) -> bool:
    """Whether a card has nothing to show but the words for its state."""
    values = (gpu.sm_pct, gpu.power_w, gpu.mem_used_mib, gpu.temp_c, gpu.clock_mhz)
    return gpu.state in ("lost", "needs reset") or all(value is None for value in values)


Cell = Callable[[Row, Scale, int], Line]
"""One kind of value of one card, in exactly so many cells of the screen."""


def role_tone(owner: Owner) -> str:
    """The tone of a role."""
    return f"role-{owner.role}"


def spark_tone(owner: Owner) -> str:
    """The tone of a role, quieter."""
    return f"spark-{owner.role}"


def _right(text: str, width: int, tone: str = "") -> Line:
    return (Span(text.rjust(width), "muted" if text == NA and not tone else tone),)


def index(row: Row, scale: Scale, width: int) -> Line:
    return _right(str(row.gpu.index), width, role_tone(row.owner))


def role(row: Row, scale: Scale, width: int) -> Line:
    return (Span(fit(row.owner.role + "?" * row.owner.planned, width), role_tone(row.owner)),)


def role_letter(row: Row, scale: Scale, width: int) -> Line:
    return (Span(fit(row.owner.role[0].upper() + "?" * row.owner.planned, width), role_tone(row.owner)),)


def sm(row: Row, scale: Scale, width: int) -> Line:
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


def busy(row: Row, scale: Scale, width: int) -> Line:
    return _right(percent(row.gpu.busy_pct), width)


def sm_history(row: Row, scale: Scale, width: int) -> Line:
    return (Span(sparkline(row.sm, width, 100.0, scale.glyphs), spark_tone(row.owner)),)


def power(row: Row, scale: Scale, width: int) -> Line:
    used, limit = (_watts(value) for value in (row.gpu.power_w, row.gpu.power_limit_w))
    kind = {"average": " avg ", "instant": " inst", None: "     "}[row.gpu.power_kind]
    unit = f" W{kind}" if scale.power_mixed else " W"
    return _of(used, f"/{limit.rjust(scale.watt_digits)}{unit}", width)


def _of(value: str, rest: str, width: int) -> Line:
    return (*_right(value, width - len(rest)), Span(rest, "muted"))


def _watts(value: float | None) -> str:
    return NA if value is None else f"{value:.0f}"


def power_share(row: Row, scale: Scale, width: int) -> Line:
    return _right(percent(row.gpu.power_share_pct), width)


def power_history(row: Row, scale: Scale, width: int) -> Line:
    return (
        Span(sparkline(row.power, width, row.gpu.power_limit_w or 0.0, scale.glyphs), spark_tone(row.owner)),
    )


def _memory_share(gpu: GpuSample) -> float | None:
    if gpu.mem_used_mib is None or not gpu.mem_total_mib:
        return None
    return 100.0 * gpu.mem_used_mib / gpu.mem_total_mib


def memory_bar(row: Row, scale: Scale, width: int) -> Line:
    # A server takes nine tenths of a card by design; only what goes beyond is high.
    return _bar(_memory_share(row.gpu), width, scale, high=95.0)


def memory(row: Row, scale: Scale, width: int) -> Line:
    total = gib(row.gpu.mem_total_mib).rjust(scale.gib_digits)
    return _of(gib(row.gpu.mem_used_mib), f"/{total} G", width)


def temperature(row: Row, scale: Scale, width: int) -> Line:
    value = row.gpu.temp_c
    return _right(NA if value is None else f"{value:.0f}{scale.glyphs.degree}C", width)


def clock(row: Row, scale: Scale, width: int) -> Line:
    value = row.gpu.clock_mhz
    return _right(NA if value is None else f"{value / 1000:.2f}", width)


def dram(row: Row, scale: Scale, width: int) -> Line:
    return _right(percent(row.gpu.dram_pct), width)


def tensor(row: Row, scale: Scale, width: int) -> Line:
    return _right(percent(row.gpu.tensor_pct), width)


def pcie(row: Row, scale: Scale, width: int) -> Line:
    sent, received = (
        NA if value is None else f"{value / 1000:.1f}"
        for value in (row.gpu.pcie_tx_mb_s, row.gpu.pcie_rx_mb_s)
    )
    return _right(f"{sent}/{received.ljust(4)}", width)


def numa(row: Row, scale: Scale, width: int) -> Line:
    return _right(NA if row.gpu.numa_node is None else str(row.gpu.numa_node), width)


def notes(row: Row, scale: Scale, width: int) -> Line:
    said = [
        urgent(row, scale),
        (Span("MIG", "muted"),) if row.gpu.state == "mig" else (),
        (Span(scale.glyphs.safe(row.gpu.note), "muted"),) if row.gpu.note else (),
        (Span("planned", "muted"),) if row.owner.planned else (),
    ]
    return fit_line(joined(said, ", "), width, scale.glyphs)


def urgent(row: Row, scale: Scale) -> Line:
    """What is said about a card even where there is no column for it: why it is slow, who else is on it."""
    throttle, foreign = (
        scale.glyphs.safe(", ".join(said or ())) for said in (row.gpu.throttle, row.owner.foreign)
    )
    parts = ((throttle, "warning"), (foreign, "role-other"))
    return joined(((Span(text, tone),) for text, tone in parts if text), ", ")
