"""Tables of thousands of rows, which look like those of `show.table` and are a hundred times cheaper to lay out."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from fedpace.untrusted import visible

GAP = "  "
LOG_FILE = 120  # columns of what is no terminal


def lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], align: str, droppable: Sequence[str] = ()
) -> None:
    """One line for each row, no wider than the terminal; `align` has one of l(eft) and r(ight) per column.

    The first column is never cut: others give way, the `droppable` ones in this order; empty ones are not shown.
    """
    cells = [[visible(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    room = shutil.get_terminal_size(fallback=(LOG_FILE, 0)).columns
    filled = [at for at in range(len(header)) if at == 0 or any(row[at] for row in cells[1:])]
    kept = _kept(header, filled, widths, droppable, room)
    cells, align = [[row[at] for at in kept] for row in cells], "".join(align[at] for at in kept)
    widths = _narrowed([widths[at] for at in kept], room)
    first, *others = (_line(row, widths, align) for row in cells)
    rule = "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    sys.stdout.write("".join(f"{line}\n" for line in (_bold(first), rule, *others)))


def _bold(text: str) -> str:
    """For terminals that name themselves; rich, which knows them all, takes longer to load than a list to write."""
    able = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return f"\x1b[1m{text}\x1b[0m" if able else text


def _line(row: Sequence[str], widths: Sequence[int], align: str) -> str:
    fitted = (_cell(text, width, side) for text, width, side in zip(row, widths, align, strict=True))
    return GAP.join(fitted).rstrip()


def _cell(text: str, width: int, side: str) -> str:
    if (taken := _width(text)) > width:
        text, taken = _cut(text, width)
    gap = " " * (width - taken)
    return gap + text if side == "r" else text + gap


def shortened(text: str, width: int) -> str:
    """The text, cut where it is wider."""
    return text if _width(text) <= width else _cut(text, width)[0]


def _cut(text: str, width: int) -> tuple[str, int]:
    """As much of a text as fits, and its width."""
    while _width(text) > max(width - 1, 0):
        text = text[:-1]
    return f"{text}…", _width(text) + 1


def _width(text: str) -> int:
    """In columns of a terminal, where some letters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _kept(
    header: Sequence[str], filled: Sequence[int], widths: Sequence[int], droppable: Sequence[str], room: int
) -> list[int]:
    """The columns that are shown: without the first few of the droppable ones, as many as it takes."""
    kept = list(filled)
    for name in droppable:
        if _total([widths[at] for at in kept]) <= room:
            break
        if (at := list(header).index(name)) in kept:
            kept.remove(at)
    return kept


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _narrowed(widths: list[int], room: int) -> list[int]:
    """The widest columns but the first give way until all fit; none below four letters."""
    over = _total(widths) - room
    while over > 0 and max(widths[1:], default=0) > 4:
        widest = widths.index(max(widths[1:]), 1)
        widths[widest] -= 1
        over -= 1
    return widths
