"""Partitions as a notebook shows them: classes by clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedpace.display import html
from fedpace.errors import ConfigError
from fedpace.random import stream

if TYPE_CHECKING:
    from fedpace.tasks.partition.rule import Indices, Partition

CLASSES, SAMPLES, CLIENTS = 10, 2000, 40  # of the example that shows what a rule does
MOST_CLIENTS, MOST_CLASSES = 200, 40  # in one picture


def split_html(title: str, table: Indices, *more: str) -> str:
    """A picture of a table of counts, classes by clients, and the range of sizes."""
    sizes = table.sum(axis=0)
    shown = table[:MOST_CLASSES, :MOST_CLIENTS].tolist()
    low, high = sizes.min(), sizes.max()
    held = f"{low:,} to {high:,} samples" if low < high else f"{low:,} samples each"
    return html.card(
        title,
        html.heat(shown, "clients", "classes"),
        html.text(f"{table.shape[1]:,} clients with {held}"),
        *more,
    )


class ShownByExample:
    """What a rule does with ten classes of equal size."""

    __slots__ = ()

    def _repr_html_(self: Partition) -> str | None:
        """None, which means plain text, for a rule that the example does not fit."""
        labels = np.arange(SAMPLES) % CLASSES
        try:
            parts = self.split(labels, None, CLIENTS, stream(0, "partition"))
        except ConfigError:
            return None
        example = f"an example: {SAMPLES:,} samples of {CLASSES} classes over {CLIENTS} clients"
        columns = [np.bincount(labels[part], minlength=CLASSES) for part in parts]
        return split_html(repr(self), np.stack(columns, axis=1), html.text(example))
