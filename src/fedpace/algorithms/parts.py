"""What the named algorithms have in common: parameters turned into rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedpace.aggregate import Mean, Weighted
from fedpace.aggregate.protocol import Aggregator
from fedpace.errors import require
from fedpace.local import SGD
from fedpace.pace import Rounds, Selection, selection

Steps = int | Sequence[int] | Sequence[Sequence[int]] | None
Epochs = int | tuple[int, int] | None
Select = str | Selection | Sequence[Sequence[int]]


def local(client_lr: float, steps: Steps, epochs: Epochs, batch_size: int | None, **more: Any) -> SGD:
    """The local rule; one pass over the data where nothing is said."""
    if steps is None and epochs is None:
        epochs = 1
    return SGD(client_lr, steps=steps, epochs=epochs, batch_size=batch_size, **more)  # type: ignore[arg-type]


def weighted(weighting: str) -> Aggregator:
    """Every client the same, or in proportion to its samples."""
    require(weighting in ("uniform", "samples"), "weighting", weighting, "uniform or samples")
    return Mean() if weighting == "uniform" else Weighted()


def synchronous(clients_per_round: int | None, select: Select) -> Rounds:
    return Rounds(clients_per_round, selection(select))
