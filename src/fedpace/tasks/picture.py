"""A partition as a picture: classes by clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedpace.tasks.partition.rule import Indices

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def split_picture(counts: Indices, title: str = "") -> Figure:
    """How many samples of each class (rows of `counts`) each client (columns) holds, and its total."""
    from fedpace.display.figure import DisplayedFigure

    classes, clients = counts.shape
    figure = DisplayedFigure(figsize=(min(16.0, 4.0 + 0.08 * clients), 4.8), layout="constrained")
    sizes, grid = figure.subplots(2, 1, sharex=True, height_ratios=(1, 3))
    sizes.bar(np.arange(clients), counts.sum(axis=0), width=0.9, color="#0072B2")
    sizes.set_ylabel("samples")
    sizes.spines[["top", "right"]].set_visible(False)
    image = grid.imshow(counts, aspect="auto", cmap="Blues", interpolation="nearest", origin="lower")
    grid.set_xlabel("client")
    grid.xaxis.get_major_locator().set_params(integer=True)
    grid.set_ylabel("class")
    if classes <= 20:
        grid.set_yticks(range(classes))
    figure.colorbar(image, ax=grid, label="samples of the class", pad=0.01)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure
