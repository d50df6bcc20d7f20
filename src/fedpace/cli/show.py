"""Tables for people, in a terminal or in a log file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fedpace.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console

    from fedpace.record import Run

GAP = 3  # columns of the screen between those of a table
LEAST_TEXT = 20  # columns of the screen for text that may wrap

# Labels of the counters in the result; zeros are left out.
_COUNTERS = {
    "overwritten": "updates overwritten before use",
    "dropped": "local training sessions dropped",
    "refused": "updates refused: late, too stale, or in a step not taken",
    "steps_not_taken": "server steps not taken: not finite",
    "clipped": "updates clipped",
    "not_finite": "updates rejected as not finite",
    "malformed": "updates rejected as malformed",
    "duplicates": "duplicate updates",
    "resyncs": "links resynchronised",
    "discarded": "updates left in the buffer at the end",
}


def result(run: Run) -> None:
    """Final metrics and cost of a run."""
    table(("", f"{run.name} on {run.task}"), _rows(run), align="lr")


def console() -> Console:
    """Standard output; a log file gets wider lines than a terminal may have."""
    from rich.console import Console

    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=120 if wide else None, highlight=False, markup=False)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str, caption: str = "") -> None:
    """A plain ruled table; `align` has one of l(eft), r(ight) and t(ext that may wrap) per column.

    One that is wider than the terminal goes on below, with its first column again: nothing is cut.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    screen = console()
    cells = [[visible(cell) for cell in row] for row in (header, *rows)]
    blocks = _blocks(cells, align, screen.width)
    for number, columns in enumerate(blocks):
        last = number == len(blocks) - 1
        below = Text("\n".join(map(visible, caption.split("\n")))) if caption and last else None
        style: dict[str, Any] = {"pad_edge": False, "show_edge": False, "caption_justify": "left"}
        ruled = Table(box=box.SIMPLE_HEAD, caption=below, **style)
        for at in columns:
            justify: Any = "right" if align[at] == "r" else "left"
            ruled.add_column(Text(cells[0][at]), justify=justify, no_wrap=align[at] != "t")
        for row in cells[1:]:
            ruled.add_row(*(Text(row[at]) for at in columns))
        screen.print(ruled)
        if not last:
            screen.print()


def _blocks(cells: Sequence[Sequence[str]], align: str, room: int) -> list[list[int]]:
    """The columns of each part of a table; parts after the first begin with the first column."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    widths = [
        min(width, LEAST_TEXT) if side == "t" else width for width, side in zip(widths, align, strict=True)
    ]
    blocks = [[0]]
    for at in range(1, len(widths)):
        if sum(widths[each] + GAP for each in blocks[-1]) + widths[at] > room and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(at)
    return blocks


def _rows(run: Run) -> list[tuple[str, str]]:
    from fedpace.record.run.units import format_bytes, format_seconds

    earlier = f" (at step {run.evaluated})" if run.evaluated != len(run.history) else ""
    rows = [(f"{name}{earlier}", f"{value:.4f}") for name, value in _accuracy_first(run.metrics.items())]
    rows += _clients(run)
    rows += [("privacy", str(run.privacy))] if run.privacy is not None else []
    rows += [
        ("server steps", _steps(run)),
        (run.clock, format_seconds(run.virtual_seconds)),
        ("uploaded", format_bytes(run.bytes_up)),
        ("downloaded", format_bytes(run.bytes_down)),
    ]
    rows += [
        (label, f"{run.counters[name]:,}") for name, label in _COUNTERS.items() if run.counters.get(name)
    ]
    rows += _compression(run)
    rows += _adaptivity(run)
    rows += (
        [("local training sessions", _training(run))] if {"sessions", "solved"} <= run.counters.keys() else []
    )
    rows += [("compute", str(run.summary["compute"]))] if "compute" in run.summary else []
    rows += [("local step", str(run.summary["local_step"]))] if "local_step" in run.summary else []
    rows += [("real time", _real_time(run))] if "real_seconds" in run.summary else []
    rows += [("saved as", str(run.summary["name"]))] if "name" in run.summary else []
    return rows


def _real_time(run: Run) -> str:
    """Compilation and warm-up apart: whoever runs first in a process pays for them."""
    from fedpace.record.run.units import format_seconds

    before = run.summary.get("warm_up_seconds", 0.0)
    after = f", after {format_seconds(before)} of compilation and warm-up" if before >= 0.1 else ""
    return f"{format_seconds(run.summary['real_seconds'])}{after}"


def _clients(run: Run) -> list[tuple[str, str]]:
    """How well the last model serves the clients, where that was measured."""
    last = run.client_metrics.get(len(run.history))
    if last is None or len(last.values) < 2:
        return []
    what = "client" if getattr(run.algorithm, "personal", None) is None else "personal-model"
    return [(f"{what} {last.name}", f"mean {last.mean:.4f}, worst tenth {last.worst_tenth:.4f}")]


def _compression(run: Run) -> list[tuple[str, str]]:
    """Firing rates of lazy rules and errors of lossy codecs."""
    rows = []
    for side in ("up", "down"):
        lane = run.traffic.get(side, {})
        if getattr(getattr(run.algorithm, side), "tau", 0):
            rows.append((f"lazy rule fired {side}", f"{lane.get('firing_rate', 0.0):.1%}"))
        if lane.get("relative_error"):
            rows.append((f"compression error {side}", f"{lane['relative_error']:.1%} of the norm"))
        if lane.get("phantom"):
            rows.append((f"values used but never sent {side}", f"{lane['phantom']:,}"))
    return rows


def _adaptivity(run: Run) -> list[tuple[str, str]]:
    """The share of coordinates that AMSGrad scales one by one."""
    above = run.counters.get("above_floor")
    return [] if above is None else [("coordinates above AMSGrad's floor", f"{above / run.layout.size:.1%}")]


def _accuracy_first(metrics: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    first = ("accuracy", "loss")
    return sorted(metrics, key=lambda item: first.index(item[0]) if item[0] in first else len(first))


def _steps(run: Run) -> str:
    taken = len(run.history)
    return f"{taken:,}" if taken == run.rounds else f"{taken:,} of {run.rounds:,}"


def _training(run: Run) -> str:
    """Sessions computed, and the share never needed."""
    sessions, solved = run.counters["sessions"], run.counters["solved"]
    saved = sessions - solved
    return (
        f"{solved:,} computed, {saved:,} skipped, never used ({saved / max(sessions, 1):.0%})"
        if saved
        else f"{solved:,}"
    )
