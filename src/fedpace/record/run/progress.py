"""Progress of a run: a bar on a terminal or in a notebook, a few lines in a log file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fedpace.display import html
from fedpace.record.run.units import format_bytes, format_seconds
from fedpace.sim.observer import Observer, StepRecord
from fedpace.untrusted import visible
from fedpace.vector import Vector

if TYPE_CHECKING:
    from rich.console import Console

BAR_METRICS, LOG_METRICS = 3, 8
CELL_UPDATES = 50  # of a notebook's output, at most
LOG_LINES = 10  # in a log file, however many steps there are


class Progress(Observer):
    """Passes the step and a status line to `show`."""

    def __init__(self, show: Callable[[int, str], None], *, short: bool = False) -> None:
        self._show, self._short = show, short
        self._bytes_up = self._bytes_down = 0
        self._metrics: Mapping[str, float] = {}
        self._evaluated = 0  # the step they belong to

    def recorded(self, record: StepRecord, x: Vector) -> None:
        self._bytes_up += record.bytes_up
        self._bytes_down += record.bytes_down
        if record.metrics:
            self._metrics, self._evaluated = record.metrics, record.version
        self._show(record.version, self._status(record.version, record.virtual_seconds))

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        self._bytes_up = sum(record.bytes_up for record in steps)
        self._bytes_down = sum(record.bytes_down for record in steps)
        evaluated = (record for record in reversed(steps) if record.metrics)
        self._metrics, self._evaluated = next(((last.metrics, last.version) for last in evaluated), ({}, 0))

    def begun(self, metrics: Mapping[str, float]) -> None:
        self._metrics = metrics

    def _status(self, version: int, seconds: float) -> str:
        metrics = [f"{name} {value:.4f}" for name, value in self._shown()]
        if metrics and self._evaluated != version:
            metrics[-1] += f" @{self._evaluated}" if self._short else f" (at step {self._evaluated})"
        up, down = format_bytes(self._bytes_up), format_bytes(self._bytes_down)
        sent = (f"↑{up} ↓{down}",) if self._short else (f"{up} up", f"{down} down")
        return "  ".join((*metrics, format_seconds(seconds), *sent))

    def _shown(self) -> list[tuple[str, float]]:
        """Loss and accuracy first, then a task's own; on one line not all of them."""
        usual = [name for name in ("loss", "accuracy") if name in self._metrics]
        own = [name for name in self._metrics if name not in usual]
        names = [*usual, *own][: BAR_METRICS if self._short else LOG_METRICS]
        return [(name, self._metrics[name]) for name in names]


@contextmanager
def shown(label: str, rounds: int, console: Console | None = None) -> Iterator[Observer]:
    """An observer that shows progress while the context lasts; on stderr unless a console is given."""
    from rich.console import Console

    console = console or Console(stderr=True)
    if console.is_jupyter:
        yield Progress(_cell(label, rounds))
        return
    console.print(visible(label), soft_wrap=True, highlight=False, markup=False)
    if console.is_terminal:
        with _bar(rounds, console) as show:
            yield Progress(show, short=True)
    else:
        yield Progress(_log(rounds, console))


@contextmanager
def _bar(rounds: int, console: Console) -> Iterator[Callable[[int, str], None]]:
    """One line that also fits a terminal of 80 columns."""
    from rich import progress as parts
    from rich.table import Column

    columns = (
        parts.BarColumn(bar_width=20 if console.width >= 100 else 5),
        parts.MofNCompleteColumn(),
        parts.TextColumn(
            "{task.fields[status]}", style="cyan", markup=False, table_column=Column(no_wrap=True)
        ),
        parts.TimeRemainingColumn(compact=True),
    )
    with parts.Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=rounds, status="")
        yield lambda version, status: bar.update(task, completed=version, status=status)


def _cell(label: str, rounds: int) -> Callable[[int, str], None]:
    """One output of a notebook's cell, replaced as the run advances: the last one stays, also in an export."""
    import IPython.display as notebook

    display: Any = notebook.display

    def output(version: int, status: str) -> dict[str, str]:
        line = f"{visible(label)}: step {version}/{rounds}  {status}"
        return {"text/plain": line, "text/html": html.bar(label, version, rounds, status)}

    handle = display(output(0, ""), raw=True, display_id=True)

    def show(version: int, status: str) -> None:
        if version * CELL_UPDATES // rounds > (version - 1) * CELL_UPDATES // rounds:
            handle.update(output(version, status), raw=True)

    return show


def _log(rounds: int, console: Console) -> Callable[[int, str], None]:
    digits = len(str(rounds))

    def show(version: int, status: str) -> None:
        if version * LOG_LINES // rounds > (version - 1) * LOG_LINES // rounds:
            line = f"  step {version:{digits}}/{rounds}  {status}"
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    return show
