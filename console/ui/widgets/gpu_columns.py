"""The columns of the GPU panel: what each shows, how wide it must be, and which give way first.

A column's width follows from the hardware (power limits, memory sizes), never from the numbers of the moment,
so that nothing moves while values change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from . import gpu_cells as cells
from .gpu_cells import Cell, Row, Scale, is_silent
from .lines import Line, Span, fit_line, joined
from .meter import Glyphs

ROLE_WORD_WIDTH = 58
"""Below this width a role is one letter."""


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
    role = (
        Column(("role",), 4, 8, cells.role)
        if width >= ROLE_WORD_WIDTH
        else Column(("",), 1, 2, cells.role_letter)
    )
    watts, size = 2 * scale.watt_digits + 3, scale.gib_digits + 3 + max(scale.gib_digits, 3)
    busy = ("busy (NVML utilisation)", "busy (NVML)")
    shown = [
        Column(("GPU",), 0, 3, cells.index),
        role if with_role else None,
        Column(("SM activity",) if scale.has_activity else busy, 1, 11, cells.sm, grow=12),
        Column(("busy",), 9, 4, cells.busy, right=True) if scale.has_activity else None,
        Column(("SM, last minute", "history"), 6, 9, cells.sm_history, grow=51, history=True),
        Column(_power_titles(scale), 2, watts + (5 if scale.power_mixed else 0), cells.power, right=True),
        Column(("%lim",), 7, 4, cells.power_share, right=True),
        Column(("W, last minute", "W history"), 15, 12, cells.power_history, grow=48),
        Column(("memory", "mem"), 8, 5, cells.memory_bar, grow=7),
        Column(("GiB",), 3, size, cells.memory, right=True),
        Column(("temp",), 5, 5, cells.temperature, right=True),
        Column(("GHz",), 10, 4, cells.clock, right=True),
        Column(("DRAM",), 11, 4, cells.dram, right=True) if "dram_pct" in scale.answered else None,
        Column(("tensor",), 14, 6, cells.tensor, right=True) if "tensor_pct" in scale.answered else None,
        Column(("PCIe tx/rx GB/s", "tx/rx GB/s"), 13, 10, cells.pcie, grow=5, right=True)
        if "pcie_tx_mb_s" in scale.answered
        else None,
        Column(("NUMA",), 16, 4, cells.numa, right=True) if with_role else None,
        Column(("notes",), 12, 12, cells.notes, grow=16),
    ]
    return [column for column in shown if column is not None]


def _power_titles(scale: Scale) -> tuple[str, ...]:
    if scale.power_mixed:
        return ("W avg/inst",)
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
        tuple(zip(chosen, widths, strict=True)),
        width,
        not any(column.cell is cells.notes for column in chosen),
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
    line: list[Span] = []
    for column, width in layout.columns:
        words = cells.urgent(row, scale) if column.history and layout.words_in_history else ()
        line += [Span(" ")] if line else []
        line += fit_line(words, width, scale.glyphs) if words else column.cell(row, scale, width)
    return fit_line(tuple(line), layout.width, scale.glyphs)


def _silent(row: Row, scale: Scale, layout: Fitted) -> Line:
    head: list[Span] = []
    for column, width in layout.columns:
        if column.cell in (cells.index, cells.role, cells.role_letter):
            head += (*column.cell(row, scale, width), Span(" "))
    state = "unreadable" if row.gpu.state in ("ok", "mig") else row.gpu.state
    said = [(Span(state.upper(), "state-failed"),)]
    for detail in (row.gpu.note, row.gpu.bus_id):
        said += [(Span(" ".join(scale.glyphs.safe(detail).split()), "muted"),)] if detail else []
    return (*head, *joined(said))
