"""Tables that several experiments show."""

from __future__ import annotations

from collections.abc import Mapping

from fedpace.reproduce.comparison import Measure, training_loss
from fedpace.reproduce.experiment import Table
from fedpace.reproduce.results import Results

Columns = Mapping[str, tuple[Measure, int]]  # title -> what is measured, digits after the point


def at_the_end(results: Results, last: int) -> Table:
    """Test accuracy and training loss of every cell, means of the `last` evaluations that have them."""
    return measured(results, last, 2, {"training loss": (training_loss(last), 4)})


def measured(results: Results, last: int, digits: int, columns: Columns, title: str = "At the end") -> Table:
    """Test accuracy, the mean of the `last` evaluations, and these columns, of every cell."""
    rows = [
        (
            name,
            f"{results.final(name, last=last):.{digits}f}",
            *(f"{results.spread(name, measure):.{places}f}" for measure, places in columns.values()),
        )
        for name in results.outcomes
    ]
    return Table(title, ("", "test accuracy %", *columns), rows)
