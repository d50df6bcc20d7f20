"""Tables that several experiments show."""

from __future__ import annotations

from fedpace.reproduce.experiment import Table
from fedpace.reproduce.results import Results


def at_the_end(results: Results, last: int) -> Table:
    """Test accuracy, the mean of the `last` evaluations, and training loss of every cell."""
    rows = [
        (
            name,
            f"{results.final(name, last=last):.2f}",
            f"{results.spread(name, lambda outcome: outcome.training_loss):.4f}",
        )
        for name in results.outcomes
    ]
    return Table("At the end", ("", "test accuracy %", "training loss"), rows)
