"""Where a long text is folded into lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells


def folds(text: str, width: int) -> Iterator[int]:
    """The cells at which a text is cut into lines of at most `width` cells, its end included.

    A line ends after a blank if there is one in its second half, else wherever it is full.
    """
    cells = 0
    while text:
        line = _first_line(text, width)
        cells += cell_len(line)
        yield cells
        text = text[len(line) :]


def _first_line(text: str, width: int) -> str:
    line = text[:width] if text[:width].isascii() else _chopped(text, width)
    if len(line) == len(text):
        return line
    blank = line.rfind(" ", len(line) // 2) + 1
    return line[:blank] if blank else line


def _chopped(text: str, width: int) -> str:
    """As much as fits, and no character cut in half."""
    lines = chop_cells(text[: 4 * width], width)
    if len(lines) == 1:  # characters without a width of their own
        lines = chop_cells(text, width)
    # A character that is wider than the line stands alone, and is cut when it is drawn.
    return lines[0] if lines and lines[0] else text[:1]
