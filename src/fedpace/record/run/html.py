"""A run as a notebook shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedpace.display import html
from fedpace.record.run.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from fedpace.record.run.run import Run

MOST_CURVES = 4


def run_html(run: Run) -> str:
    """Curves of its metrics, what they cost, and the algorithm to unfold."""
    algorithm = (
        f"<details><summary>algorithm</summary><code>{html.text(repr(run.algorithm))}</code></details>"
    )
    title = f"{run.name} on {run.task}"
    return html.card(title, html.curves(_curves(run)), html.pairs(_cost(run)), algorithm)


def _curves(run: Run) -> Iterator[str]:
    usual = [name for name in ("accuracy", "loss") if name in run.metrics]
    names = [*usual, *(name for name in run.metrics if name not in usual)]
    for name in names[:MOST_CURVES]:
        known = [(0, run.initial_metrics[name])] if name in run.initial_metrics else []
        known += [(step.version, step.metrics[name]) for step in run.history if name in step.metrics]
        steps, values = zip(*known, strict=True)
        yield html.curve(name, steps, values, f"over {steps[-1]:,} server steps")


def _cost(run: Run) -> Iterator[tuple[str, str]]:
    taken = (
        f"{len(run.history):,}"
        if len(run.history) == run.rounds
        else f"{len(run.history):,} of {run.rounds:,}"
    )
    yield "server steps", taken
    if run.evaluated != len(run.history):
        yield "evaluated", "never" if run.evaluated is None else f"last at step {run.evaluated:,}"
    if run.stopped is not None:
        yield "stopped", html.text(run.stopped)
    yield run.clock, format_seconds(run.virtual_seconds)
    yield "sent up", format_bytes(run.bytes_up)
    yield "sent down", format_bytes(run.bytes_down)
    if "real_seconds" in run.summary:
        yield "real time", format_seconds(run.summary["real_seconds"])
    yield "seed", str(run.seed)
